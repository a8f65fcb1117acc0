"""The pure parts of the corpus of the wild: the manifest, the rule of drawing, the records."""

from __future__ import annotations

import argparse
import ast
import gc
import gzip
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import threading
import time
import wave
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks.wild import __main__ as command
from benchmarks.wild import (
    beside,
    data,
    drawing,
    goals,
    judging,
    layout,
    manifest,
    names,
    page,
    processor,
    records,
    running,
    truth,
)  # fmt: skip
from benchmarks.wild.judging import Result
from benchmarks.wild.manifest import Entry, Repository, Truth
from benchmarks.wild.running import Answer
from tests.waiting import wait_until

REPOSITORY = Repository("someone/net_paddle", "0" * 40)
MIB = 1 << 20


def entry(name: str = "train.py", *, truth: tuple[Truth, ...] = (), cannot_run: str = "") -> Entry:
    return Entry(f"someone:{name}", "b", REPOSITORY, name, ".", (), cannot_run, (), truth, "")


def answer(
    peak: float | None = None,
    *,
    batch: int | None = None,
    width: float = 0.0,
    faults: tuple[str, ...] = (),
    unknowns: tuple[str, ...] = (),
    broken: str = "",
) -> Answer:
    low, high = (None, None) if peak is None else (peak - width, peak + width)
    return Answer(batch, peak, low, high, faults, unknowns, broken, 2.0)


def test_the_manifest_is_as_wide_as_it_says() -> None:
    corpus = manifest.load()
    third = [one for one in corpus.entries if one.batch.startswith("third-party")]
    suites = [one for one in corpus.entries if one.batch.startswith("suites")]
    assert len(third) >= 150
    # Fewer than were drawn, for each is run with real Paddle 3, which refuses many.
    assert sum(one.can_run for one in third) >= 35
    assert len({one.repository for one in third if one.can_run}) >= 28
    assert sum(one.can_run for one in suites) >= 40
    assert len({one.repository for one in suites}) == 13
    # Batches had about 28 and 16 when they were drawn; real Paddle 3 refuses some of them.
    assert sum(one.can_run for one in corpus.of("third-party-1")) >= 8
    assert sum(one.can_run for one in corpus.of("third-party-2")) >= 6
    assert sum(one.can_run for one in corpus.of("suites-1")) >= 11
    assert sum(one.can_run for one in corpus.of("suites-2")) >= 10
    assert sum(one.can_run for one in corpus.of("suites-4")) >= 10
    assert sum(bool(one.truth) for one in corpus.of("suites-5")) >= 12
    assert sum(one.has_truth for one in corpus.of("suites-6")) >= 10
    assert sum(one.has_truth for one in corpus.of("third-party-10")) >= 12
    assert sum(one.can_run for one in corpus.of("third-party-6")) >= 25
    unseen = [one for name in ("third-party-7", "third-party-8") for one in corpus.of(name)]
    assert sum(one.has_truth for one in unseen) >= 25
    held_out = {"third-party-2", "third-party-6", "third-party-7", "third-party-8"}
    assert corpus.held_out >= held_out | {"suites-2", "suites-4", "suites-5", "third-party-9"}
    assert corpus.held_out >= {"suites-6", "third-party-10", "third-party-11"}
    assert sum(one.has_truth for one in corpus.of("third-party-11")) >= 24
    assert corpus.held_out >= {"suites-7", "third-party-12"}
    assert sum(one.has_truth for one in corpus.of("third-party-12")) >= 25
    assert sum(one.has_truth for one in corpus.of("suites-7")) >= 10
    assert corpus.held_out >= {"suites-8", "third-party-13"}
    assert sum(one.has_truth for one in corpus.of("third-party-13")) >= 14
    assert sum(one.has_truth for one in corpus.of("suites-8")) >= 11
    assert corpus.held_out >= {"suites-9", "third-party-14"}
    assert sum(one.has_truth for one in corpus.of("third-party-14")) >= 22
    assert sum(one.has_truth for one in corpus.of("suites-9")) >= 10
    assert corpus.held_out >= {"suites-10", "third-party-15"}
    assert sum(one.has_truth for one in corpus.of("third-party-15")) >= 50
    assert sum(one.has_truth for one in corpus.of("suites-10")) >= 12
    assert corpus.held_out >= {"suites-11", "third-party-16"}
    assert sum(one.has_truth for one in corpus.of("third-party-16")) >= 26
    assert sum(one.has_truth for one in corpus.of("suites-11")) >= 18
    assert corpus.held_out >= {"suites-12", "third-party-17"}
    assert sum(one.has_truth for one in corpus.of("third-party-17")) >= 31
    assert sum(one.has_truth for one in corpus.of("suites-12")) >= 24
    assert corpus.held_out >= {"suites-13", "third-party-18"}
    assert sum(one.has_truth for one in corpus.of("third-party-18")) >= 29
    assert sum(one.has_truth for one in corpus.of("suites-13")) >= 13
    assert corpus.held_out >= {"suites-14", "third-party-19"}
    assert sum(one.has_truth for one in corpus.of("third-party-19")) >= 27
    assert sum(one.has_truth for one in corpus.of("suites-14")) >= 17
    assert corpus.held_out >= {"suites-15", "third-party-20"}
    assert sum(one.has_truth for one in corpus.of("third-party-20")) >= 27
    assert sum(one.has_truth for one in corpus.of("suites-15")) >= 12
    assert corpus.held_out >= {"suites-16", "third-party-21"}
    assert sum(one.has_truth for one in corpus.of("third-party-21")) >= 29
    assert sum(one.has_truth for one in corpus.of("suites-16")) >= 11
    assert corpus.held_out >= {"suites-17", "third-party-22"}
    assert sum(one.has_truth for one in corpus.of("third-party-22")) >= 18
    assert sum(one.has_truth for one in corpus.of("suites-17")) >= 8
    assert corpus.held_out >= {"suites-18", "third-party-23"}
    assert sum(one.has_truth for one in corpus.of("third-party-23")) >= 28
    assert sum(one.has_truth for one in corpus.of("suites-18")) >= 16


def test_what_does_not_count_was_run_and_ended() -> None:
    corpus = manifest.load()
    for one in corpus.entries:
        if one.can_run:
            assert not one.shown_by, one.id
        elif one.batch != "suites-2":
            assert one.shown_by in ("run", "part", "source"), f"{one.id} was never run: it counts"


def test_a_repository_of_third_parties_belongs_to_one_batch_only() -> None:
    batches: dict[Repository, set[str]] = {}
    for one in manifest.load().entries:
        # Scripts of the last ten are further ones of repositories that were drawn from before.
        further = one.batch in {f"third-party-{number}" for number in range(15, 25)}
        if one.batch.startswith("third-party") and not further:
            batches.setdefault(one.repository, set()).add(one.batch)
    assert all(len(names) == 1 for names in batches.values())


def test_an_id_that_is_used_twice_is_refused(tmp_path: Path) -> None:
    script = {"id": "a", "batch": "b", "script": "train.py"}
    repository = {"name": "someone/x", "commit": "0", "scripts": [script, script]}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"held_out": [], "repositories": [repository]}))
    with pytest.raises(ValueError, match="used twice: a"):
        manifest.load(path)


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def none_absent(files: Sequence[names.Names]) -> tuple[str, ...]:
    """Stand for a Paddle that has every name: these tests need none."""
    return ()


LOOP = "import paddle\ndef fit(m, o):\n    m().backward()\n    o.step()\n"


def test_a_script_that_trains_when_started_is_drawn_with_the_command_of_the_readme(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        engine=LOOP,
        train="import yaml\nfrom engine import fit\nif __name__ == '__main__':\n    fit()\n",
        evaluate="from engine import fit\nif __name__ == '__main__':\n    pass\n",
        library=LOOP,
    )
    (tmp_path / "README.md").write_text(
        "`python train.py --data <yours> --out=<folder> \\\n --epochs 3`\n"
    )
    (drawn,) = drawing.draw(tmp_path, absent=none_absent).entries
    assert drawn.script == "train.py"
    assert drawn.workdir == "."
    assert drawn.argv == ("--data", "data", "--out=data", "--epochs", "3")
    assert drawn.modules == ("yaml",)


def test_a_program_that_uses_what_the_installed_paddle_lacks_is_left_out(tmp_path: Path) -> None:
    main = "if __name__ == '__main__':\n    fit()\n"
    write(
        tmp_path,
        old__engine="import paddle.fluid as fluid\n" + LOOP,
        old__train="from engine import fit\n" + main,
        new__train=LOOP + "try:\n    import paddle.fluid\nexcept ImportError:\n    pass\n" + main,
    )

    def absent(files: Sequence[names.Names]) -> list[str]:
        used = {name for file in files for name in file.used}
        return sorted(used & {"paddle.fluid"})

    found = drawing.draw(tmp_path, absent=absent)
    assert [one.script for one in found.entries] == ["new/train.py"]
    assert found.left_out == {"old/train.py": ("paddle.fluid",)}


USES = """
import xml.dom as dom, os.path
from xml import sax, gone
from xml.sax import handler as h

dom.minidom.Node.ELEMENT_NODE.whatever
dom.nosuch.part
os.path.nosuch
xml.dom.unbound
def f(sax):
    sax.shadowed
try:
    import xml.old as old
    dom.older
except (ValueError, ImportError):
    from xml import oldest
try:
    dom.strict
except KeyError:
    pass
if hasattr(dom, "newer"):
    dom.newer
dom.Node.own = 1
dom.Node.own.more
"""


def test_the_names_of_a_library_that_a_file_uses_are_read() -> None:
    found = names.names_in(ast.parse(USES), "xml")
    assert found.used == {
        "xml.dom", "xml.sax", "xml.gone", "xml.sax.handler", "xml.dom.minidom",
        "xml.dom.minidom.Node", "xml.dom.minidom.Node.ELEMENT_NODE",
        "xml.dom.minidom.Node.ELEMENT_NODE.whatever", "xml.dom.nosuch", "xml.dom.nosuch.part",
        "xml.dom.strict", "xml.dom.Node", "xml.dom.Node.own", "xml.dom.Node.own.more",
    }  # fmt: skip
    assert found.defined == {"xml.dom.Node.own"}


def test_names_are_absent_that_the_installed_library_lacks_and_no_file_defines() -> None:
    user = names.names_in(ast.parse(USES), "xml")
    assert names.absent([user]) == ("xml.dom.nosuch", "xml.dom.strict", "xml.gone")
    patch = names.Names(defined=frozenset({"xml.dom.strict", "xml.gone.f"}))
    assert names.absent([user, patch]) == ("xml.dom.nosuch", "xml.gone")
    assert not names.exists("no_such_library")


def test_a_torch_script_and_a_library_are_not_entries(tmp_path: Path) -> None:
    write(tmp_path, train=LOOP.replace("paddle", "torch") + "fit()\n", library=LOOP)
    assert drawing.draw(tmp_path, absent=none_absent).entries == ()


def test_a_script_that_trains_in_several_statements_at_its_top_is_drawn(tmp_path: Path) -> None:
    prepare = "import paddle\nmodel = paddle.Model(net)\nmodel.prepare(optimizer)\n"
    write(tmp_path, first=prepare + "model.fit(data)\n", unused=prepare)
    (drawn,) = drawing.draw(tmp_path, absent=none_absent).entries
    assert drawn.script == "first.py"


def test_a_folder_named_like_a_script_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, train=LOOP + "fit()\n")
    (tmp_path / "run.py").mkdir()
    (tmp_path / "net.yml").mkdir()
    (drawn,) = drawing.draw(tmp_path, absent=none_absent).entries
    assert drawn.script == "train.py"
    assert drawing.draw_configurations(tmp_path, ".", 10) == []


def test_configurations_are_drawn_but_not_their_parts(tmp_path: Path) -> None:
    for name in ("a/net.yml", "a/other.yml", "_base_/part.yml", "a/data.yml"):
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Dataset: x\n" if "data" in name else "optimizer:\n  type: sgd\n")
    drawn = drawing.draw_configurations(tmp_path, "configs", 10)
    assert sorted(drawn) == ["configs/a/net.yml", "configs/a/other.yml"]


def test_a_mirror_is_laid_out_without_links_and_large_files(tmp_path: Path) -> None:
    git = tmp_path / "mirrors" / REPOSITORY.folder / "repo"
    work = tmp_path / "work"
    work.mkdir()
    write(work, train="x = 1\n")
    (work / "link.py").symlink_to("/etc/passwd")
    (work / "large.bin").write_bytes(bytes(layout.LARGEST_FILE + 1))
    commit = _commit(work)
    git.parent.mkdir(parents=True)
    (work / ".git").rename(git)
    repository = Repository(REPOSITORY.name, commit)
    root = layout.lay_out(repository, tmp_path / "corpus", tmp_path / "mirrors")
    assert sorted(path.name for path in root.iterdir()) == [".git", "train.py"]
    said = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True)
    assert said.returncode == 0, "scripts ask which version they are"
    with pytest.raises(layout.MissingRepositoryError):
        layout.lay_out(Repository("a/b", commit), tmp_path / "corpus", tmp_path / "mirrors")


def _commit(work: Path) -> str:

    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *words], cwd=work, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=work, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_document_is_an_answer_of_the_tier_asked_only() -> None:
    root = Path("/corpus/x")
    memory = {"tensors_peak_mib": 3.0, "low_mib": 2.0, "high_mib": 4.0, "context_mib": 0.0}
    document = {
        "tier": "static",
        "memory": memory,
        "unknowns": [{"file": "/corpus/x/a.py", "line": 3, "reason": "why"}],
    }
    found = running.read(document, "static", 4, 1.0, root)
    assert (found.peak_bytes, found.low_bytes, found.high_bytes) == (3 * MIB, 2 * MIB, 4 * MIB)
    assert found.unknowns == ("a.py:3: why",)
    assert not running.read(document, "meta", 4, 1.0, root).answered
    error = running.read({"error": {"title": "no", "message": "never"}}, "meta", 4, 1.0, root)
    assert error.broken == "no: never"
    message = {"title": "no", "message": f"{root}/train.py:3: never"}
    error = running.read({"error": message}, "meta", 4, 1.0, root)
    assert error.broken == "no: train.py:3: never"


def test_the_ladder_s_answer_says_which_tier_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path("/corpus/x")
    memory = {"tensors_peak_mib": 3.0, "low_mib": 2.0, "high_mib": 4.0, "context_mib": 0.0}
    tiers = [{"tier": "static", "why": "pandas"}, {"tier": "meta", "why": "no loader"}]
    known = {"tier": "traced", "memory": memory, "tiers": tiers}
    found = running.read(known, "ladder", None, 1.0, root)
    assert (found.answered, found.tier) == (True, "traced")
    unknown = {"tier": "unknown", "memory": None, "tiers": tiers}
    silent = running.read(unknown, "ladder", None, 1.0, root)
    assert (silent.unknowns, silent.tier) == (("meta: no loader", "static: pandas"), "")
    results = [Result(entry(), (found,)), Result(entry("b.py"), (silent,))]
    assert judging.summary(results)["answered_by"] == {"traced": 1}
    said = judging.report("b", "ladder", results)
    assert "answered by traced 3.00 MiB" in said
    assert "meta: no loader\n            static: pandas" in said
    run = records.run_of(
        "b", "ladder", results, date="2026-01-02", commit="abc", before=False, with_data=True,
        libraries="none",
    )  # fmt: skip
    known_now = manifest.Manifest((entry(), entry("b.py")), frozenset())
    monkeypatch.setattr(manifest, "load", lambda: known_now)
    assert "| 1 of 2 (traced 1) |" in page.table([run], [])
    words = running._arguments(entry(), root, "ladder", Path("/s"), 4)
    assert "--tier" not in words
    assert "--local" not in words
    assert "--yes" in words


def test_the_outcome_is_that_of_the_script_s_own_batch_size() -> None:
    assert Result(entry(), (answer(1.0), answer(batch=2))).outcome == judging.ANSWERED
    assert Result(entry(), (answer(faults=("f",)),)).outcome == judging.ACCUSED
    assert Result(entry(), (answer(broken="b"),)).cause == "b"
    assert Result(entry(), (answer(unknowns=("u",)),)).outcome == judging.UNKNOWN
    assert Result(entry(), (), "not laid out").outcome == judging.NOT_HERE
    assert Result(entry(cannot_run="fluid"), ()).outcome == judging.NOT_COUNTED


def test_errors_are_held_against_the_truth_and_only_scripts_that_can_run_count() -> None:
    measured = entry(truth=(Truth(2, 100), Truth(4, 200)))
    results = [
        Result(measured, (answer(50.0), answer(101.0, batch=2, width=2), answer(150.0, batch=4))),
        Result(entry("b.py"), (answer(unknowns=("u",)),)),
        Result(entry("c.py", cannot_run="fluid"), ()),
    ]
    figures = judging.summary(results)
    assert (figures["can_run"], figures["answered"], figures["unknown"]) == (2, 1, 1)
    assert figures["points"] == 2
    assert figures["median_error_pct"] == 13.0
    assert figures["too_low"] == 1
    assert (figures["inside_range"], figures["ranges"]) == (1, 2)


def test_causes_are_grouped_by_what_is_not_particular_to_a_script() -> None:
    results = [
        Result(entry(name), (answer(unknowns=(cause,)),))
        for name, cause in {
            "a.py": "tools/a.py:3: module cv2.ocl is not known",
            "b.py": "b.py:40: module ppcls.utils is not known",
            "c.py": "the limit of 60 s was reached",
        }.items()
    ]
    groups = judging.causes(results)
    assert {kind: len(group) for kind, group in groups.items()} == {
        "unknown: module … is not known": 2,
        "unknown: the limit of N s was reached": 1,
    }
    assert "a.py: tools/a.py:3" in judging.report("b", "static", results)


def a_run(**changed: object) -> dict[str, object]:
    result = Result(entry(), (answer(100.0),))
    run = records.run_of(
        "b", "static", [result], date="2026-01-02", commit="abc", before=False, with_data=False,
        libraries="none",
    )  # fmt: skip
    return {**run, **changed}


def test_a_first_run_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "first-runs.json"
    records.append(a_run(), path)
    kept = path.read_text()
    with pytest.raises(records.AlreadyRunError):
        records.append(a_run(commit="def"), path)
    assert path.read_text() == kept
    records.append(a_run(tier="meta"), path)
    records.append(a_run(before=True), path)
    assert [run["tier"] for run in records.load(path)] == ["static", "meta", "static"]


def test_the_recorded_runs_are_of_whole_batches_that_exist() -> None:
    corpus = manifest.load()
    for run in [*records.load(), *records.load(records.LATEST)]:
        scripts = {one.id for one in corpus.of(run["batch"])}
        # A script may turn out later to run on Paddle 3, or not to: what was asked stays.
        assert set(run["scripts"]) <= scripts
        assert run["figures"]["can_run"] == len(run["scripts"])


@pytest.mark.parametrize(
    "words",
    [
        ["--batch", "third-party-2"],
        ["--batch", "third-party-1", "--record", "--only", "a"],
        ["--batch", "third-party-1", "--record"],
        ["--batch", "third-party-1", "--latest", "--only", "a"],
        ["--batch", "third-party-1", "--tier", "meta", "--record", "--own-batch"],
        ["--batch", "suites-1", "--latest"],
    ],
)
def test_a_run_that_would_spoil_the_records_is_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "load", lambda: [a_run(batch="third-party-1")])
    with pytest.raises(SystemExit) as refused:
        command.main(["--corpus", "/nowhere", *words])
    assert refused.value.code == 2


def test_the_pages_have_the_tables_of_the_records() -> None:
    goals, runs = page.PAGE.read_text("utf-8"), page.HISTORY.read_text("utf-8")
    again = page.with_runs(runs, records.load(), records.load(records.LATEST))
    assert runs == again, "run: python -m benchmarks.wild --page"
    assert goals == page.with_goals(goals), "run: python -m benchmarks.wild --page"


def test_the_table_says_when_and_of_which_version() -> None:
    first, latest = [a_run(before=True), a_run()], [a_run(commit="def")]
    marks = f"{page.COUNTED_BEGIN}\n{page.COUNTED_END}\n{page.BEGIN}\nold\n{page.END}\n"
    text = page.with_runs(f"a\n{marks}z\n", first, latest)
    rows = [line.split(" | ")[2:4] for line in text.splitlines() if line.startswith("| b |")]
    assert rows == [
        ["before", "2026-01-02, abc"],
        ["first", "2026-01-02, abc"],
        ["latest", "2026-01-02, def"],
    ]
    assert "old" not in text
    with pytest.raises(ValueError, match="no marks"):
        page.with_runs("no marks", [], [])


def test_a_run_is_judged_by_the_truth_that_is_known_now(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [
        Result(entry("a.py", truth=(Truth(2, 100),)), (answer(90.0), answer(101.0, batch=2))),
        Result(entry("b.py"), (answer(80.0),)),
        Result(entry("c.py"), (answer(5.0),)),
    ]
    run = records.run_of(
        "b", "meta", asked, date="2026-01-02", commit="abc", before=False, with_data=True,
        libraries="none",
    )  # fmt: skip
    later = [
        entry("a.py", truth=(Truth(2, 100),)),
        entry("b.py", truth=(Truth(None, 100),)),
        entry("c.py", cannot_run="refused"),
        entry("not asked.py", truth=(Truth(4, 100),)),
    ]
    known = manifest.Manifest(tuple(later), frozenset())
    monkeypatch.setattr(manifest, "load", lambda: known)
    row = page.table([run], []).splitlines()[-1].split(" | ")
    assert row[5:13] == ["2 of 3", "0", "2 of 3", "2", "2", "10.50 %", "20.00 %", "1"]


def first_run(tier: str, said: Sequence[Result]) -> dict[str, object]:
    batch = said[0].entry.batch
    return records.run_of(
        batch, tier, said, date="2026-01-02", commit="abc", before=False, with_data=True,
        libraries="none",
    )  # fmt: skip


def test_first_runs_are_held_against_the_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    read, run_only, off = (
        replace(entry(f"{name}.py", truth=(Truth(2, 100),)), batch="third")
        for name in ("read", "run", "off")
    )
    suite = replace(entry("tools/train.py"), batch="suites")
    known = manifest.Manifest((read, run_only, off, suite), frozenset())
    monkeypatch.setattr(manifest, "load", lambda: known)
    unknown, exact = (
        answer(unknowns=("a.py:1: what a file holds",)),
        answer(100.0, batch=2, width=1),
    )
    runs = [
        first_run("static", [
            Result(read, (answer(100.0), exact)),
            Result(run_only, (unknown, unknown)),
            Result(off, (answer(faults=("a.py:2: wrong",)),)),
        ]),
        first_run("meta", [
            Result(read, (answer(100.0), answer(50.0, batch=2, width=1))),
            Result(run_only, (answer(100.0), exact)),
            Result(off, (answer(80.0), answer(80.0, batch=2, width=30.0))),
        ]),
        *(first_run(tier, [Result(suite, (unknown,))]) for tier in ("static", "meta")),
    ]  # fmt: skip
    made = goals.table(["third", "suites"], runs)
    rows = {name: rest for name, *rest in (row[2:-2].split(" | ") for row in made.splitlines())}
    assert rows["answered by reading, third-party scripts"] == ["30 %", "1 of 3 (33 %)", "met"]
    assert rows["answered by `meta`, third-party scripts"][1:] == ["3 of 3 (100 %)", "met"]
    assert rows["answered by `meta`, entries of suites"][1:] == ["0 of 1 (0 %)", "**missed**"]
    assert rows["answered by some tier, third-party scripts"][1:] == ["3 of 3 (100 %)", "met"]
    assert rows["called wrong although it runs"][1:] == ["1 of 4", "**missed**"]
    assert rows["static, error: median, nine tenths"][1:] == [
        "0.00 %, 0.00 %; within 8 %: 1 of 1 points",
        "met",
    ]
    assert rows["meta, points more than 10 % too low"][1:] == ["2", "**missed**"]
    # A user gets the answer of reading where there is one: the wrong one of meta is not seen.
    assert rows["what a user gets, points more than 10 % too low"][1:] == ["1", "**missed**"]
    assert rows["what a user gets, truth inside the range"][1:] == ["3 of 3 (100 %)", "met"]
    assert rows["meta, truth inside the range"][1:] == ["2 of 3 (67 %)", "**missed**"]
    # Only one script was read and run, and bytes that no device notices are no difference.
    assert rows["reading confirmed by `meta`, truth inside the range"][1:] == [
        "0 of 1 (0 %)",
        "**missed**",
    ]
    with pytest.raises(ValueError, match="no first run with static: other"):
        goals.table(["third", "other"], runs)


def test_where_reading_and_a_run_differ_the_larger_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(entry(truth=(Truth(2, 200 << 20), Truth(4, 200 << 20))), batch="third")
    monkeypatch.setattr(manifest, "load", lambda: manifest.Manifest((asked,), frozenset()))
    said = {"static": (100.0, 204.0), "meta": (200.0, 200.0)}
    runs = [
        first_run(tier, [Result(asked, (
            answer(first * (1 << 20), batch=2, width=1),
            answer(second * (1 << 20), batch=4, width=1),
        ))])
        for tier, (first, second) in said.items()
    ]  # fmt: skip
    made = goals.table(["third"], runs)
    both = "| reading confirmed by `meta`,"
    assert f"{both} points more than 10 % too low | none | 0 | met |" in made
    assert f"{both} truth inside the range | 95 % | 2 of 2 (100 %) |" in made
    assert "| static, truth inside the range | 95 % | 0 of 2 (0 %) |" in made


def test_the_time_of_a_first_run_can_be_measured_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = replace(entry(), batch="third")
    monkeypatch.setattr(manifest, "load", lambda: manifest.Manifest((asked,), frozenset()))
    kept = tmp_path / "runs.json"
    slow = replace(answer(100.0), seconds=30.0, cpu_s=12.0)
    for tier in ("static", "meta"):
        records.append(first_run(tier, [Result(asked, (slow,))]), kept)
    assert "| 30.00 s, 12.0 s of processor time | **missed** |" in goals.table(
        ["third"], records.load(kept)
    )
    records.keep_times("third", "meta", {asked.id: (8.0, 6.0)}, kept)
    rows = goals.table(["third"], records.load(kept)).splitlines()
    assert rows[-2].endswith("| 12.00 s | **missed** |")
    assert rows[-1].endswith(
        "| 8.00 s, 6.0 s of processor time; first run, beside other work: 30.00 s, 12.00 s of"
        " processor time | met |"
    )
    assert records.first_run("third", "meta", "abc", kept)["scripts"][asked.id]["seconds"] == 30.0
    with pytest.raises(LookupError, match="no first run with meta of the version def"):
        records.first_run("third", "meta", "def", kept)


def test_a_run_of_the_ladder_says_what_a_user_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(entry(truth=(Truth(2, 100),)), batch="third")
    monkeypatch.setattr(manifest, "load", lambda: manifest.Manifest((asked,), frozenset()))
    said = {"static": 100.0, "meta": 100.0, running.LADDER: 50.0}
    runs = [
        first_run(tier, [Result(asked, (answer(peak), answer(peak, batch=2)))])
        for tier, peak in said.items()
    ]
    assert "| what a user gets, points more than 10 % too low | none | 1 |" in goals.table(
        ["third"], runs
    )


def test_a_run_of_the_scripts_with_truth_is_judged_by_these_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = entry("a.py", truth=(Truth(2, 100),))
    refused = replace(entry("c.py", truth=(Truth(2, 100),)), cannot_run="refused")
    known = manifest.Manifest((measured, entry("b.py"), refused), frozenset())
    monkeypatch.setattr(manifest, "load", lambda: known)
    monkeypatch.setattr(records, "RECORDS", tmp_path / "first-runs.json")
    asked = []

    def ask(one: Entry, *_: object) -> Result:
        asked.append(one.id)
        return Result(one, (answer(100.0), answer(101.0, batch=2)))

    monkeypatch.setattr(command, "result_of", ask)
    kept: list[dict[str, object]] = []
    monkeypatch.setattr(records, "append", kept.append)
    words = ["--corpus", str(tmp_path), "--batch", "b", "--with-truth", "--record"]
    assert command.main(words) == 0
    assert asked == [measured.id]
    row = page.table(kept, []).splitlines()[-1].split(" | ")
    assert row[2] == "first, with truth"
    assert row[5:9] == ["1 of 1", "0", "1 of 1", "1"]


def test_the_page_says_why_scripts_do_not_count() -> None:
    refused = entry("b.py", cannot_run="refused")
    asked = [
        entry("a.py", truth=(Truth(2, 100),)),
        entry("e.py"),
        refused,
        replace(refused, shown_by="run"),
        replace(refused, shown_by="source"),
        replace(refused, shown_by="part"),
    ]
    made = page.counted_table(manifest.Manifest(tuple(asked), frozenset()))
    assert made.splitlines()[-1] == "| b | 6 | 2 | 1 | 2 | 1 | 1 |"


def test_a_later_run_is_kept_beside_the_first(tmp_path: Path) -> None:
    path = tmp_path / "latest-runs.json"
    records.replace(a_run(), path)
    records.replace(a_run(tier="meta"), path)
    records.replace(a_run(commit="def"), path)
    assert [(run["tier"], run["commit"]) for run in records.load(path)] == [
        ("meta", "abc"),
        ("static", "def"),
    ]
    records.replace(a_run(with_data=True), path)
    assert [run["with_data"] for run in records.load(path)] == [False, False, True]


def test_data_is_laid_beside_a_script_and_its_repository_stays_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / REPOSITORY.folder
    write(source, tools__train="pass")
    listed = {"recipe": "lines", "path": "list.txt", "line": "{i} {c}", "count": 4}
    asked = replace(entry("tools/train.py"), workdir="tools", data=(listed,))
    root = beside.root_of(asked, tmp_path)
    assert (root / "tools" / "list.txt").read_text() == "0 0\n1 1\n2 0\n3 1\n"
    assert (root / "tools" / "train.py").samefile(source / "tools" / "train.py")
    assert not (source / "tools" / "list.txt").exists()
    (root / "mark").touch()
    assert (beside.root_of(asked, tmp_path) / "mark").exists(), "laid out once"
    changed = beside.root_of(replace(asked, data=({**listed, "count": 2},)), tmp_path)
    assert (changed / "tools" / "list.txt").read_text() == "0 0\n1 1\n"
    assert beside.root_of(replace(asked, data=()), tmp_path) == source


def test_every_entry_names_recipes_that_there_are() -> None:
    plans = truth.plans()
    for one in manifest.load().entries:
        plan = plans.get(one.id)
        for recipe in (*one.data, *(plan.data if plan else ())):
            assert recipe["recipe"] in data.RECIPES, one.id
            parameters = {name: recipe[name] for name in recipe if name not in ("recipe", "path")}
            inspect.signature(data.RECIPES[recipe["recipe"]]).bind(Path(), **parameters)
    assert truth.plan_of("paddleclas:FasterNet_M") == truth.Plan((2, 4), "call")
    later = truth.plan_of("s-huabomb-dicogan-paddle:discogan/image_translation.py")
    assert later == truth.Plan((8,), "--batch_size", steps=9), "its peak comes with the fourth step"
    assert truth.plan_of("no such script") is None


def test_pictures_and_boxes_are_made_as_their_readers_ask(tmp_path: Path) -> None:
    asked = [
        {"recipe": "image_list", "path": "a", "count": 2, "lists": ["train.txt"]},
        {"recipe": "voc_segmentation", "path": "voc", "count": 1, "augmented": True},
        {"recipe": "cityscapes", "path": "city", "count": 1, "size": [64, 32]},
        {"recipe": "coco", "path": "coco", "count": 2, "parts": ["x"], "keypoints": 17},
        {"recipe": "ocr_detection", "path": "ocr", "label": "label.txt", "count": 1},
        {"recipe": "pictures", "path": "p", "name": "all.data", "count": 1, "kind": "JPEG"},
        {"recipe": "packed", "path": "q/all", "labels": ["0", "1"], "count": 3, "size": [12, 12]},
        {
            "recipe": "pictures",
            "path": "m",
            "name": "{i}.png",
            "count": 1,
            "size": [4, 2],
            "mode": "L",
            "value": 255,
            "left": 0,
        },
    ]
    data.make(asked, tmp_path)
    key, start, length = (tmp_path / "q" / "all.header").read_text().splitlines()[2].split("\t")
    one = (tmp_path / "q" / "all.data").read_bytes()[int(start) : int(start) + int(length)]
    assert (key, one[:2], one[-2:]) == ("2", b"\xff\xd8", b"\xff\xd9")
    assert (tmp_path / "q" / "all.label").read_text() == "0\t0\n1\t1\n2\t0\n"
    assert (tmp_path / "p" / "all.data").read_bytes().startswith(b"\xff\xd8")
    with Image.open(tmp_path / "m" / "0.png") as mask:
        assert mask.tobytes() == bytes([0, 0, 255, 255] * 2), "a mask of two values"
    listed = (tmp_path / "a" / "train.txt").read_text().splitlines()
    assert listed == ["images/class_0/0.jpg 0", "images/class_1/1.jpg 1"]
    assert (tmp_path / "a" / "images" / "class_1" / "1.jpg").is_file()
    assert (tmp_path / "voc" / "SegmentationClassAug" / "0.png").is_file()
    first, second = (tmp_path / "city" / "train.list").read_text().strip().split(",")
    assert (tmp_path / "city" / first).is_file()
    assert (tmp_path / "city" / second).is_file()
    notes = json.loads((tmp_path / "coco" / "annotations" / "instances_x.json").read_text())
    assert {one["image_id"] for one in notes["annotations"]} == {0, 1}
    assert len(notes["annotations"][0]["keypoints"]) == 51
    name, words = (tmp_path / "ocr" / "label.txt").read_text().splitlines()[0].split("\t")
    assert (tmp_path / "ocr" / name).is_file()
    assert json.loads(words)[0]["transcription"] == "word0"


def test_arrays_attributes_and_boxes_are_made_as_their_readers_ask(tmp_path: Path) -> None:
    asked = [
        {"recipe": "zeros", "path": "x.pkl", "holds": {"a": [{"shape": [2, 3]}, "text"]}},
        {"recipe": "celeba_attributes", "path": "celeba", "count": 2, "attribute": "Young"},
        {"recipe": "icdar", "path": "boxes", "within": "boxes", "count": 1},
        {"recipe": "zeros", "path": "y.pkl", "holds": {"a": {"b": "text"}}, "keys": "bytes"},
        {"recipe": "cifar_unpacked", "path": "cifar", "count": 2},
    ]
    data.make(asked, tmp_path)
    assert (tmp_path / "x.pkl").stat().st_size < 200, "an array is written as the call to make it"
    array, text = pickle.loads((tmp_path / "x.pkl").read_bytes())["a"]
    assert (array.shape, array.dtype, text) == ((2, 3), "float32", "text")
    assert pickle.loads((tmp_path / "y.pkl").read_bytes()) == {b"a": {b"b": "text"}}
    batch = (tmp_path / "cifar" / "data_batch_5").read_bytes()
    assert set(pickle.loads(batch, encoding="bytes")) == {b"data", b"labels"}
    of_text = pickle.loads(batch, encoding="latin1")
    assert (of_text["data"].shape, of_text["labels"]) == ((2, 3072), [0, 1])
    listed = (tmp_path / "celeba" / "list_attr_celeba.txt").read_text().splitlines()
    assert listed[:4] == ["2", "Young", "000000.jpg -1", "000001.jpg 1"]
    picture, boxes = (tmp_path / "boxes" / "train.txt").read_text().split()
    assert (tmp_path / picture).is_file()
    assert len((tmp_path / boxes).read_text().split()[0].split(",")) == 9


def test_a_file_of_the_clone_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "clone.txt").write_text("as it was")
    os.link(tmp_path / "clone.txt", tmp_path / "list.txt")
    data.make([{"recipe": "lines", "path": "list.txt", "line": "new", "count": 1}], tmp_path)
    assert (tmp_path / "list.txt").read_text() == "new\n"
    assert (tmp_path / "clone.txt").read_text() == "as it was"


def test_arrays_and_lists_are_made_as_their_readers_ask(tmp_path: Path) -> None:
    data.make(
        [
            {"recipe": "pickled", "path": "a.pkl", "content": [
                {"repeat": {"tuple": [{"array": [3], "dtype": "int8"}, {"number": 2}]}, "count": 4},
                {"repeat": {"picture": [8, 6]}, "count": 2}, {"repeat": "name{i}", "count": 2},
            ]},
            {"recipe": "modelnet", "path": "points", "classes": 2, "points": 5},
            {"recipe": "interactions", "path": "u.txt", "line": "{u} {v}", "users": 2, "each": 3},
            {"recipe": "interactions", "path": "u.csv", "line": "{u},{v}", "users": 2, "each": 3,
             "head": ["user,item"]},
            {"recipe": "zipped", "path": "z/a.zip", "holds": [
                {"recipe": "lines", "path": "in/a.txt", "line": "{i}", "count": 2},
                {"recipe": "pictures", "path": "in", "name": "{i}.png", "count": 1, "size": [4, 3]},
            ]},
            {"recipe": "mpii", "path": "poses", "count": 2},
            {"recipe": "person_reid", "path": "people", "people": 2, "each": 2},
            {"recipe": "notes", "path": "gt", "line": "{k} {i}", "count": 2, "lines_each": 2},
            {"recipe": "numpy_files", "path": "np", "name": "{i}.npy", "count": 2, "shape": [2, 3]},
            {"recipe": "mnist", "path": "digits", "count": 12, "tests": 1},
        ],
        tmp_path,
    )  # fmt: skip
    rows, (picture, _), names = pickle.loads((tmp_path / "a.pkl").read_bytes())
    assert [(row[0].shape, row[1]) for row in rows] == [((3,), n % 2) for n in range(4)]
    assert (picture.size, names) == ((8, 6), ["name0", "name1"])
    shape = (tmp_path / "points" / "modelnet40_train.txt").read_text().split()[0]
    cloud = (tmp_path / "points" / shape.rpartition("_")[0] / f"{shape}.txt").read_text()
    assert [len(line.split(",")) for line in cloud.splitlines()] == [6] * 5
    assert (tmp_path / "u.txt").read_text().split()[:4] == ["1", "1", "1", "4"]
    assert (tmp_path / "u.csv").read_text().splitlines()[:2] == ["user,item", "1,1"]
    with zipfile.ZipFile(tmp_path / "z" / "a.zip") as archive:
        assert archive.read("in/a.txt") == b"0\n1\n"
        assert archive.read("in/0.png").startswith(b"\x89PNG")
    poses = json.loads((tmp_path / "poses" / "annot" / "train.json").read_text())
    assert [len(pose["joints"]) for pose in poses] == [16, 16]
    assert (tmp_path / "people" / "query" / "0001_c1s1_000001_00.jpg").is_file()
    assert (tmp_path / "gt" / "1.txt").read_text() == "0 1\n1 1\n"
    assert (tmp_path / "np" / "1.npy").is_file()
    digits = gzip.decompress((tmp_path / "digits" / "train-images-idx3-ubyte.gz").read_bytes())
    assert (digits[:8], len(digits)) == (b"\0\0\x08\x03\0\0\0\x0c", 16 + 12 * 28 * 28)
    labels = gzip.decompress((tmp_path / "digits" / "train-labels-idx1-ubyte.gz").read_bytes())
    assert list(labels[8:]) == [*range(10), 0, 1]


def test_mappings_archives_and_tables_are_made_as_their_readers_ask(tmp_path: Path) -> None:
    words = {
        "words": {"pairs": [{"number": 9}, "word{i}"], "count": 2},
        "ids": {"repeat": "{i}", "count": 2},
    }
    data.make(
        [
            {"recipe": "pickled", "path": "a.pkl", "content": words},
            {"recipe": "json_file", "path": "a/a.json", "content": words},
            {"recipe": "numpy_archives", "path": "f", "name": "{i}.npz", "count": 2,
             "arrays": {"x": [2, 3]}},
            {"recipe": "numpy_files", "path": "f", "name": "n.npy", "shape": [], "value": 7},
            {"recipe": "cifar", "path": "c.tar.gz", "count": 20},
            {"recipe": "cifar", "path": "hundred.tar.gz", "count": 20, "classes": 100},
            {"recipe": "grid", "path": "g/x.csv", "rows": 2, "columns": 3},
            {"recipe": "sounds", "path": "s", "count": 1, "seconds": 0.5},
        ],
        tmp_path,
    )  # fmt: skip
    named = {"words": {0: "word0", 1: "word1"}, "ids": ["0", "1"]}
    assert pickle.loads((tmp_path / "a.pkl").read_bytes()) == named
    assert json.loads((tmp_path / "a" / "a.json").read_text())["words"] == {
        "0": "word0", "1": "word1"
    }  # fmt: skip
    assert np.load(tmp_path / "f" / "1.npz")["x"].shape == (2, 3)
    assert int(np.load(tmp_path / "f" / "n.npy")) == 7
    with tarfile.open(tmp_path / "c.tar.gz") as archive:
        assert len(archive.getnames()) == 6
        test = archive.extractfile("cifar-10-batches-py/test_batch")
        assert test
        batch = pickle.loads(test.read())
    assert (batch[b"data"].shape, batch[b"labels"][11]) == ((20, 3072), 1)
    with tarfile.open(tmp_path / "hundred.tar.gz") as archive:
        assert archive.getnames() == ["cifar-100-python/train", "cifar-100-python/test"]
    assert (tmp_path / "g" / "x.csv").read_text() == "0,0.0625,0.125\n0,0.0625,0.125\n"
    with wave.open(str(tmp_path / "s" / "0.wav")) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (16_000, 8_000)


def test_arrays_that_are_alike_share_a_file_and_an_object_has_one_of_its_own(
    tmp_path: Path,
) -> None:
    data.make(
        [
            {"recipe": "numpy_files", "path": "n", "name": "{i}.npy", "count": 3, "shape": [2]},
            {"recipe": "numpy_archives", "path": "z", "name": "{i}.npz", "count": 2,
             "arrays": {"x": [2], "y": [3]}, "dtypes": {"x": "int32"}},
            {"recipe": "numpy_object", "path": "o/o.npy", "content": {"x": {"array": [4, 2]}}},
            {"recipe": "json_file", "path": "j.json.gz", "content": {"repeat": 1, "count": 2}},
        ],
        tmp_path,
    )  # fmt: skip
    assert [(tmp_path / "n" / f"{i}.npy").stat().st_nlink for i in range(3)] == [3, 3, 3]
    archive = np.load(tmp_path / "z" / "1.npz")
    assert (archive["x"].dtype, archive["y"].dtype) == ("int32", "float32")
    assert (tmp_path / "z" / "1.npz").samefile(tmp_path / "z" / "0.npz")
    held = np.load(tmp_path / "o" / "o.npy", allow_pickle=True).tolist()
    assert held["x"].shape == (4, 2)
    assert json.loads(gzip.decompress((tmp_path / "j.json.gz").read_bytes())) == [1, 1]


def test_characters_are_those_that_a_reader_of_speech_asks_for(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    data.make([{"recipe": "characters", "path": "v", "count": 40}], tmp_path)
    read = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "v" / "model.model"))
    assert read.vocab_size() == len((tmp_path / "v" / "model.vocab").read_text().splitlines())
    assert read.pad_id() == 0
    assert len(read.encode("一丁")) == 3


def test_arrays_of_a_large_set_take_no_room(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    groups = {"all": {"shape": [2000, 60000]}, "each": {"count": 2, "shape": [3], "dtype": "int64"}}
    data.make([{"recipe": "hdf5", "path": "x.h5", "groups": groups}], tmp_path)
    assert (tmp_path / "x.h5").stat().st_size < 1 << 16
    with h5py.File(tmp_path / "x.h5") as read:
        assert read["all"][1999, -1] == 1
        assert (read["each/1"][:].sum(), read["each/1"].dtype) == (3, "int64")


def test_arrays_of_matlab_have_the_shapes_that_were_asked_for(tmp_path: Path) -> None:
    read = pytest.importorskip("scipy.io").loadmat
    shapes = {"flow": [4, 3, 2], "edge": [1, 5]}
    data.make([{"recipe": "matlab", "path": "d/flow.mat", "arrays": shapes}], tmp_path)
    found = read(tmp_path / "d" / "flow.mat")
    assert {name: list(found[name].shape) for name in shapes} == shapes
    assert 0 <= found["flow"].min() < found["flow"].max() <= 1


def test_settings_are_changed_in_the_copy_alone(tmp_path: Path) -> None:
    own, copy = tmp_path / "a.yml", tmp_path / "b.yml"
    own.write_text("root: /data/faces\nlog: /data/faces/log\n")
    os.link(own, copy)
    change = {"recipe": "edited", "path": "b.yml", "changes": [["/data/faces", "faces"]]}
    data.make([change], tmp_path)
    assert copy.read_text() == "root: faces\nlog: faces/log\n"
    assert own.read_text().startswith("root: /data/faces")
    with pytest.raises(ValueError, match="is not in"):
        data.make([change], tmp_path)


def test_scripts_that_are_refused_are_run_but_for_those_held_out() -> None:
    plain, refused = entry("a.py"), entry("b.py", cannot_run="refused")
    corpus = manifest.Manifest(
        (plain, refused, replace(refused, id="c", batch="apart")), frozenset({"apart"})
    )
    options = argparse.Namespace(only="", batch="", refused=True, held_out=False)
    asked = list(truth.asked(corpus, options))
    assert [one.id for one, _ in asked] == [refused.id]
    assert asked[0][1].made_up, "data that is not there is made up"
    assert not list(truth.asked(corpus, argparse.Namespace(**{**vars(options), "refused": False})))


def test_the_truth_of_scripts_held_out_is_measured_only_where_that_is_asked_for() -> None:
    held_out = replace(entry("a.py", cannot_run="refused"), batch="apart")
    corpus = manifest.Manifest((held_out,), frozenset({"apart"}))
    options = {"only": "", "batch": "", "refused": True}
    for asked_for, ids in ((False, []), (True, [held_out.id])):
        asked = truth.asked(corpus, argparse.Namespace(**options, held_out=asked_for))
        assert [one.id for one, _ in asked] == ids


def test_what_only_measuring_asks_for_is_laid_in_the_copy_that_is_measured(tmp_path: Path) -> None:
    source = tmp_path / "corpus" / REPOSITORY.folder
    source.mkdir(parents=True)
    (source / "train.py").write_text("samples = 1000\n")
    plans = tmp_path / "manifest.json"
    recipe = {"recipe": "edited", "path": "train.py", "changes": [["1000", "2"]]}
    scripts = [{"id": "a", "measure": {"batches": [2], "how": "call", "data": [recipe]}}]
    plans.write_text(json.dumps({"repositories": [{"scripts": scripts}]}))
    plan = truth.plan_of("a", plans)
    assert plan
    truth.copy(entry(), plan, tmp_path / "corpus", tmp_path / "copy")
    assert (tmp_path / "copy" / "train.py").read_text() == "samples = 2\n"
    assert (source / "train.py").read_text() == "samples = 1000\n"


def test_what_a_script_starts_ends_with_it(tmp_path: Path) -> None:
    worker = "import os, time; print(os.getpid(), file=open('pid', 'w')); time.sleep(600)"
    script = f"""import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {worker!r}], cwd={str(tmp_path)!r})
while not os.path.exists({str(tmp_path / "pid")!r}) or not open({str(tmp_path / "pid")!r}).read():
    time.sleep(0.01)
sys.exit("said")"""
    said, ended = truth.run([sys.executable, "-c", script], os.environ, 120)
    assert (said.strip(), ended) == ("said", "exit 1")
    worker_pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while _lives(worker_pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _lives(worker_pid)


def _lives(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_what_a_killed_sandbox_has_used_counts() -> None:
    """No process waits for one that is killed together with its parent."""
    busy = (
        "import time\nwhile time.process_time() < 0.6: pass\nprint(1, flush=True)\ntime.sleep(99)"
    )
    middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    code = [sys.executable, "-c", middle]
    process = subprocess.Popen(code, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with processor.Watch(process.pid) as used:
        process.stdout.readline()
        wait_until(lambda: used.seconds >= 0.6)
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert used.seconds < 60


def test_processor_time_is_told_beside_the_time_on_the_clock() -> None:
    found = Result(entry("a.py"), (replace(answer(100.0), cpu_s=7.5),))
    missed = Result(entry("b.py"), (replace(answer(unknowns=("why",)), cpu_s=1.5),))
    figures = judging.summary([found, missed])
    assert (figures["median_cpu_s"], figures["median_cpu_s_answered"]) == (4.5, 7.5)
    assert "2.0 s (CPU 7.5 s)" in judging.report("b", "meta", [found, missed])


def test_the_truth_is_the_peak_of_the_whole_run() -> None:
    """Data that is prepared before the first step has to fit as well."""
    assert truth.whole_run({"peak_bytes": 5, "overall_peak_bytes": 8})["peak_bytes"] == 8
    assert truth.whole_run({"error": "it broke"}) == {"error": "it broke"}


def test_epochs_are_cut_so_that_an_evaluation_is_reached() -> None:
    class Reader:
        @property
        def _index_sampler(self) -> list[int]:
            return list(range(9))

    class Loader:
        def __init__(self, batches: int) -> None:
            self.batches = batches

        def __len__(self) -> int:
            return self.batches

    truth.cut_epochs(Reader, Loader, 3)
    assert Reader()._index_sampler == [0, 1, 2]
    # A script that counts its batches by the length would begin the epoch again.
    assert (len(Loader(9)), len(Loader(2))) == (3, 2)


def test_only_the_loaders_that_train_get_another_batch_size() -> None:
    """Who sets the batch size of training leaves that of the evaluation as it was."""

    class Sampler:
        def __init__(self, batch_size: int = 1) -> None:
            self.size = batch_size

    class Loader:
        def __init__(
            self, batch_size: int = 1, num_workers: int = 0, persistent_workers: bool = False,
            batch_sampler: Sampler | None = None,
        ) -> None:  # fmt: skip
            self.workers = (num_workers, persistent_workers)
            self.size = (batch_sampler or Sampler(batch_size)).size

    wholes = {one: one.__init__ for one in (Sampler, Loader)}

    def small(self: Sampler, batch_size: int = 1) -> None:
        wholes[Sampler](self, 4)

    def small_loader(self: Loader, *_: Any, **named: Any) -> None:
        wholes[Loader](self, 4, batch_sampler=named.get("batch_sampler"))

    only = truth.Only(2)
    vars_of = {Sampler: small, Loader: small_loader}
    for one, whole in wholes.items():
        one.__init__ = only.of(whole, vars_of[one])  # type: ignore[method-assign]
    assert Loader(256, 8, True).size == 4, "its sampler is none of its own"
    sampler = Sampler(256)
    assert Loader(batch_sampler=sampler).size == 4, "a sampler and its loader are one"
    evaluation = Loader(64, 8, True)
    assert (evaluation.size, evaluation.workers) == (64, (0, False))
    assert Loader(batch_sampler=Sampler(64), num_workers=8).size == 64


def test_of_several_runs_the_smallest_peak_of_each_step_counts() -> None:
    """What is freed late by chance is not what a script needs."""
    runs = [{"cycle_peaks": [3, 9, 4], "peak_bytes": 9}, {"cycle_peaks": [3, 5, 7], "cycles": 3}]
    assert truth.smallest(runs) == {"cycle_peaks": [3, 5, 4], "peak_bytes": 5}
    assert truth.smallest([*runs, {"error": "it broke"}]) == {"error": "it broke"}
    assert truth.smallest(runs[:1]) == runs[0]


def test_a_plan_says_which_size_trains_and_how_often_to_run(tmp_path: Path) -> None:
    plans = tmp_path / "manifest.json"
    measure = {"batches": [2], "how": "call", "first": 1, "times": 5}
    scripts = [{"id": "a", "measure": measure}]
    plans.write_text(json.dumps({"repositories": [{"scripts": scripts}]}))
    assert truth.plan_of("a", plans) == truth.Plan((2,), "call", first=1, times=5)


def test_a_batch_size_is_set_as_a_plan_says() -> None:
    """Where an argument sets it, no loader gets it by itself."""
    replaced = truth.Plan((2,), "call", first=1)
    assert truth.setting(replaced, 2) == (["--how", "call"], [], 1)
    assert truth.setting(replaced, None) == (["--how", "call"], [], truth.OWN_SIZES)
    flag = truth.Plan((2,), "--batch_size")
    assert truth.setting(flag, 2) == (["--how", "argv", "--flag=--batch_size"], [], 0)
    inside = truth.Plan((2,), "-o weights= Reader.batch_size={batch}")
    words = ["-o", "weights=", "Reader.batch_size=2"]
    assert truth.setting(inside, 2) == (["--how", "call"], words, truth.OWN_SIZES)


def test_the_manifest_is_read_once_however_many_scripts_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Read once a script, it took a quarter of a minute before the first run."""
    read: list[Path] = []
    whole = Path.read_text

    def counted(self: Path, encoding: str | None = None) -> str:
        read.append(self)
        return whole(self, encoding)

    entries = tuple(entry(f"{i}.py", cannot_run="refused") for i in range(5))
    monkeypatch.setattr(Path, "read_text", counted)
    options = argparse.Namespace(only="", batch="", refused=True, held_out=False)
    asked = list(truth.asked(manifest.Manifest(entries, frozenset()), options))
    assert [one.id for one, _ in asked] == [one.id for one in entries]
    assert read.count(manifest.MANIFEST) == 1


def test_what_follows_the_last_step_of_a_whole_run_is_measured_too() -> None:
    """A script saves its network when it has trained; of another the harness sees no step."""
    reported: list[str] = []

    class Tracker:
        t_cycle: float | None = None

        def close_cycle(self, now: float) -> None:
            assert self.t_cycle is not None
            assert now >= self.t_cycle
            reported.append("closed")

    truth.to_the_end(reported.append, [Tracker()])("ran")
    assert reported == ["ran", "closed"]


def test_a_truth_does_not_hold_optimizers_that_the_script_has_let_go() -> None:
    class Optimizer:
        pass

    tracker = SimpleNamespace(opts=[])

    def script() -> None:
        assert not tracker.opts
        held.append(Optimizer())
        for _ in range(3):
            tracker.opts.append(Optimizer())
        tracker.opts.append(held[0])
        gc.collect()
        assert len(tracker.opts) == 4, "it has trained all the same"
        assert [*tracker.opts] == held

    held: list[Optimizer] = []
    truth.letting_go(script, [tracker])()
    assert held


def test_a_folder_called_paddle_does_not_stand_in_the_place_of_paddle(tmp_path: Path) -> None:
    assert truth._own(tmp_path) == [str(tmp_path)]
    (tmp_path / "paddle").mkdir()
    assert truth._own(tmp_path) == []


def test_a_shape_that_is_a_method_is_not_read() -> None:
    class Fed:
        def shape(self) -> list[int]:
            return [2]

    assert truth.has(np.zeros(2), "shape")
    assert not truth.has(Fed(), "shape")
    assert not truth.has(1, "shape")


def test_loaders_keep_their_sizes_where_none_is_measured() -> None:
    """As many as are named get the size that is measured, and none where there is none."""
    made: list[tuple[str, int]] = []

    def whole(self: object, batch_sampler: object = None, num_workers: int = 2) -> None:
        made.append(("whole", num_workers))

    def replaced(self: object, batch_sampler: object = None, num_workers: int = 2) -> None:
        made.append(("replaced", num_workers))

    for first in (1, truth.OWN_SIZES):
        init = truth.Only(first).of(whole, replaced)
        init(None, num_workers=4)
        init(None, num_workers=4)
    assert made == [("replaced", 4), ("whole", 0), ("whole", 0), ("whole", 0)]


def test_a_batch_waits_until_nothing_else_of_the_process_runs() -> None:
    """A loader that a busy machine slows down reads ahead as far as on an idle one."""
    ready = threading.Event()

    def read_ahead() -> None:
        while time.thread_time() < 0.5:
            pass
        ready.set()

    reader = threading.Thread(target=read_ahead)
    reader.start()
    truth.until_calm(time.sleep, 0.0)
    assert ready.is_set()
    reader.join()
