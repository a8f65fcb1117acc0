"""Commands run alone: a lab with one host that refuses, and a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.cli import main
from tests.cli.command_line import SCRIPT, Answer


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
    """Options that name an inventory of one host, which refuses, and a fresh state folder."""
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "version: 1\nhosts:\n  - {name: gone, address: 127.0.0.1, port: 9, user: nobody}\n"
    )
    return "--inventory", str(inventory), "--state", str(tmp_path / "state")
