"""The containers of all hosts by keys: listed, filtered, read, entered, and refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.engines.host_containers import HostContainer, HostContainers
from gpuconsole.core.filters import Filter, parse
from gpuconsole.errors import UnreachableError
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.session import Session
from gpuconsole.tui.render.containers import ORDERS, columns_for, ordered, row
from gpuconsole.tui.screens.container.log import ContainerLogScreen
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN
from tests.tui.console import SIZES, WIDE, Driven, opened

ONE = HostContainer("b", "1" * 64, "web", "paddle:3", "running", created_at=50.0, devices=(0, 2))
TWO = HostContainer("b", "2" * 64, "old", "serve:1", "exited", created_at=10.0, users=("ana",))
THREE = HostContainer("a", "3" * 64, "ml", "paddle:3", "running", created_at=90.0, job="j-1")
FOUND = (
    HostContainers("b", (ONE, TWO), left_out=3),
    HostContainers("a", (THREE,)),
    HostContainers("c", error="c does not answer."),
)


@asynccontextmanager
async def demo(
    folder: Path, size: tuple[int, int] = WIDE, *, read_only: bool = False
) -> AsyncIterator[tuple[Session, Driven]]:
    async with (
        open_session(
            None, folder / "state", demo=DemoOptions(hosts=3), read_only=read_only
        ) as session,
        opened(session, size) as console,
    ):
        await console.shows("SIMULATED")
        yield session, console


@pytest.mark.parametrize("size", SIZES)
async def test_a_key_lists_the_containers_of_all_hosts_and_of_one(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with demo(tmp_path, size) as (session, console):
        assert "C containers" in console.text.splitlines()[-1]
        await console.press("C")
        await console.shows("containers", "running", "by host")
        every = await session.containers.listing()
        names = [each.name for host in every for each in host.containers]
        assert len(names) > 3
        await console.shows(names[0][:18])
        await console.press("escape", "enter", "C")
        await console.shows(f"{every[0].host} > c")
        await console.until(
            lambda: f"{len(every[0].containers)} containers" in console.text, "one host's"
        )


async def test_a_log_is_read_searched_and_left(tmp_path: Path) -> None:
    async with demo(tmp_path) as (_, console):
        await console.press("C")
        await console.shows("train")
        await console.press("slash")
        await console.type("train image:paddle")
        await console.press("enter", "L")
        await console.shows("log of ", "loss=")
        await console.press("slash")
        await console.type("nothing of")
        await console.press("enter")
        await console.shows("match 1 of 1", "SIMULATED: nothing of this container is run")
        await console.press("escape")
        await console.shows("by host")


async def test_without_a_terminal_a_commands_output_is_a_log_and_it_is_recorded(
    tmp_path: Path,
) -> None:
    async with demo(tmp_path) as (session, console):
        await console.press("C")
        await console.shows("running")
        await console.press("X")
        await console.shows("Run in ", "recorded")
        await console.press("ctrl+u")
        await console.type("nvidia-smi -L")
        await console.press("enter")
        await console.shows("SIMULATED: `nvidia-smi -L` is not run.")
        await console.toast("ended with exit code 0")
        (act,) = await session.audit()
        assert (act.verb, act.refused) == ("exec", "")
        assert act.detail.endswith(": nvidia-smi -L")
        await console.press("escape")
        await console.shows("by host")


async def test_read_only_takes_the_key_away_and_the_session_refuses(tmp_path: Path) -> None:
    async with demo(tmp_path):
        pass
    async with demo(tmp_path, read_only=True) as (_, console):
        await console.press("C")
        await console.shows("running")
        assert " exec" not in console.text.splitlines()[-1]
        await console.press("X")
        assert "Run in" not in console.text


async def test_one_host_away_says_so_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with demo(tmp_path) as (session, console):
        lost, other = session.containers.hosts()[:2]
        asked = session.hosts.engine

        async def engine(host: str) -> object:
            if host == lost:
                raise UnreachableError("Host is down", f"{lost} has \x1b[2Jgone.", "Switch it on.")
            return await asked(host)

        monkeypatch.setattr(type(session.hosts), "engine", lambda _, host: engine(host))
        await console.press("C")
        await console.shows(f"{lost}  {lost} has gone.", other)
        await console.press("g", "L")
        await console.toast("Switch it on.")
        assert not isinstance(console.app.screen, ContainerLogScreen)


async def test_the_palette_leads_there(tmp_path: Path) -> None:
    async with demo(tmp_path) as (_, console):
        await console.press("colon")
        await console.type("exec")
        await console.shows("Run in any container")
        await console.press("enter")
        await console.shows("by host", "running")
        await console.press("enter")
        await console.shows("Run in ")


async def test_answers_of_many_hosts_are_drawn_together(tmp_path: Path) -> None:
    demo_of_many = DemoOptions(hosts=40)
    async with (
        open_session(None, tmp_path / "state", demo=demo_of_many) as session,
        opened(session) as console,
    ):
        await console.press("C")
        every = await session.containers.listing()
        count = sum(len(host.containers) for host in every)
        await console.shows(f"{count} containers", every[0].containers[0].name)


def test_orders_and_troubles() -> None:
    names = {
        order: [getattr(each, "name", "!") for each in ordered(FOUND, order, Filter()).values()]
        for order in ORDERS
    }
    assert names == {
        "host": ["web", "old", "!", "ml", "!"],
        "name": ["ml", "old", "web", "!", "!"],
        "state": ["web", "ml", "old", "!", "!"],
        "since": ["ml", "web", "old", "!", "!"],
        "image": ["ml", "web", "old", "!", "!"],
    }
    # What is wrong stays, whatever is looked for.
    found = ordered(FOUND, "name", parse("state:exited user:ana"))
    assert [getattr(each, "name", "!") for each in found.values()] == ["old", "!", "!"]


def test_rows_are_as_wide_as_the_list_and_hostile_names_are_harmless() -> None:
    ink = Ink(BUILT_IN, "block")
    hostile = replace(ONE, name="a\x1b[2Jb\u202e", image="x\x07y", command="c\nd")
    for width in (30, 60, 100, 170):
        for each in (hostile, FOUND[2], FOUND[0]):
            words = "".join(part for part, _ in row(ink, each, 100.0, width))
            assert len(words) <= max(width, 55)
            assert words.isprintable()
    assert [column.title for column in columns_for(30)] == ["host", "state"]
    assert len(columns_for(200)) == 6
