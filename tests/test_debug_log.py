"""The file that `--debug` writes: bounded, private, and without secrets."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole import debug_log
from tests.waiting import DEADLINE_S


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    yield
    for name in (debug_log.LOG.name, *debug_log.OTHERS):
        logger = logging.getLogger(name)
        for handler in tuple(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN=hunter2hunter2",
        "submit --env WANDB_API_KEY=hunter2hunter2 train.py",
        '{"password": "hunter2hunter2"}',
        "DB_PASSWORD: 'hunter2hunter2'",
        "http://ops:hunter2hunter2@proxy:3128/x",
        "Authorization: Bearer hunter2hunter2",
        "GET /lab?token=hunter2hunter2&x=1",
    ],
)
def test_what_looks_secret_is_taken_out(text: str) -> None:
    assert "hunter2" not in debug_log.without_secrets(text, {})


def test_secrets_of_the_environment_are_taken_out_wherever_they_stand() -> None:
    environ = {"LAB_SECRET": "s3cr3t-of-the-lab", "EDITOR": "nano-editor"}
    said = debug_log.without_secrets("a s3cr3t-of-the-lab b nano-editor", environ)
    assert said == "a *** b nano-editor"


def test_what_is_no_secret_stays() -> None:
    text = "host gpu-01: up, 8 devices, batch_size=64, key C opened"
    assert debug_log.without_secrets(text, {}) == text


def test_the_file_is_private_whatever_the_umask_and_holds_no_control_characters(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        path = debug_log.begin(
            tmp_path / "state" / "log", ["jobs", "--env", "A_TOKEN=abcdefgh"], "0.1.0"
        )
    finally:
        os.umask(before)
    logging.getLogger("gpuconsole.some.room").warning("host said \x1b[2J %s", "x" * 5000)
    logging.getLogger("asyncssh").info("Connected to gpu-01")
    text = path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert "\x1b" not in text
    assert "abcdefgh" not in text
    assert "gpuconsole.some.room: host said" in text
    assert "asyncssh: Connected to gpu-01" in text
    assert max(map(len, text.splitlines())) < debug_log.LINE + 100


def test_a_traceback_follows_its_record_without_secrets(tmp_path: Path) -> None:
    path = debug_log.begin(tmp_path, [], "0.1.0")
    try:
        raise ValueError("api_key=abcdefgh1234")
    except ValueError:
        debug_log.LOG.exception("something broke")
    text = path.read_text("utf-8")
    assert "something broke" in text
    assert "test_debug_log.py" in text
    assert "abcdefgh1234" not in text


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_log, "MOST_BYTES", 4000)
    debug_log.begin(tmp_path, [], "0.1.0")
    for number in range(500):
        debug_log.LOG.info("record %d", number)
    files = sorted(tmp_path.iterdir())
    assert len(files) == debug_log.KEPT + 1
    assert all(one.stat().st_size <= 4200 for one in files)
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in files)
    assert "record 499" in (tmp_path / debug_log.NAME).read_text("utf-8")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / debug_log.NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        debug_log.begin(tmp_path, [], "0.1.0")


def _ran(home: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "gpuconsole", *argv], env={**kept, "HOME": str(home), **more},
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


def test_a_command_with_debug_says_where_its_log_is(tmp_path: Path) -> None:
    done = _ran(tmp_path, "why", "nosuchjob", "--debug", "--json")
    (said,) = [line for line in done.stderr.splitlines() if "log is" in line]
    text = Path(said.rpartition(" ")[2]).read_text("utf-8")
    assert done.returncode == 2
    assert "why nosuchjob --debug" in text
    assert json.loads(done.stdout)["error"]["title"] in text
    assert "Traceback" in text


def test_the_demos_events_are_in_the_log_and_no_secret_of_the_environment(tmp_path: Path) -> None:
    demo = ("demo", "--headless", "--seconds", "2", "--json")
    done = _ran(tmp_path, *demo, GPUCONSOLE_DEBUG="1", WANDB_API_KEY="abcdefgh1234")
    assert done.returncode in (0, 1), done.stderr  # the job may still run
    (path,) = tmp_path.rglob(debug_log.NAME)
    text = path.read_text("utf-8")
    assert "gpuconsole.session.events: " in text
    assert "abcdefgh1234" not in text


def test_without_debug_nothing_is_written(tmp_path: Path) -> None:
    _ran(tmp_path, "why", "nosuchjob")
    assert not list(tmp_path.rglob(debug_log.NAME))
