"""Measuring for `preflight` where hosts or the journal cannot be used: there is an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import measurement
from gpuconsole.cli.entry import main
from gpuconsole.core.estimate import Isolation
from gpuconsole.core.jobs import Task
from gpuconsole.errors import JournalError, UsageError
from gpuconsole.preflight.tiers.ladder import Run, Site
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.process import Child, Limits
from gpuconsole.session.reading.questions import Naming

HIDDEN = "import ctypes\nimport paddle\nnet = paddle.nn.Linear(8, ctypes.c_long(4).value)\n"
INVENTORY = "version: 1\nhosts:\n  - {name: a, address: 192.0.2.1}\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        "gpuconsole.session.estimate.measurement_sites.importlib.util.find_spec", lambda name: None
    )
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(HIDDEN)
    return path


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[dict[str, Any], str]:
    main(["--state", *map(str, words), "--offline", "--json"])
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_each_tier_says_why_it_was_not_possible(
    tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = asked(capsys, tmp_path / "state", "preflight", script)
    assert [(tier["tier"], tier["outcome"]) for tier in found["tiers"]] == [
        ("static", "unknown"), ("meta", "impossible"), ("traced", "impossible"),
    ]  # fmt: skip
    assert found["tiers"][1]["why"] == "Paddle is not installed on this machine"


def test_one_process_reads_the_script_for_all_that_is_asked_of_it(
    tmp_path: Path,
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun: list[Child] = []

    class Counted(Child):
        def __init__(self, limits: Limits, *, copied: bool = False) -> None:
            super().__init__(limits, copied=copied)
            begun.append(self)

    def measured(task: Task, mode: str, reader: AsyncReader, **places: object) -> None:
        assert asyncio.run(reader.asked(Naming(task, "meta")))

    monkeypatch.setattr("gpuconsole.session.reading.reader.Child", Counted)
    monkeypatch.setattr(measurement, "measure", measured)
    found, _ = asked(capsys, tmp_path / "state", "preflight", script, "--tier", "meta", "--local")
    assert "not measured" in found["error"]["title"]
    assert len(begun) == 1


def test_the_lab_may_say_that_nothing_is_measured(
    tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "lab.yaml"
    inventory.write_text(INVENTORY + "lab: {measure: never}\n")
    state = tmp_path / "state"
    for words in ((), ("--measure", "auto")):
        found, _ = asked(capsys, state, "--inventory", inventory, "preflight", script, *words)
        assert "measure: never" in found["tiers"][1]["why"]


def test_without_a_session_this_machine_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(work: object) -> None:
        raise JournalError("Journal is too new", "It is of version 99.")

    monkeypatch.setattr("gpuconsole.cli.sessions.drive", broken)
    task: Any = None
    assert measurement._climb_there(task, task, task) is None
    assert "Journal is too new" in capsys.readouterr().err


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Isolation], None]:
    monkeypatch.setattr("gpuconsole.remote.isolation.sandbox.require_sandbox", lambda sandbox: None)
    monkeypatch.setattr(measurement, "_state", lambda: tmp_path / "state")

    def changed(kind: Isolation) -> None:
        monkeypatch.setattr("gpuconsole.remote.isolation.sandbox.Sandbox.kind", kind)

    return changed


def test_consent_holds_for_the_isolation_that_was_agreed_to(
    sandbox: Callable[[Isolation], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def agrees(said: str, **options: object) -> bool:
        asked.append(said)
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(measurement.click, "confirm", agrees)
    for kind, questions in (("bubblewrap", 1), ("bubblewrap", 1), ("files-open", 2),
                            ("files-open", 2), ("bubblewrap", 2)):  # fmt: skip
        sandbox(kind)  # type: ignore[arg-type]
        assert measurement._agreed_here(yes=False) == kind
        assert len(asked) == questions


def test_yes_is_no_consent_to_open_files(
    sandbox: Callable[[Isolation], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    sandbox("bubblewrap")
    assert measurement._agreed_here(yes=True) == "bubblewrap"
    sandbox("files-open")
    with pytest.raises(UsageError, match="This runs the script") as refused:
        measurement._agreed_here(yes=True)
    assert "--yes does not cover this" in refused.value.hint
    assert measurement._agreed_here(yes=True, needed=False) is None
    assert "--yes does not cover this" in capsys.readouterr().err


async def test_the_user_of_a_climb_agrees_to_the_isolation_of_its_site(
    sandbox: Callable[[Isolation], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with measurement.watching(yes=True) as user:
        for site, now, agreed in (
            (Site("gpu-1"), "files-open", True),
            (Site(), "bubblewrap", True),
            (Site(isolation="files-open"), "files-open", False),
            # It was removed meanwhile.
            (Site(), "files-open", False),
        ):
            sandbox(now)  # type: ignore[arg-type]
            assert await user.agree(Run("meta", site, 60.0, ask=True)) is agreed


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (("--tier", "guess"), "This tier is not available"),
        (("--local",), "Nothing to measure"),
        (("--tier", "static", "--host", "a"), "Nothing to measure"),
    ],
)  # fmt: skip
def test_a_place_to_measure_needs_a_tier_that_is_measured(
    tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...],
    title: str,
) -> None:  # fmt: skip
    found, _ = asked(capsys, tmp_path / "state", "preflight", script, *words)
    assert found["error"]["title"] == title


def test_progress_in_a_terminal_says_how_to_end_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    telling = measurement._Telling()
    telling(0.5, "traced on gpu-01: batch 4, step 2 of 3" + " of more" * 9)
    line = capsys.readouterr().err.removeprefix("\r")
    assert "traced on gpu-01: batch 4, step 2 of 3" in line
    assert line.endswith("Ctrl-C ends")
    assert len(line) < 80
