"""The state folder is for its user alone: what is made, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole.cli import main
from gpuconsole.core.jobs import JobState, Task
from gpuconsole.errors import TrustError
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.state import Journal


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
async def test_all_that_a_console_makes_is_private_whatever_the_umask(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\nlayer = paddle.nn.Linear(4, 4)\n")
    state = tmp_path / "missing" / "state"
    async with open_session(None, state, demo=DemoOptions(speed=200.0)) as session:
        job = await session.queue.submit(Task("demo", script=str(script), args=("--steps", "5")))
        ended = await asyncio.wait_for(session.wait(job.id), 120)
        assert ended.state is JobState.SUCCEEDED
        beside = {"journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"}
        assert beside <= {path.name for path in state.iterdir()}
        found = [state.parent, state, *state.rglob("*")]
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in found}
    assert [path for path, mode in modes.items() if mode & 0o077] == []
    names = " ".join(str(path.relative_to(state.parent)) for path in found)
    for part in ("logs", "bundles"):
        assert f"state/{part}/" in names


def test_an_old_journal_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    Journal(tmp_path, clock=lambda: 1.0).close()
    path = tmp_path / "journal.sqlite"
    path.chmod(0o644)
    Journal(tmp_path, clock=lambda: 1.0).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("mode", [0o711, 0o755, 0o777, 0o1777])
def test_a_folder_that_others_may_enter_is_refused(
    tmp_path: Path, mode: int, read_only: bool
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(TrustError) as caught:
        Journal(folder, clock=lambda: 1.0, read_only=read_only)
    assert f"{folder} may be entered or written by others (mode {mode:04o}" in caught.value.message
    assert f"chmod 700 {folder}" in caught.value.hint
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change an owner")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(TrustError, match="belongs to 12345"):
        Journal(folder, clock=lambda: 1.0)


@pytest.mark.parametrize(
    "words",
    [["jobs"], ["--read-only", "jobs"], ["calibrate", "--reliability"], ["serve", "--revoke"]],
)
@pytest.mark.parametrize("by", ["--state", "XDG_STATE_HOME"])
def test_commands_say_it(
    tmp_path: Path,
    words: list[str],
    by: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "gpuconsole"
    folder.mkdir(mode=0o755)
    given: list[str] = []
    if by == "--state":
        given = ["--state", str(folder)]
    else:
        monkeypatch.setenv(by, str(tmp_path))
    assert main([*given, *words, "--json"]) == 2
    said = capsys.readouterr()
    if said.out:
        assert json.loads(said.out)["error"]["title"] == "Folder is open to others"
    assert f"chmod 700 {folder}" in said.out + said.err
