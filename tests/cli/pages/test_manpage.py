"""The man page is written by the commands, and the programs that show man pages take it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from gpuconsole.cli.entry import sections
from tests.scripts import script
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "gpuconsole.1"


@pytest.fixture(scope="module")
def manpage() -> ModuleType:
    return script(ROOT / "docs" / "manpage.py")


def test_it_is_what_the_commands_say(manpage: ModuleType) -> None:
    assert PAGE.read_text(encoding="utf-8") == manpage.page(), "run: python docs/generate.py"


def test_nothing_of_a_text_is_read_as_a_request(manpage: ModuleType) -> None:
    assert list(manpage._paragraphs("one\n\n.two 'three'\n\n'four\\n\n\n\b\n  .five  -x")) == [
        "one",
        ".PP",
        "\\&.two 'three'",
        ".PP",
        "\\&'four\\en",
        ".PP",
        ".nf",
        "  .five  \\-x",
        ".fi",
    ]


def test_mandoc_finds_no_fault() -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", str(PAGE)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    # The page changes with the commands, not with a day.
    faults = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert faults == []


def test_groff_finds_no_fault() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(PAGE)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_man_shows_every_command_and_option() -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man is not installed")
    shown = subprocess.run(
        ["man", "-l", str(PAGE)], capture_output=True, text=True, timeout=DEADLINE_S, check=True,
        env={**os.environ, "MANWIDTH": "400", "MANPAGER": "cat", "LC_ALL": "C.UTF-8"},
    ).stdout  # fmt: skip
    shown = shown.replace("\u2010", "-")
    for _, commands in sections():
        for command in commands:
            assert f"gpuconsole {command.name} " in shown
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.opts[0] in shown


def test_the_wheel_brings_it() -> None:
    """What pip installs lies where man looks, beside the programs."""
    if sys.version_info < (3, 11):
        pytest.skip("tomllib came with Python 3.11")
    import tomllib

    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    assert build["build"]["targets"]["wheel"]["shared-data"] == {
        "docs/gpuconsole.1": "share/man/man1/gpuconsole.1"
    }
