"""Measurements: where one is made, and for which runs of a script it is used again."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole import preflight
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.remote.isolation import sandbox
from gpuconsole.session.estimate import measurement_run
from gpuconsole.session.estimate.measurement_store import Measurements, choose_host
from gpuconsole.session.reading import inputs, recordings
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.questions import Checking, Estimating, Naming
from gpuconsole.session.reading.recordings import Mode, paddle_version, recorded
from gpuconsole.state.files.probe_recordings import MeasuredScripts

SCRIPT = """
import argparse
import paddle
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--width", type=int, default=4)
args = parser.parse_args()
net = paddle.nn.Linear(args.width, 1)
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
for step in range(3):
    net(paddle.rand([args.batch_size, args.width])).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""
HERE = FleetSnapshot(
    1, 1.0, (Host("away", HostState.DOWN), Host("bare", HostState.UP), Host("full", HostState.UP))
)
IMAGES = {"away": "paddle:3", "bare": "", "full": "paddle:3"}


# --- where --------------------------------------------------------------------------------------


def test_the_first_host_that_is_up_and_has_an_image_measures() -> None:
    assert choose_host(HERE, "", IMAGES.__getitem__) == ("full", "paddle:3")
    assert choose_host(HERE, "bare", lambda _: "own:1") == ("bare", "own:1")


@pytest.mark.parametrize("wanted", ["away", "bare"])
def test_a_host_that_cannot_measure_is_not_replaced_by_another(wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted) as error:
        choose_host(HERE, wanted, IMAGES.__getitem__)
    assert "--local" in error.value.hint


def test_without_any_host_it_says_how_to_measure_all_the_same() -> None:
    with pytest.raises(UsageError, match="No host") as error:
        choose_host(FleetSnapshot(), "", IMAGES.__getitem__)
    assert "--local" in error.value.hint


def test_a_host_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError) as error:
        choose_host(HERE, "ful", IMAGES.__getitem__)
    assert error.value.title == "No such host"
    assert "away, bare, full" in error.value.hint


async def test_nothing_runs_here_that_less_holds_than_the_user_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\n")
    monkeypatch.setattr(sandbox, "_working_bubblewrap", lambda: None)
    monkeypatch.setattr(measurement_run, "here", None)
    with AsyncReader() as reader:
        measurements = Measurements(tmp_path / "state", reader)
        with pytest.raises(UsageError, match="read and write all your files") as refused:
            await measurements.here(Task("x", str(script)), "meta", lambda share, stage: None)
    assert "Install bubblewrap" in refused.value.hint


@pytest.mark.parametrize("changed", ["", "train.py", "net.py"])
async def test_only_what_was_measured_as_it_is_now_is_stored(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    (script.parent / "net.py").write_text("WIDTH = 4\n")

    async def here(*_: object) -> bytes:
        said = document("meta", script, script.parent / "net.py", root=script.parent)
        if changed:
            (script.parent / changed).write_text(SCRIPT + "# changed\n")
        return json.dumps(said).encode()

    monkeypatch.setattr(measurement_run, "here", here)
    task = Task("x", str(script))
    with AsyncReader() as reader:
        measurements = Measurements(tmp_path / "state", reader)
        work = measurements.here(task, "meta", lambda share, stage: None, sandbox.Sandbox().kind)
        if not changed:
            await work
        else:
            with pytest.raises(RefusedError, match=r"not what was measured|no longer"):
                await work
    assert bool(list(tmp_path.glob("state/measured/*.gz"))) is not bool(changed)


# --- which --------------------------------------------------------------------------------------


def run(batch: int) -> dict[str, Any]:
    return {
        "batch": batch, "events": [0, 1, ~1], "cycles": [3], "sizes": [4000, 100 * batch],
        "names": ["", "matmul"], "name": [0, 1], "kind": [1, 0], "inside": [], "shapes": [[]],
        "readers": [], "widest_conv": 0, "flags": [], "trained": True,
    }  # fmt: skip


def document(mode: str, *files: Path, root: Path | None = None) -> dict[str, Any]:
    """Return what the probe says of a script that read these files of the project."""
    read = {str(one.relative_to(root)) if root else str(one): reported(one) for one in files}
    return {
        "version": 1, "mode": mode, "paddle": paddle_version(), "runs": [run(2), run(4)],
        "read": {"files": read, "folders": []},
    }  # fmt: skip


def reported(file: Path) -> list[Any] | None:
    if not file.exists():
        return None
    content = file.read_bytes()
    small = len(content) <= inputs.HASHED_BYTES
    return [len(content), hashlib.sha256(content).hexdigest() if small else ""]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


def asked(script: Path, *args: str) -> tuple[Task, preflight.Analysis]:
    task = Task("x", script=str(script), args=args, project=str(script.parent))
    return task, preflight.analyse(script, args, project=script.parent)


def keep(state: Path, script: Path, mode: Mode, *args: str) -> None:
    """Store a recording of a script as it is now, as a measurement does."""
    measured(state, asked(script, *args)[0], mode, document(mode))


def measured(
    state: Path, task: Task, mode: Mode, said: dict[str, Any], image: str = "",
    meanwhile: Callable[[], object] = lambda: None,
) -> None:  # fmt: skip
    since_ns, name = time.time_ns(), Naming(task, mode).answer(Analyses())
    meanwhile()
    content = json.dumps(said).encode()
    check = Checking(task, content, mode, name, image, since_ns)
    MeasuredScripts(state).put(name, image, check.answer(Analyses()), content)


def test_a_measurement_holds_for_every_batch_size(tmp_path: Path, script: Path) -> None:
    keep(tmp_path, script, "traced")
    for args in ((), ("--batch-size", "64"), ("--batch-size=3",)):
        found = recorded(tmp_path, *asked(script, *args))
        assert found is not None, args
        assert found.tier == "traced"


def test_other_arguments_or_another_text_are_another_script(tmp_path: Path, script: Path) -> None:
    keep(tmp_path, script, "traced")
    assert recorded(tmp_path, *asked(script, "--width", "8")) is None
    script.write_text(SCRIPT.replace("Linear(args.width, 1)", "Linear(args.width, 2)"))
    assert recorded(tmp_path, *asked(script)) is None


def test_a_recording_holds_for_the_modules_of_the_project_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "train.py").write_text("import net\n" + SCRIPT)
    (root / "net.py").write_text("import paddle\n")
    monkeypatch.chdir(root)
    task = Task("x", script=str(root / "tools" / "train.py"))
    name = Naming(task, "traced").answer(Analyses())
    (root / "net.py").write_text("import paddle as other\n")
    assert Naming(task, "traced").answer(Analyses()) != name


def test_a_script_whose_project_uses_paddle_is_not_said_to_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "train.py").write_text("import net\nnet.main()\n")
    (root / "net.py").write_text("import paddle\ndef main():\n    print(paddle.__version__)\n")
    monkeypatch.chdir(root)
    task = Task("x", script=str(root / "tools" / "train.py"))
    assert Estimating(task, ()).answer(Analyses()).estimate.flags == ()
    (root / "net.py").write_text("def main():\n    print(1)\n")
    assert "without-paddle" in Estimating(task, ()).answer(Analyses()).estimate.flags


def test_a_script_may_import_paddle_from_a_folder_that_it_adds_itself(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    lesson, nets = tmp_path / "lessons" / "first", tmp_path / "lessons" / "nets"
    lesson.mkdir(parents=True)
    nets.mkdir()
    (nets / "network.py").write_text("import gzip\nimport paddle\nrows = gzip.open('data.gz')\n")
    script = lesson / "start.py"
    script.write_text("import sys\nsys.path.insert(0, '..')\nfrom nets.network import rows\n")
    task = Task("x", script=str(script), folder="lessons/first", project=str(tmp_path))
    answer = Estimating(task, ()).answer(Analyses()).estimate
    assert answer.memory is None
    assert "without-paddle" not in answer.flags


def test_a_recording_that_tells_no_memory_leaves_the_answer_to_the_next(
    tmp_path: Path, script: Path
) -> None:
    keep(tmp_path, script, "traced")
    runs = [{**run(size), "sizes": [4000, 200]} for size in (2, 4)]
    measured(tmp_path, asked(script)[0], "meta", {**document("meta"), "runs": runs})
    found = recorded(tmp_path, *asked(script))
    assert found is not None
    assert found.tier == "traced"
    assert recorded(tmp_path, *asked(script), "meta").refusal  # type: ignore[union-attr]


def test_the_meta_tier_wins_unless_the_other_is_asked_for(tmp_path: Path, script: Path) -> None:
    task, analysis = asked(script)
    keep(tmp_path, script, "traced")
    only = recorded(tmp_path, task, analysis)
    keep(tmp_path, script, "meta")
    best, named = recorded(tmp_path, task, analysis), recorded(tmp_path, task, analysis, "traced")
    assert only is not None
    assert best is not None
    assert named is not None
    assert (only.tier, best.tier, named.tier) == ("traced", "meta", "traced")


def test_a_recording_of_a_mode_that_there_is_no_more_is_passed_over(
    tmp_path: Path, script: Path
) -> None:
    task, analysis = asked(script)
    made = {"image": "", "paddle": paddle_version(), "files": {}}
    content = json.dumps(document("symbolic")).encode()
    name = recordings.key(task, analysis, "symbolic")
    MeasuredScripts(tmp_path).put(name, "", made, content)
    assert recorded(tmp_path, *asked(script)) is None
    assert recorded(tmp_path, *asked(script), "symbolic") is None
    with pytest.raises(UsageError, match="not a measurement"):
        recordings.read(task, document("symbolic"), "symbolic")
    keep(tmp_path, script, "traced")
    found = recorded(tmp_path, *asked(script))
    assert found is not None
    assert found.tier == "traced"


@pytest.mark.parametrize("tier", ["traced", "meta"])
def test_a_tier_that_was_not_measured_is_refused_with_the_way_to_it(
    tmp_path: Path, script: Path, tier: str
) -> None:
    task, analysis = asked(script)
    with pytest.raises(RefusedError, match=tier) as error:
        recorded(tmp_path, task, analysis, tier)
    assert "--tier" in error.value.hint


def test_a_tier_that_is_not_measured_at_all_has_no_measurement(
    tmp_path: Path, script: Path
) -> None:
    keep(tmp_path, script, "traced")
    task, analysis = asked(script)
    assert recorded(tmp_path, task, analysis, "static") is None
    assert recorded(tmp_path, Task("x"), None, "") is None


# --- what decides the answer ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"WIDTH": "8"}},
        {"env": {"PYTHONPATH": "/lib/other"}},
        {"mounts": (Mount("/data/small", "/data"),)},
        {"mounts": (Mount("/data/large", "/data", read_only=False),)},
        {"backend": "npu"},
        {"edits": (Edit("train.py", 2, "import argparse", "import argparse, os"),)},
        {"ship": ("secret.txt",)},
    ],
    ids=["env", "path", "mounts", "kind of mount", "backend", "edits", "ship"],
)
def test_a_recording_answers_for_its_own_settings_alone(
    tmp_path: Path, script: Path, change: dict[str, Any]
) -> None:
    task, analysis = asked(script)
    task = replace(task, env={"LEVEL": "1"}, mounts=(Mount("/data/large", "/data"),))
    measured(tmp_path, task, "traced", document("traced"))
    assert recorded(tmp_path, task, analysis) is not None
    assert recorded(tmp_path, replace(task, **change), analysis) is None


def test_a_changed_line_that_sets_the_batch_size_is_no_other_script(
    tmp_path: Path, script: Path
) -> None:
    script.write_text(SCRIPT.replace("args.batch_size", "24"))
    task, analysis = asked(script)
    keep(tmp_path, script, "traced")
    edits = analysis.set_batch(48).edits
    assert edits
    assert recorded(tmp_path, replace(task, edits=edits, batch_size=48), analysis) is not None
    assert recorded(tmp_path, replace(task, edits=edits), analysis) is None


def test_another_working_folder_is_another_run(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (script.parent / "inside").mkdir()
    monkeypatch.chdir(script.parent)
    keep(tmp_path, script, "traced")
    assert recorded(tmp_path, *asked(script)) is not None
    monkeypatch.chdir(script.parent / "inside")
    assert recorded(tmp_path, *asked(script)) is None


def test_the_user_s_own_path_for_modules_counts(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "one"))
    keep(tmp_path, script, "traced")
    assert recorded(tmp_path, *asked(script)) is not None
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "two"))
    assert recorded(tmp_path, *asked(script)) is None


def test_a_recording_of_an_image_answers_for_that_image(tmp_path: Path, script: Path) -> None:
    task, analysis = asked(script)
    said = {**document("traced"), "paddle": "2.6"}
    measured(tmp_path, task, "traced", said, image="paddle:3")
    assert recorded(tmp_path, task, analysis, "", frozenset({"paddle:3", "own:1"})) is not None
    assert recorded(tmp_path, task, analysis, "", None) is not None
    assert recorded(tmp_path, task, analysis, "", frozenset({"own:1"})) is None
    keep(tmp_path, script, "traced")
    assert recorded(tmp_path, task, analysis, "", frozenset({"own:1"})) is not None


def test_another_paddle_on_this_machine_is_measured_again(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "paddle_version", lambda: "3.3.1")
    measured(tmp_path, asked(script)[0], "traced", {**document("traced"), "paddle": "3.3.1"})
    assert recorded(tmp_path, *asked(script)) is not None
    monkeypatch.setattr(recordings, "paddle_version", lambda: "3.4.0")
    assert recorded(tmp_path, *asked(script)) is None


def test_a_script_that_cannot_be_read_has_no_name(tmp_path: Path, script: Path) -> None:
    task, analysis = asked(script)
    script.unlink()
    assert recordings.key(task, analysis, "traced") == ""
    assert recorded(tmp_path, task, analysis) is None
    with pytest.raises(UsageError):
        Naming(task, "traced").answer(Analyses())


# --- files that were read ------------------------------------------------------------------------


@pytest.fixture
def read_files(script: Path) -> dict[str, Path]:
    """Files of a project that a script finds by computed names."""
    root = script.parent
    found = {name: root / name for name in ("net.py", "sizes.txt", "data.bin", "local.yaml")}
    found["net.py"].write_text("WIDTH = 4\n")
    found["sizes.txt"].write_text("8 16\n")
    found["data.bin"].write_bytes(b"x" * (inputs.HASHED_BYTES + 1))
    for path in found.values():
        if path.exists():
            os.utime(path, (1000, 1000))
    return found


@pytest.mark.parametrize("name", ["net.py", "sizes.txt", "data.bin", "local.yaml"])
def test_a_recording_holds_while_the_files_that_it_read_are_as_they_were(
    tmp_path: Path, script: Path, read_files: dict[str, Path], name: str
) -> None:
    root = script.parent
    said = document("traced", *read_files.values(), root=root)
    measured(tmp_path, asked(script)[0], "traced", said)
    (root / "notes.md").write_text("not read")
    assert recorded(tmp_path, *asked(script)) is not None
    before = read_files[name].read_bytes() if name != "local.yaml" else b""
    read_files[name].write_bytes(before[:-1] + b"!")
    assert recorded(tmp_path, *asked(script)) is None


def test_a_folder_that_was_listed_holds_while_nothing_is_added(
    tmp_path: Path, script: Path
) -> None:
    (script.parent / "data").mkdir()
    os.utime(script.parent / "data", (1000, 1000))
    said = document("traced")
    said["read"]["folders"] = ["data", "missing", "train.py"]
    measured(tmp_path, asked(script)[0], "traced", said)
    assert recorded(tmp_path, *asked(script)) is not None
    (script.parent / "data" / "more.jpg").touch()
    assert recorded(tmp_path, *asked(script)) is None


@pytest.mark.parametrize("name", ["train.py", "net.py", "data.bin", "local.yaml"])
def test_what_changed_while_it_was_measured_is_not_stored(
    tmp_path: Path, script: Path, read_files: dict[str, Path], name: str
) -> None:
    said = document("traced", *read_files.values(), root=script.parent)
    path = script.parent / name

    def change() -> None:
        path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n# changed\n")

    with pytest.raises(RefusedError, match=r"no longer|not what was measured"):
        measured(tmp_path, asked(script)[0], "traced", said, meanwhile=change)
    assert recorded(tmp_path, *asked(script)) is None


def test_a_file_that_did_not_travel_is_no_input(tmp_path: Path, script: Path) -> None:
    left = script.parent / "huge.npy"
    left.write_bytes(b"left out")
    os.utime(left, (1000, 1000))
    said = document("traced")
    said["read"]["files"] = {"huge.npy": None}
    measured(tmp_path, asked(script)[0], "traced", said)
    left.write_bytes(b"changed")
    assert recorded(tmp_path, *asked(script)) is not None


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/passwd", "a/../../secret", "x\0y", "x" * 5000]
)
def test_names_from_elsewhere_are_not_looked_at(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    looked: list[Path] = []
    mark = inputs.mark
    monkeypatch.setattr(inputs, "mark", lambda path: (looked.append(path), mark(path))[1])
    said = document("traced")
    said["read"] = {"files": {name: [1, ""], "gone.py": None}, "folders": [name]}
    measured(tmp_path, asked(script)[0], "traced", said)
    assert looked == [script.parent / "gone.py"]


@pytest.mark.parametrize(
    "read",
    [
        None, 7, {}, {"files": {}}, {"files": [], "folders": []}, {"files": {}, "folders": {}},
        {"files": {str(n): None for n in range(inputs.MOST_NAMES + 1)}, "folders": []},
        {"files": {"train.py": "yes"}, "folders": []},
        {"files": {"train.py": [1, 2, 3]}, "folders": []},
    ],
)  # fmt: skip
def test_a_document_that_does_not_say_what_was_read_is_not_stored(
    tmp_path: Path, script: Path, read: object
) -> None:
    with pytest.raises(RefusedError):
        measured(tmp_path, asked(script)[0], "traced", {**document("traced"), "read": read})


def test_a_recording_of_another_tier_is_none_of_this(tmp_path: Path, script: Path) -> None:
    with pytest.raises(UsageError, match="meta"):
        measured(tmp_path, asked(script)[0], "meta", document("traced"))
    with pytest.raises(UsageError, match="device"):
        measured(tmp_path, asked(script)[0], "device", document("traced"))


def test_what_was_stored_before_inputs_were_is_not_used(tmp_path: Path, script: Path) -> None:
    keep(tmp_path, script, "traced")
    (stored,) = (tmp_path / "measured").iterdir()
    stored.write_bytes(gzip.compress(json.dumps(document("traced")).encode()))
    assert recorded(tmp_path, *asked(script)) is None
    former = stored.with_name("0" * 32 + "-traced.json.gz")
    stored.rename(former)
    assert recorded(tmp_path, *asked(script)) is None
