"""Mutated and hostile scripts: no crash, no hang, no file outside the project, nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import mutations
from benchmarks.preflight import hostile
from benchmarks.preflight.watched import Watch
from tests.profiles import MANY

HOSTILE = 1000 if MANY else 66
MUTANTS = 400 if MANY else 40
SLOW = {"seq2seq_gru", "ernie_mlm"}


def test_no_script_harms_the_reader(tmp_path: Path) -> None:
    made = list(mutations.make_hostile(tmp_path / "hostile"))
    made = made[:: max(1, len(made) // HOSTILE)][:HOSTILE]
    # The slow ones of our own scripts are left to `python -m benchmarks.mutations`.
    sources = [one for one in mutations.originals() if one.parent.name not in SLOW]
    made += mutations.make_mutants(tmp_path / "mutants", 11, MUTANTS, sources)
    before = set(tmp_path.rglob("*"))
    results = mutations.judge(made)
    assert len(results) == len(made)
    bad = [f"{one.name}: {one.outcome} {one.broken}" for one in results if one.bad]
    assert not bad, "\n".join(bad)
    assert set(tmp_path.rglob("*")) == before
    understood = sum(one.outcome == "static" for one in results)
    assert understood > len(results) / 4, "hostile lines are to be read past, not only refused"


def test_a_seed_gives_the_same_scripts(tmp_path: Path) -> None:
    one = [path.read_bytes() for path in mutations.make_mutants(tmp_path / "a", 5, 24)]
    two = [path.read_bytes() for path in mutations.make_mutants(tmp_path / "b", 5, 24)]
    other = [path.read_bytes() for path in mutations.make_mutants(tmp_path / "c", 6, 24)]
    assert one == two
    assert one != other


def test_links_are_made(tmp_path: Path) -> None:
    list(mutations.make_hostile(tmp_path))
    for name, links in hostile.LINKS.items():
        for link in links:
            assert (tmp_path / name / link).is_symlink()


@pytest.mark.parametrize(
    ("event", "args", "word"),
    [
        ("open", ("/etc/passwd", "r", os.O_RDONLY), "/etc/passwd"),
        ("open", (b"/etc/hosts", "rb", os.O_RDONLY), "/etc/hosts"),
        ("open", ("{project}/out", "w", os.O_WRONLY | os.O_CREAT), "for writing"),
        ("open", ("{project}/../beside", "r", os.O_RDONLY), "beside"),
        ("open", ("{project}/link", "r", os.O_RDONLY), "/etc/hostname"),
        ("os.listdir", ("/",), "os.listdir /"),
        ("socket.connect", (None, ("example.com", 80)), "socket.connect"),
        ("subprocess.Popen", ("sh", ["sh"], None, None), "subprocess.Popen"),
        ("os.system", (b"id",), "os.system"),
    ],
)
def test_the_watch_sees_what_is_forbidden(
    tmp_path: Path, event: str, args: tuple[object, ...], word: str
) -> None:
    watch = Watch()
    watch.project, watch.on = os.path.realpath(tmp_path), True
    (tmp_path / "link").symlink_to("/etc/hostname")
    named = [a.format(project=tmp_path) if isinstance(a, str) else a for a in args]
    watch.hook(event, tuple(named))
    assert len(watch.broken) == 1
    assert word in watch.broken[0]


def test_the_watch_allows_the_project_and_python(tmp_path: Path) -> None:
    watch = Watch()
    watch.project, watch.on = os.path.realpath(tmp_path), True
    watch.hook("open", (str(tmp_path / "train.py"), "r", os.O_RDONLY))
    watch.hook("open", (os.__file__, "r", os.O_RDONLY))
    watch.hook("os.listdir", (str(tmp_path),))
    assert watch.broken == []


def test_a_crash_a_hang_and_a_death_are_told() -> None:
    for outcome in ("CRASH TypeError", "HANG here", "DIED"):
        assert mutations.Result("x", 0.1, outcome, ()).bad
    assert mutations.Result("x", 0.1, "static", ("open /etc/passwd",)).bad
    assert not mutations.Result("x", 0.1, "unknown", ()).bad
