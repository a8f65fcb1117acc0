"""`gpuconsole serve` before it serves: what is missing or contradictory is reported."""

from __future__ import annotations

import asyncio
import importlib.util
import shlex
import sys

import pytest

from gpuconsole.cli.entry import main


def test_without_its_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name == "textual_serve" else found(name, package),
    )
    assert main(["serve", "--demo"]) == 2
    command = shlex.split(capsys.readouterr().err.partition("Run: ")[2].replace("\n", " "))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert "textual-serve==1.1.3" in command


def test_to_write_and_to_only_look_contradict_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("textual_serve", reason="needs the extra `serve`")
    assert main(["serve", "--write", "--read-only"]) == 2
    assert "contradict" in capsys.readouterr().err


def test_a_port_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "70000"]) == 2
    assert "--port" in capsys.readouterr().err


def test_the_demo_is_served_before_its_jobs_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is preflighted, which takes a minute on a busy machine."""

    async def never(_lab: object) -> None:
        await asyncio.Event().wait()

    async def served_at_once(*_of: object) -> int:
        return 7

    monkeypatch.setattr("gpuconsole.cli.commands.run.demo._fill", never)
    monkeypatch.setattr("gpuconsole.cli.commands.run.serve._serve", served_at_once)
    assert main(["serve", "--demo"]) == 7
