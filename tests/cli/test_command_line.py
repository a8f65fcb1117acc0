"""The command line: exit codes, one JSON document, and clear words for everything that is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gpuconsole.cli.commands.jobs import jobs as jobs_command
from gpuconsole.cli.entry import sections
from tests.cli.command_line import Lab, Run, in_process
from tests.waiting import DEADLINE_S


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
    done = in_process(program)
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
