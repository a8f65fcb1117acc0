"""Scripts are read in a process of their own: its limits, its ends, and what comes back of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole import preflight
from gpuconsole.core.estimate import Report, Unknown
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from gpuconsole.preflight.suggestion_edits import Change
from gpuconsole.preflight.tiers import static
from gpuconsole.session.reading import process, questions, records
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.process import Limits
from gpuconsole.session.reading.questions import Estimating, Naming
from tests.session.reading.odd_questions import Odd

EXAMPLES = sorted((Path(preflight.__file__).parents[1] / "data" / "examples").glob("*.py"))
WAIT_S = 120.0


@pytest.fixture
def reader() -> Iterator[AsyncReader]:
    with AsyncReader(Limits(memory_mib=1024, answer_mib=1)) as reader:
        yield reader


def process_of(reader: AsyncReader) -> int:
    found = reader.ask(Odd("number"))
    assert isinstance(found, dict)
    return int(found["process"])


def gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("script", EXAMPLES, ids=[one.stem for one in EXAMPLES])
def test_an_answer_is_the_same_as_in_this_process(script: Path, tmp_path: Path) -> None:
    cards = (preflight.Card("A100", "a", "gpu", 40960.0), preflight.Card("T4", "b", "gpu", 512.0))
    question = Estimating(
        Task("x", script=str(script)), cards, remembered={"width": "8"}, state=tmp_path,
        calibration=preflight.Calibration(), explain=True, curve=True,
    )  # fmt: skip
    with AsyncReader() as reader:
        assert reader.ask(question) == question.answer(Analyses())


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("crashing", "ended its reader (SIGSEGV)"),
        ("hungry", "took more than 1024 MiB of memory"),
        ("growing", "took more than 1024 MiB of memory"),
        ("deep", "is more than the analysis can do (RecursionError at odd_questions.py:"),
        ("wrong", "made an answer that is none"),
        ("long", "made an answer too long to pass on"),
    ],
)
def test_what_ends_the_reading_is_said_and_the_next_answer_comes(
    reader: AsyncReader, what: str, why: str
) -> None:
    found = reader.ask(Odd(what))
    assert isinstance(found, Unknown)
    assert why in found.reason
    assert (found.file, found.line) == ("", 0)
    assert process_of(reader) > 0


def test_reading_that_uses_up_its_processor_time_is_ended_at_a_line() -> None:
    # A limit of its own: a machine under load takes seconds to fill memory, too.
    with AsyncReader(Limits(cpu_s=2)) as reader:
        found = reader.ask(Odd("frozen"))
        assert isinstance(found, Unknown)
        assert "took more than 2 s of processor time" in found.reason
        assert (found.file, found.line) == ("/project/train.py", 12)
        assert process_of(reader) > 0


def test_reading_that_waits_for_ever_is_ended() -> None:
    with AsyncReader(Limits(wall_s=0.5)) as reader:
        found = reader.ask(Odd("asleep"))
    assert isinstance(found, Unknown)
    assert found.reason == "following the script took more than 0.5 s"


async def test_a_question_that_is_taken_back_ends_its_process(reader: AsyncReader) -> None:
    before = await asyncio.to_thread(process_of, reader)
    asked = asyncio.ensure_future(reader.asked(Odd("asleep")))
    waiting = asyncio.ensure_future(reader.asked(Odd("asleep")))
    await asyncio.sleep(0)
    waiting.cancel()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    found = await reader.asked(Odd("number"))
    assert isinstance(found, dict)
    assert found["process"] != before
    assert gone(before)


async def test_what_is_nearly_answered_when_it_is_taken_back_keeps_its_process(
    reader: AsyncReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuconsole.session.reading.background.GRACE_S", WAIT_S)
    before = await asyncio.to_thread(process_of, reader)
    asked = asyncio.ensure_future(reader.asked(Odd("number")))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert await asyncio.to_thread(process_of, reader) == before


async def test_closing_ends_what_is_being_read(reader: AsyncReader) -> None:
    before = await asyncio.to_thread(process_of, reader)
    asked = asyncio.ensure_future(reader.asked(Odd("asleep")))
    while reader._asked is None:  # noqa: ASYNC110 - set by another thread
        await asyncio.sleep(0.01)
    await asyncio.to_thread(reader.close)
    assert isinstance(await asked, Unknown)
    assert gone(before)
    with pytest.raises(RefusedError, match="taken back"):
        await reader.asked(Odd("number"))


def test_a_process_that_has_ended_or_grown_is_replaced(
    reader: AsyncReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process_of(reader)
    os.kill(first, signal.SIGKILL)
    ends = time.monotonic() + WAIT_S
    while reader._child is not None and not reader._child.is_spent:
        assert time.monotonic() < ends
    second = process_of(reader)
    assert second != first
    monkeypatch.setattr(process, "_RETIRED_MIB", 1)
    assert process_of(reader) != second


def test_what_the_process_that_asks_holds_retires_no_reader(
    reader: AsyncReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = b"x" * (512 * 2**20)
    monkeypatch.setattr(process, "_RETIRED_MIB", 500)
    assert process_of(reader) == process_of(reader)
    assert held


def test_a_process_that_does_not_start_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with AsyncReader(Limits(cpu_s=3)) as reader, pytest.raises(UsageError, match="does not start"):
        reader.ask(Odd("number"))


def test_errors_come_back_as_they_were_raised(reader: AsyncReader, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="A message") as caught:
        reader.ask(Odd("refused"))
    assert (caught.value.title, caught.value.hint) == ("A title", "A hint.")
    with pytest.raises(UsageError, match=r"none\.py"):
        reader.ask(Estimating(Task("x", script=str(tmp_path / "none.py")), ()))


def test_the_process_has_a_session_and_descriptors_of_its_own(reader: AsyncReader) -> None:
    found = reader.ask(Odd("folder"))
    assert found == {os.getcwd(): 1}
    with open(os.devnull) as opened:
        os.set_inheritable(opened.fileno(), True)
        shown = reader.ask(Odd("descriptors"))
    # The three usual ones, the two pipes, the trail, and the listing itself.
    assert isinstance(shown, dict)
    assert len(shown) <= 8
    assert reader.ask(Odd("writing")) == {"refused": 1}


async def test_recordings_are_named_by_the_folders_that_the_user_s_python_looks_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import widths\n")
    names = set[str]()
    for folder in ("", "libraries", "others"):
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / folder) if folder else "")
        question = Naming(Task("train", str(script)), "traced")
        # Limits of its own: a process that an earlier test left is not taken.
        with AsyncReader(Limits(cpu_s=30 + len(names))) as reader:
            names.add(await reader.asked(question))
    assert len(names) == 3, "another module may be meant in each"


def test_modules_of_the_folder_that_scripts_lie_in_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "pickle", "resource", "gpuconsole", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "train.py").write_text("import yaml\nprint(yaml.safe_load('a: 1'))\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with AsyncReader(Limits(cpu_s=30)) as reader:
        report = reader.ask(Estimating(Task("x", script="train.py"), ()))
    assert report.estimate.unknowns[0].reason == "no training step was found"


def test_what_reads_scripts_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process.sys, "dont_write_bytecode", False)
    monkeypatch.setattr(process.sys, "pycache_prefix", str(tmp_path))
    with AsyncReader(Limits(cpu_s=3)) as reader:
        process_of(reader)
    compiled = {file.name.partition(".")[0] for file in tmp_path.rglob("*.pyc")}
    assert {"child", "report_builder", "registry"} <= compiled


def test_a_script_that_is_not_followed_to_its_end_has_an_answer() -> None:
    cards = (preflight.Card("A100", "a", "gpu", 40960.0),)
    question = Estimating(Task("x", script="train.py"), cards)
    report = question.unread(Unknown("", 0, "following the script took more than 9 s"))
    assert report.estimate.memory is None
    assert report.estimate.tier == "unknown"
    assert report.estimate.unknowns == (
        Unknown("train.py", 0, "following the script took more than 9 s"),
    )
    assert report.verdicts[0].verdict == "unknown"
    assert "took more than 9 s" in report.verdicts[0].reason
    with pytest.raises(RefusedError, match=r"model\.py:3: it takes long"):
        questions.Rebatching(question.task, 4).unread(Unknown("model.py", 3, "it takes long"))


def test_statements_are_noted_as_they_are_followed(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("\n\nx = 1\n")
    script = tmp_path / "train.py"
    script.write_text("import model\n\ndef f():\n    yield 1\n\nlist(f())\ny = 2\n")
    seen: list[tuple[str, int]] = []
    preflight.analyse(script, trail=lambda file, line: seen.append((Path(file).name, line)))
    places = [("train.py", 1), ("model.py", 3), ("train.py", 3), ("train.py", 6), ("train.py", 4),
              ("train.py", 7)]  # fmt: skip
    assert seen == places


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Report, []), (Report, None), (int, True), (int, 1.5), (float, "1"), (str, 1), (bool, 1),
        (tuple[int, ...], "12"), (tuple[int, str], [1]), (Change, [None]), (int | None, "x"),
        (dict[str, int], {"a": "b"}), (frozenset[str], "ab"), (bytes, "a"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_wanted_type_is_no_answer(kind: object, value: object) -> None:
    with pytest.raises(ValueError, match="no"):
        records.read(kind, value)


def test_a_script_is_followed_for_the_back_end_that_is_asked_about_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[str] = []

    def follow(script: Path, args: tuple[str, ...], setting: Setting, *more: object) -> object:
        followed.append(setting.backend)
        return really(script, args, setting, *more)  # type: ignore[arg-type]

    really = static.follow
    monkeypatch.setattr(static, "follow", follow)
    task = Task("x", script=str(EXAMPLES[0]), backend="cpu")
    Estimating(task, (), "static", state=tmp_path).answer(Analyses())
    assert set(followed) == {"cpu"}
