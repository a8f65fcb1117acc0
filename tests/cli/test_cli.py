"""The command line: exit codes, one JSON document, and clear words for everything that is wrong."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from gpuconsole.cli import main
from gpuconsole.cli.commands.jobs import jobs as jobs_command
from gpuconsole.cli.entry import sections
from gpuconsole.cli.tasks import TaskValue
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.inventory import load_inventory, parse_inventory
from gpuconsole.session.reading import process, reader
from tests.waiting import DEADLINE_S

SCRIPT = """
import paddle
from paddle.io import DataLoader, Dataset


class Samples(Dataset):
    def __getitem__(self, index):
        return paddle.randn([784]), paddle.to_tensor(1)

    def __len__(self):
        return 640


net = paddle.nn.Sequential(
    paddle.nn.Linear(784, 256), paddle.nn.ReLU(), paddle.nn.Linear(256, 10)
)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for images, labels in DataLoader(Samples(), batch_size=64):
    loss = paddle.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    adam.step()
    adam.clear_grad()
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command may see the settings, inventory or queue of whoever runs the tests."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    for name in ("INVENTORY", "STATE", "CONFIG", "READ_ONLY"):
        monkeypatch.delenv(f"GPUCONSOLE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def go(*words: object) -> Answer:
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return Answer(code, said.out, said.err)

    return go


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def lab(tmp_path: Path) -> tuple[str, ...]:
    """Options that name an inventory whose one host refuses, and a fresh state folder."""
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "version: 1\nhosts:\n  - {name: gone, address: 127.0.0.1, port: 9, user: nobody}\n"
    )
    return "--inventory", str(inventory), "--state", str(tmp_path / "state")


Run = Callable[..., Answer]
Lab = tuple[str, ...]


# --- the shape of every answer ------------------------------------------------------------------


def test_help_names_every_command_and_hides_nothing_behind_dots(run: Run) -> None:
    answer = run("--help")
    assert answer.code == 0
    for _, commands in sections():
        for command in commands:
            assert f"  {command.name} " in answer.out
    assert "..." not in answer.out.split("Look:")[1]


def command_words() -> list[tuple[str, ...]]:
    """Return the words of every command, those of groups after their group's."""
    found: list[tuple[str, ...]] = []
    for command in (one for _, many in sections() for one in many):
        below = command.commands if isinstance(command, click.Group) else {}
        found += [(str(command.name), *more) for more in ([name] for name in below)] or [
            (str(command.name),)
        ]
    return found


@pytest.mark.parametrize("words", command_words(), ids=" ".join)
def test_every_command_has_help_json_and_the_global_options(
    run: Run, words: tuple[str, ...]
) -> None:
    answer = run(*words, "--help")
    assert answer.code == 0
    for option in ("--json", "--inventory", "--state", "--read-only"):
        assert option in answer.out


@pytest.mark.parametrize(
    "words",
    [
        ["jbos"],
        ["jobs", "--bogus"],
        ["jobs", "too", "many"],
        ["preflight", "x.py", "--batch-size", "0"],
        ["preflight", "x.py", "--batch-size", "many"],
        ["preflight", "x.py", "--assume", "width"],
        ["preflight", "x.py", "--memory-mib", "-1"],
        ["preflight", "x.py", "--tier", "traced"],
        ["preflight"],
        ["submit", "x.py", "--env", "=1"],
        ["submit", "x.py", "--mount", "data:/data"],
        ["submit", "x.py", "--mount", "/data"],
        ["submit", "x.py", "--devices", "0"],
        ["submit", "x.py", "--shm-size", "large"],
        ["submit", "nowhere.py"],
        ["logs"],
        ["render", "job", "--to", "podman"],
        ["demo", "--hosts", "0", "--headless"],
        ["demo"],
        ["status", "--inventory", "nowhere.yaml"],
        ["preflight", "--task", "nowhere.yaml"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_error_document_and_code_2(run: Run, words: list[str]) -> None:
    answer = run(*words, "--json")
    assert answer.code == 2
    assert set(answer.document) == {"error"}
    error = answer.document["error"]
    assert set(error) == {"title", "message", "hint"}
    assert error["title"]
    assert error["message"]
    assert answer.err == ""


def test_without_json_an_error_is_on_stderr_alone(run: Run) -> None:
    answer = run("jbos")
    assert (answer.code, answer.out) == (2, "")
    assert "jobs" in answer.err, "the nearest command is named"


def test_global_options_stand_before_and_after_the_command(run: Run, lab: Lab) -> None:
    before, after = run(*lab, "jobs", "--json"), run("jobs", *lab, "--json")
    assert (before.code, after.code) == (0, 0)
    assert before.document == after.document == {"jobs": []}


def test_the_environment_gives_way_to_the_line(
    run: Run, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named"
    monkeypatch.setenv("GPUCONSOLE_INVENTORY", lab[1])
    monkeypatch.setenv("GPUCONSOLE_STATE", str(named))
    assert run("jobs", "--json").code == 0
    assert named.is_dir()
    # Before the command's name as after it.
    assert run("--state", tmp_path / "first", "jobs").code == 0
    assert run("jobs", "--state", tmp_path / "second").code == 0
    assert (tmp_path / "first").is_dir()
    assert (tmp_path / "second").is_dir()


def test_the_environment_can_refuse_every_change(
    run: Run, lab: Lab, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCONSOLE_READ_ONLY", "1")
    said = run("submit", script, "--force", *lab)
    assert (said.code, "Read-only" in said.err) == (2, True), said
    monkeypatch.setenv("GPUCONSOLE_READ_ONLY", "0")
    assert run("submit", script, "--force", *lab).code == 0


def test_settings_that_the_environment_names_must_exist(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.yaml"
    monkeypatch.setenv("GPUCONSOLE_CONFIG", str(settings))
    missing = run("doctor", "--json")
    assert (missing.code, str(settings) in missing.out) == (1, True)
    settings.write_text("symbols: ascii\n")
    assert run("doctor").code == 0
    settings.write_text("symbls: ascii\n")
    assert "settings.yaml:1" in run("doctor").out


def test_words_after_two_dashes_belong_to_the_script(run: Run, lab: Lab, script: Path) -> None:
    queued = run("submit", script, *lab, "--json", "--", "--json", "--epochs", "3")
    assert queued.code == 0, queued.out + queued.err
    rendered = run("render", "train", "--to", "docker", *lab)
    assert rendered.out.strip().endswith("train.py --json --epochs 3")


def test_an_unexpected_error_is_one_line_and_a_file(
    run: Run, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the roof fell in")

    monkeypatch.setattr(jobs_command, "drive", broken)
    answer = run("jobs", *lab)
    assert answer.code == 2
    assert "the roof fell in" in answer.err
    report = Path(next(word for word in answer.err.split() if word.startswith("/")).rstrip(";"))
    assert "Traceback" in report.read_text()
    report.unlink()


def test_ctrl_c_is_quiet(run: Run, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs_command, "drive", interrupted)
    answer = run("jobs", *lab)
    assert (answer.code, answer.out, answer.err.strip()) == (130, "", "Interrupted.")


# --- what must not be imported ------------------------------------------------------------------


def test_help_and_preflight_import_neither_screen_nor_ssh_nor_docker(
    script: Path, tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "from gpuconsole.cli import main\n"
        f"codes = [main(['--help']), main(['preflight', {str(script)!r}, '--json'])]\n"
        "heavy = {'textual', 'asyncssh', 'docker', 'paddle', 'pynvml'} & set(sys.modules)\n"
        "heavy |= {'gpuconsole.preflight.tiers.static'} & set(sys.modules)\n"
        "print(codes, sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[0, 0] []"


def test_a_closed_pipe_is_no_error(lab: Lab) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "gpuconsole", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=DEADLINE_S,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


# --- preflight ----------------------------------------------------------------------------------


def test_preflight_answers_for_common_cards_without_an_inventory(run: Run, script: Path) -> None:
    answer = run("preflight", script, "--json")
    assert answer.code == 0
    document = answer.document
    assert document["batch_size"] == 64
    assert document["tier"] == "static"
    devices = {verdict["device"]: verdict for verdict in document["verdicts"]}
    assert {"A100-SXM4-40GB", "GeForce RTX 3090", "Tesla V100-PCIE-32GB"} <= set(devices)
    assert {verdict["verdict"] for verdict in devices.values()} == {"fits"}


def test_preflight_from_the_root_of_a_project_reads_all_of_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "nets/__init__.py": "",
        "nets/net.py": "import paddle\ndef make():\n    return paddle.nn.Linear(8, 4)\n",
        "tools/train.py": _TOOL,
    }.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path / "project")
    document = run("preflight", "tools/train.py", "--json").document
    assert document["unknowns"] == []
    assert document["tier"] == "static"


_TOOL = """
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import paddle
from nets.net import make

net = make()
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(4):
    net(paddle.randn([16, 8])).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_preflight_judges_a_card_of_a_size_alone(run: Run, script: Path) -> None:
    large = run("preflight", script, "--memory-mib", 2000, "--json")
    assert large.code == 0
    [verdict] = large.document["verdicts"]
    assert verdict["max_batch_size"] > 64
    small = run("preflight", script, "--memory-mib", 1, "--json")
    assert small.code == 1
    assert small.document["verdicts"][0]["verdict"] == "will-not-fit"


def test_preflight_takes_the_batch_size_given(run: Run, script: Path) -> None:
    document = run("preflight", script, "--batch-size", 8, "--json").document
    assert document["batch_size"] == 8
    assert document["batch_source"]["kind"] == "given"


def test_preflight_for_a_person_says_the_verdict_in_words(run: Run, script: Path) -> None:
    answer = run("preflight", script, "--explain")
    assert answer.code == 0
    assert "batch 64 (constant, train.py:" in answer.out
    assert "fits" in answer.out
    assert "parameters" in answer.out
    assert "\x1b[" not in answer.out, "no escape sequences where no terminal is"


def test_a_wrong_script_is_a_clear_no(run: Run, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(SCRIPT.replace("Linear(256, 10)", "Linear(200, 10)"))
    answer = run("preflight", wrong, "--json")
    assert answer.code == 1
    [fault] = answer.document["errors"]
    assert fault["line"] == 19
    assert {verdict["verdict"] for verdict in answer.document["verdicts"]} == {"will-fail"}


@pytest.mark.parametrize(
    "content", ["def (:\n", "x = 1\n\0", "\xff\xfe"], ids=["syntax", "nul", "bytes"]
)
def test_a_script_that_is_no_python_is_no_traceback(run: Run, tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.py"
    path.write_bytes(content.encode("latin-1"))
    answer = run("preflight", path, "--json")
    assert answer.code in (1, 2)
    assert "error" in answer.document or answer.document["errors"]


def test_a_huge_script_is_refused_before_it_is_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "huge.py"
    with path.open("wb") as file:
        file.truncate(50 * 2**20)
    answer = run("preflight", path, "--json")
    assert answer.code == 2
    assert "50 MiB" in answer.document["error"]["message"]


def test_a_folder_is_no_script(run: Run, tmp_path: Path) -> None:
    assert run("preflight", tmp_path, "--json").code == 2


def test_a_task_file_is_enough_and_options_win(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(
        "task:\n  type: training\n  model_name: ernie-gram\n  sequence_length: 512\n"
        "  batch_size_per_gpu: 16\n"
    )
    document = run("preflight", "--task", path, "--json").document
    assert (document["batch_size"], document["tier"]) == (16, "formula")
    document = run("preflight", "--task", path, "--batch-size", 4, "--json").document
    assert document["batch_size"] == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("task: [", "task.yaml:2"),
        ("task:\n  model_nmae: ernie\n", "model_name"),
        ("task:\n  sequence_length: long\n", "task.yaml:2"),
    ],
    ids=["malformed", "unknown key", "wrong type"],
)
def test_a_wrong_task_file_names_its_place(run: Run, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(text)
    answer = run("preflight", "--task", path)
    assert answer.code == 2
    assert words in answer.err


def test_preflight_needs_no_state_folder(run: Run, script: Path) -> None:
    assert run("preflight", script, "--state", "/proc/nowhere", "--json").code == 0


# --- fleet --------------------------------------------------------------------------------------


def test_status_with_a_host_down_is_done_and_says_so(run: Run, lab: Lab) -> None:
    answer = run("status", *lab, "--json")
    assert answer.code == 0
    [host] = answer.document["hosts"]
    assert (host["name"], host["state"], host["devices"]) == ("gone", "down", [])
    assert "refuse" in host["error"]
    assert "gone" in run("status", *lab).out


def test_check_finds_the_fault_and_names_the_remedy(run: Run, lab: Lab) -> None:
    answer = run("check", *lab, "--json")
    assert answer.code == 1
    assert answer.document["ok"] is False
    steps = {found["step"]: found for found in answer.document["hosts"][0]["findings"]}
    assert steps["tcp"]["result"] == "fail"
    assert steps["tcp"]["remedy"]
    assert "→" in run("check", "gone", *lab).out


def test_check_of_an_unknown_host_is_wrong_usage(run: Run, lab: Lab) -> None:
    assert run("check", "other", *lab, "--json").code == 2


def test_trust_of_a_host_out_of_reach_is_code_3(run: Run, lab: Lab) -> None:
    assert run("check", "--trust", "gone", "--yes", *lab, "--json").code == 3
    assert run("check", "--trust", "gone", "--read-only", *lab, "--json").code == 2


def test_init_writes_an_inventory_that_check_reads(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host a100-01\n  HostName 10.0.0.11\n")
    target = tmp_path / "made.yaml"
    words = ("init", "--ssh-config", config, "--output", target, "--json")
    assert run(*words).document == {"inventory": str(target), "hosts": ["a100-01"]}
    again = run(*words)
    assert again.code == 2
    assert "--force" in again.document["error"]["hint"]
    assert run(*words, "--force").code == 0
    assert run(*words, "--force", "--read-only").code == 2


def test_init_without_any_host_writes_a_template(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = tmp_path / "made.yaml"
    answer = run("init", "--output", target)
    assert answer.code == 0
    assert "remove the #" in answer.err
    text = target.read_text()
    with pytest.raises(ConsoleError, match="hosts"):
        parse_inventory(text, "made.yaml")
    # The example is one as soon as its marks are gone.
    head, hosts, example = text.partition("hosts:\n")
    filled = head + hosts + re.sub(r"(?m)^#  ", "  ", example)
    (host,) = parse_inventory(filled, "made.yaml").hosts
    assert host.name == "a100-01"
    assert run("init", "--output", target, "--json").code == 2
    assert run("init", "--ssh-config", tmp_path / "none", "--output", target).code == 2


@pytest.mark.parametrize(
    ("typed", "name", "user"), [("ops@gpu-01", "gpu-01", "ops"), ("10.0.0.7", "10.0.0.7", "")]
)
def test_init_asks_for_a_first_host_at_a_terminal(
    typed: str, name: str, user: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ssh = tmp_path / ".ssh"
    ssh.mkdir()
    (ssh / "config").write_text("Host *\n  User x\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{typed}\n"))
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    target = tmp_path / "made.yaml"
    assert run("init", "--output", target).code == 0
    (host,) = load_inventory(target).hosts
    assert (host.name, host.user) == (name, user or host.user)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: 1\nhosts: [\n", "inventory.yaml:"),
        ("version: 1\nhosts:\n  - {name: a, adress: b}\n", "address"),
        ("version: 9\nhosts:\n  - {name: a}\n", "inventory.yaml:1"),
        ("", "inventory.yaml"),
    ],
    ids=["malformed", "unknown key", "version", "empty"],
)
def test_a_wrong_inventory_names_its_place(run: Run, lab: Lab, text: str, words: str) -> None:
    Path(lab[1]).write_text(text)
    for command in ("status", "jobs", "check"):
        answer = run(command, *lab)
        assert answer.code == 2
        assert words in answer.err


# --- queue --------------------------------------------------------------------------------------


def test_a_job_is_queued_held_released_cancelled_and_queued_again(
    run: Run, lab: Lab, script: Path
) -> None:
    queued = run("submit", script, *lab, "--name", "first", "--json")
    assert queued.code == 0
    job = queued.document["job"]
    assert queued.document["state"] == "queued"
    [listed] = run("jobs", *lab, "--json").document["jobs"]
    assert (listed["id"], listed["name"], listed["state"]) == (job, "first", "queued")
    assert listed["estimate_mib"] > 0
    why = run("why", "first", *lab, "--json")
    assert why.code == 0
    assert set(why.document) >= {"state", "reason", "blockers", "estimated_start", "options"}
    assert run("hold", job, *lab, "--json").document["state"] == "held"
    assert run("hold", job, *lab, "--json").document["state"] == "queued"
    assert run("cancel", job[:8], *lab, "--json").document["state"] == "cancelled"
    assert run("wait", job, *lab, "--json").code == 1
    assert run("cancel", job, *lab, "--json").code == 1
    assert run("retry", job, *lab, "--json").document["state"] == "queued"
    assert "first" in run("jobs", *lab).out


def test_submit_passes_every_option_on(run: Run, lab: Lab, script: Path) -> None:
    words = (
        "--name", "wide", "--image", "lab/paddle:3", "--env", "A=b=c", "--mount", "/d:/data:rw",
        "--shm-size", "2g", "--memory-limit", "512m", "--network", "full", "--priority", "-5",
        "--label", "pool=train", "--hold",
    )  # fmt: skip
    answer = run("submit", script, *lab, *words, "--json")
    assert answer.document["state"] == "held"
    text = run("render", "wide", "--to", "docker", *lab, "--json").document["text"]
    for part in (
        "lab/paddle:3", "A=b=c", "source=/d,target=/data", "--shm-size 2048m", "--memory 512m",
        "--network bridge",
    ):  # fmt: skip
        assert part in text


def test_a_script_that_will_fail_is_refused_unless_forced(
    run: Run, lab: Lab, tmp_path: Path
) -> None:
    wrong = tmp_path / "project" / "wrong.py"
    wrong.parent.mkdir()
    wrong.write_text(SCRIPT.replace("Linear(256, 10)", "Linear(200, 10)"))
    refused = run("submit", wrong, *lab, "--json")
    assert refused.code == 1
    assert "wrong.py:19" in refused.document["error"]["message"]
    assert run("jobs", *lab, "--json").document == {"jobs": []}
    assert run("submit", wrong, *lab, "--force", "--json").code == 0


def test_the_journal_answers_alone_without_inventory_and_gpu(
    run: Run, lab: Lab, script: Path
) -> None:
    job = run("submit", script, *lab, "--hold", "--json").document["job"]
    state = lab[2:]
    assert run("jobs", *state, "--json").document["jobs"][0]["id"] == job
    assert run("logs", job, *state, "--json").document == {"job": job, "lines": []}
    assert "held" in run("why", job, *state, "--json").document["reason"]
    assert "docker run" in run("render", job, "--to", "docker", *state).out
    assert run("hold", job, *state, "--json").document["state"] == "queued"
    # Why it waits is for the fleet to say, and there is none.
    answer = run("why", job, *state, "--json")
    assert answer.code == 2
    assert "demo" in answer.document["error"]["hint"]


def test_a_wrong_value_is_told_as_in_the_task_file(run: Run, lab: Lab, script: Path) -> None:
    for words, said in (
        (("--mount", "data:/data"), "absolute path"),
        (("--mount", "/data"), "source:target"),
        (("--shm-size", "much"), "a size such as"),
        (("--devices", "0"), "from 1 to 64"),
    ):
        answer = run("submit", script, *lab, *words, "--json")
        assert answer.code == 2
        assert said in answer.document["error"]["message"]


def test_read_only_refuses_every_change(run: Run, lab: Lab, script: Path) -> None:
    job = run("submit", script, *lab, "--json").document["job"]
    for words in (
        ("submit", script), ("cancel", job), ("retry", job), ("hold", job), ("prune",),
    ):  # fmt: skip
        answer = run(*words, *lab, "--read-only", "--json")
        assert answer.code == 2, words
        assert "ead-only" in answer.document["error"]["title"]
    assert run("jobs", *lab, "--read-only", "--json").document["jobs"][0]["state"] == "queued"


def test_an_unknown_job_is_wrong_usage(run: Run, lab: Lab) -> None:
    for command in ("logs", "wait", "why", "cancel", "retry", "hold", "fetch"):
        answer = run(command, "nobody", *lab, "--json")
        assert answer.code == 2, command
        assert "nobody" in answer.document["error"]["message"]


def test_results_of_a_job_that_has_not_run_are_a_clear_no(run: Run, lab: Lab, script: Path) -> None:
    job = run("submit", script, *lab, "--json").document["job"]
    assert run("fetch", job, *lab, "--json").code == 1
    assert run("fetch", job, *lab, "--list", "--json").code == 1
    assert run("logs", job, *lab, "--json").document == {"job": job, "lines": []}


def test_prune_with_no_host_in_reach_is_code_3(run: Run, lab: Lab) -> None:
    assert run("prune", *lab, "--json").code == 3


def test_a_state_folder_that_cannot_be_is_code_2(run: Run, lab: Lab) -> None:
    answer = run("jobs", *lab[:2], "--state", "/proc/nowhere", "--json")
    assert answer.code == 2
    assert "/proc/nowhere" in answer.document["error"]["message"]


def test_dispatch_ends_cleanly_on_sigterm(lab: Lab, tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "gpuconsole", "dispatch", *lab, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert child.stderr is not None
    assert "Dispatching" in child.stderr.readline()
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    assert json.loads(out)["stopped"] is True
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("said", "mib"), [("8g", 8192.0), ("512m", 512.0), ("4096", 4096.0), ("1.5GiB", 1536.0)]
)
def test_sizes_are_read_as_docker_writes_them(said: str, mib: float) -> None:
    assert TaskValue("shm_size", "size").convert(said, None, None) == mib


def test_a_journal_from_a_newer_version_is_left_alone(run: Run, lab: Lab) -> None:
    assert run("jobs", *lab).code == 0
    [journal] = [path for path in Path(lab[3]).iterdir() if path.read_bytes()[:6] == b"SQLite"]
    with contextlib.closing(sqlite3.connect(journal)) as database:
        database.execute("PRAGMA user_version = 9999")
    answer = run("jobs", *lab, "--json")
    assert answer.code == 2
    assert "newer" in " ".join(answer.document["error"].values())


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_without_inventory_and_gpu_the_demo_is_offered(run: Run) -> None:
    answer = run("status", "--json")
    assert answer.code == 2
    assert "gpuconsole demo" in answer.document["error"]["hint"]
    assert run().code == 2


def test_preflight_with_no_host_in_reach_says_how_to_go_on(
    run: Run, lab: Lab, script: Path
) -> None:
    answer = run("preflight", script, *lab[:2], "--json")
    assert (answer.code, answer.document["verdicts"]) == (1, [])
    assert "--offline" in answer.err
    assert run("preflight", script, *lab[:2], "--offline", "--json").code == 0


def test_a_script_that_takes_too_much_to_read_is_unknown_with_its_line(
    run: Run, lab: Lab, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ending(process.Child):
        def ask(self, question: object) -> dict[str, Any]:
            raise process.EndedError("took more than 60 s of processor time")

        def place(self) -> tuple[str, int]:
            return str(script), 12

    monkeypatch.setattr(reader, "Child", Ending)
    answer = run("preflight", script, "--offline", "--json")
    assert answer.code == 1
    assert answer.document["memory"] is None
    assert answer.document["unknowns"] == [{
        "file": str(script), "line": 12,
        "reason": "following the script took more than 60 s of processor time",
    }]  # fmt: skip
    assert {one["verdict"] for one in answer.document["verdicts"]} == {"unknown"}
    assert run("submit", script, *lab, "--json").code == 0


def test_answers_are_used_remembered_and_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\n"
        "width = int(open('width.txt').read())\n"
        "net = paddle.nn.Linear(width, 1)\n"
        "opt = paddle.optimizer.SGD(parameters=net.parameters())\n"
        "for _ in range(3):\n"
        "    net(paddle.zeros([8, width])).mean().backward()\n"
        "    opt.step()\n"
        "    opt.clear_grad()\n"
    )
    words = ["preflight", str(script), "--backend", "cpu", "--offline", "--json"]
    words += ["--state", str(tmp_path / "state")]

    def ask(*more: str) -> tuple[int, dict[str, Any]]:
        code = main([*words, *more])
        return code, json.loads(capsys.readouterr().out)

    _, document = ask()
    assert [one["name"] for one in document["asks"]] == ["width"]
    code, document = ask("--assume", "height=3")
    assert code == 2
    assert "train.py:2" in document["error"]["hint"], "it says what was asked"
    assert ask("--assume", "width=[3")[0] == 2
    _, document = ask("--assume", "width=32")
    assert document["memory"] is not None
    assert "Assumed: width = 32 (given)." in document["notes"]
    _, document = ask()
    assert "Assumed: width = 32 (remembered)." in document["notes"]
    _, document = ask("--assume", "width=")
    assert document["memory"] is None
    ask("--assume", "width=64")
    _, document = ask("--forget-assumptions")
    assert document["memory"] is None
    assert ask()[1]["memory"] is None, "forgotten for good"


def test_without_a_limit_a_processor_is_not_answered_with_common_cards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\n"
        "net = paddle.nn.Linear(4, 2)\n"
        "opt = paddle.optimizer.SGD(parameters=net.parameters())\n"
        "for _ in range(3):\n"
        "    net(paddle.zeros([8, 4])).mean().backward()\n"
        "    opt.step()\n"
        "    opt.clear_grad()\n"
    )
    words = ["preflight", str(script), "--backend", "cpu", "--offline"]
    assert main([*words, "--state", str(tmp_path / "state")]) == 0
    assert "--memory-mib" in capsys.readouterr().err


def test_a_command_looks_for_no_garbage_as_it_starts_and_ends() -> None:
    code = (
        "import atexit, gc\n"
        "from gpuconsole.cli import main\n"
        "said = lambda: print(gc.get_threshold()[0] > 10_000, gc.get_freeze_count() > 10_000)\n"
        # What is registered first is called last.
        "atexit.register(said)\n"
        "main(['--version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["True", "True"]
