"""`gpuconsole preflight`: answers, exit codes, and scripts and task files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import main
from gpuconsole.session.reading import process, reader
from tests.cli.command_line import SCRIPT, Lab, Run

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
