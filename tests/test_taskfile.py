"""Task files and tasks from scripts: what is written arrives, what is wrong has its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.jobs import Mount, Task
from gpuconsole.errors import ConsoleError, DocumentError, UsageError
from gpuconsole.taskfile import load_task, task_from_script

# The shape of file that people already have: policy and scheduler beside the task.
PUBLISHED = """\
task:
  type: "training"
  framework: "paddlepaddle"
  model_name: "bert-base"
  sequence_length: 256
  batch_size_per_gpu: 8
  num_gpus_estimate: "auto"
resource_policy:
  memory_threshold: 0.8
  allow_mixed_precision: true
  distributed_strategy: "ddp"
  preferred_devices:
    - "A100-SXM4-40GB"
    - "RTX_3090"
scheduler:
  algorithm: "rl_based"
  timeout: 120
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('hello')\n")
    return tmp_path


def read(folder: Path, text: str, **options: Any) -> Task:
    path = folder / "job.yaml"
    path.write_text(text)
    return load_task(path, **options)


def refused(folder: Path, text: str, **options: Any) -> ConsoleError:
    with pytest.raises(UsageError) as caught:
        read(folder, text, **options)
    return caught.value


def test_a_published_file_works_as_it_stands(folder: Path) -> None:
    task = read(folder, PUBLISHED)
    assert task == Task(
        name="bert-base",
        devices=None,
        batch_size=8,
        preferred_devices=("A100-SXM4-40GB", "RTX_3090"),
        preference_timeout_s=120.0,
        memory_threshold=0.8,
        allow_mixed_precision=True,
        distributed_strategy="ddp",
        algorithm="rl_based",
        model_name="bert-base",
        sequence_length=256,
    )


def test_policy_and_scheduler_may_stand_under_the_task(folder: Path) -> None:
    lines = PUBLISHED.splitlines(keepends=True)
    moved = "".join([*lines[:7], *("  " + line for line in lines[7:])])
    assert read(folder, moved) == read(folder, PUBLISHED)
    twice = PUBLISHED.replace("task:\n", "task:\n  scheduler: {timeout: 3}\n")
    error = refused(folder, twice)
    assert "job.yaml:17:3: `scheduler`: `scheduler` is both at the top level" in error.message


def test_every_key_arrives(folder: Path) -> None:
    task = read(
        folder,
        """\
task:
  script: src/train.py
  project: .
  args: [--lr, 0.001, --amp, true]
  image: lab/paddle:3
  env: {OMP_NUM_THREADS: 4, MODE: on}
  mounts:
    - /data/sets:/data
    - {source: /scratch, target: /scratch, read_only: false}
    - /out:/out:rw
  name: nightly
  priority: 5
  devices: 2
  exclusive: true
  labels: {pool: train}
  after: prepare
  checkpoint_dir: ckpt
  deadline: 2030-01-31T18:00+08:00
  anti_labels: {rack: old, flaky: ''}
  hosts: 2
  account: vision
  auto_batch: true
  retries: 3
  run_time: 2h
  backend: npu
  shm_size: 16 GiB
  memory_limit: 32g
  network: lab
  assume: {features: 128}
""",
    )
    assert task.script == str(folder / "src" / "train.py")
    assert task.project == str(folder)
    assert task.args == ("--lr", "0.001", "--amp", "true")
    assert task.env == {"OMP_NUM_THREADS": "4", "MODE": "on"}
    assert task.mounts == (
        Mount("/data/sets", "/data"),
        Mount("/scratch", "/scratch", read_only=False),
        Mount("/out", "/out", read_only=False),
    )
    assert (task.name, task.priority, task.devices, task.exclusive) == ("nightly", 5, 2, True)
    assert (task.labels, task.after, task.run_time_s) == ({"pool": "train"}, ("prepare",), 7200.0)
    assert (task.shm_size_mib, task.memory_limit_mib, task.network) == (16384.0, 32768.0, "lab")
    assert (task.backend, task.deadline) == ("npu", "2030-01-31T10:00:00.000Z")
    assert task.anti_labels == {"rack": "old", "flaky": ""}
    assert (task.hosts, task.account) == (2, "vision")
    assert (task.auto_batch, task.retries) == (True, 3)
    assert task.assumptions == {"features": "128"}


def test_arguments_as_one_text_are_divided_as_a_shell_does(folder: Path) -> None:
    task = read(folder, "task: {script: src/train.py, args: \"--name 'two words' -v\"}")
    assert task.args == ("--name", "two words", "-v")
    assert (task.name, task.project, task.devices) == ("train", str(folder / "src"), 1)


def test_the_caller_wins_over_the_file(folder: Path) -> None:
    task = read(folder, PUBLISHED, batch_size=3, name=None, devices=2)
    assert (task.batch_size, task.devices, task.name) == (3, 2, "bert-base")


def test_what_nobody_sets_the_lab_decides(folder: Path) -> None:
    task = read(folder, "task: {script: src/train.py}")
    assert (task.memory_threshold, task.shm_size_mib, task.memory_limit_mib) == (None, None, None)
    assert task.network == ""
    assert task.threshold(0.95) == 0.95
    assert read(folder, PUBLISHED).threshold(0.95) == 0.8
    assert read(folder, PUBLISHED).threshold(0.7) == 0.7


def test_the_callers_script_brings_its_own_project(folder: Path) -> None:
    other = folder / "other.py"
    other.write_text("")
    task = read(folder, "task: {script: src/train.py, project: src}", script=other)
    assert (task.script, task.project) == (str(other), str(folder))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: {batch_size: 3}", "1:8: `batch_size` is not a known key; did you mean `batch_s"),
        ("task: {batch_size_per_gpu: 0}", "1:28: `task.batch_size_per_gpu`: expected greater th"),
        ("task: {batch_size_per_gpu: x}", "1:28: `task.batch_size_per_gpu`: expected a whole nu"),
        ("task: {num_gpus_estimate: many}", "1:27: `task.num_gpus_estimate`: expected a whole"),
        ("task: {devices: 0}", "1:17: `task.devices`: expected greater than or equal to 1 or"),
        ("task: {framework: pytorch}", "1:19: `task.framework`: expected 'paddlepaddle', found"),
        ("task: {script: gone.py}", "1:16: `task.script`: "),
        ("task: {script: src}", "1:16: `task.script`: "),
        ("task: {script: src/train.py, project: gone}", "1:39: `task.project`: "),
        ('task: {args: "\'open"}', "1:14: `task.args`: No closing quotation"),
        ("task: {env: {A-B: 1}}", "1:19: `task.env.A-B`: expected a name of letters"),
        ("task: {mounts: ['/a']}", "1:17: `task.mounts[0]`: expected `source:target`"),
        ("task: {mounts: ['a:/b']}", "1:17: `task.mounts[0]`: expected an absolute path"),
        ("task: {mounts: ['/:/b']}", "1:17: `task.mounts[0]`: expected an absolute path"),
        ("task: {deadline: soon}", "1:18: `task.deadline`: expected a time such as"),
        ("task: {run_time: soon}", "1:18: `task.run_time`: expected a duration such as"),
        ("task: {share: true, exclusive: true}", "1:7: `task`: `share` and `exclusive` exclude"),
        ("task: {}\nscheduler: {algorithm: magic}", "2:24: `scheduler.algorithm`: expected"),
        ("task: {}\nresource_policy: {memory_threshold: 1.5}", "2:37: `resource_policy.memory_"),
        ("task: {memory_threshold: 0.9}", "1:8: `memory_threshold` is not a known key here"),
        ("resource_policy: {}", "1:1: `task` is missing"),
        ("task:", "1:6: `task` is empty"),
        ("task:\n#  script: train.py", "1:6: `task` is empty"),
        ("", "1:1: the document is empty"),
    ],
)
def test_a_mistake_has_its_place(folder: Path, text: str, message: str) -> None:
    error = refused(folder, text)
    assert isinstance(error, DocumentError)
    assert error.message.startswith(f"{folder / 'job.yaml'}:{message}")


def test_a_key_in_the_wrong_section_is_told_where_it_belongs(folder: Path) -> None:
    hint = refused(folder, "task: {memory_threshold: 0.9}").hint
    assert hint == "`memory_threshold` belongs under `resource_policy`."


def test_a_script_outside_its_project_is_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    error = refused(folder, "task: {script: src/train.py, project: empty}")
    assert "is not in the project folder" in error.message


def test_a_script_alone_is_a_task(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    task = task_from_script(Path("src/../src/train.py"), ["-x", "1"], name=None, priority=3)
    assert task == Task(
        name="train",
        script=str(folder / "src" / "train.py"),
        args=("-x", "1"),
        project=str(folder / "src"),
        priority=3,
    )


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        ("gone.py", {}, "gone.py does not exist"),
        ("src", {}, "src is not a file"),
        ("a\0b", {}, "does not exist"),
        ("src/train.py", {"batch_size": 0}, "batch size is 0; it must be at least 1"),
        ("src/train.py", {"devices": -1}, "number of devices is -1"),
        ("src/train.py", {"memory_threshold": 2.0}, "memory threshold is 2;"),
        ("src/train.py", {"project": "gone"}, "gone does not exist"),
    ],
)
def test_wrong_usage_is_refused(
    folder: Path, script: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        task_from_script(folder / script, **options)
    assert words in caught.value.message
    assert caught.value.exit_code == 2


def test_the_reference_task_file_works() -> None:
    path = Path(__file__).parents[2] / "shared" / "article" / "task.yaml"
    if not path.exists():
        pytest.skip("the reference task file is not beside this checkout")
    task = load_task(path)
    assert (task.model_name, task.sequence_length, task.batch_size) == ("ernie-gram", 512, 16)
    assert (task.devices, task.algorithm, task.preference_timeout_s) == (None, "rl_based", 300.0)
    assert task.preferred_devices == ("A100-SXM4-40GB", "V100-32GB", "RTX_3090")


def test_a_value_from_the_environment_is_secret(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "value-1")
    monkeypatch.delenv("UNSET", raising=False)
    text = """\
task:
  script: src/train.py
  env:
    LR: 0.1
    HF_TOKEN: {from_env: MY_TOKEN}
    OTHER: {from_env: UNSET}
"""
    task = read(folder, text)
    assert task.env == {"LR": "0.1"}
    assert task.secrets == {"HF_TOKEN": "value-1", "OTHER": ""}
    assert "value-1" not in repr(task)
    assert "from_env" in refused(folder, text.replace("from_env: MY", "fromenv: MY")).message
    refused(folder, text.replace("MY_TOKEN", "MY TOKEN"))


def test_rules_that_end_a_job_are_read_and_a_wrong_one_has_its_place(folder: Path) -> None:
    one = "task:\n  script: src/train.py\n  stop_if: loss is nan\n"
    assert read(folder, one).stop_if == ("loss is nan",)
    several = one.replace("loss is nan", "[loss is nan, no better val_loss for 5 epochs]")
    assert read(folder, several).stop_if == ("loss is nan", "no better val_loss for 5 epochs")
    error = refused(folder, one.replace("nan", "bad"))
    assert "job.yaml:3:12: `task.stop_if`" in error.message
    assert "expected `nan` or `not` at column 9" in error.message
    many = one.replace("loss is nan", str(["loss is nan"] * 9))
    assert "at most 8 rules" in refused(folder, many).message
    with pytest.raises(UsageError, match="expected a number at column 8"):
        task_from_script(folder / "src" / "train.py", stop_if=("loss > x",))
