"""A command in a container from the console: on its own terminal, or, in a browser, as a log."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from gpuconsole.core.engines.host_containers import HostContainer
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.runtime.suspended import can_lend, lend
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.container.log import ContainerLogScreen

NOT_BEGUN = (126, 127)
"""Exit codes of a program that may not be run or is not there."""


def run_in(screen: ConsoleScreen, container: HostContainer, words: Sequence[str]) -> None:
    """Run a command in a container: on this terminal while the console steps aside, or, where it
    cannot, without input, with what it writes on a screen of its own."""
    if can_lend(screen.app):
        aside(screen, partial(_on_terminal, screen, container, words), group="exec")
        return
    output = partial(_output, screen, container, words)
    title = msg("{command} in {name}", command=shlex.join(words), name=container.key)
    screen.app.push_screen(ContainerLogScreen(container, output, title))


async def _on_terminal(
    screen: ConsoleScreen, container: HostContainer, words: Sequence[str]
) -> None:
    containers, size = screen.session.containers, screen.app.size
    try:
        process = await containers.run(
            container, words, terminal=True, typing=True, size=(size.width, size.height)
        )
        try:
            said = screen.ink.say("Ctrl-P Ctrl-Q leaves it running.")
            left = await lend(screen.app, process, f"{shlex.join(words)}: {container.key}. {said}")
            if left:
                await process.leave()
            code = None if left else await process.exit_code()
        finally:
            await process.close()
    except ConsoleError as error:
        screen.console.tell_error(error)
        return
    _tell_end(screen, container, words, code)


async def _output(
    screen: ConsoleScreen, container: HostContainer, words: Sequence[str]
) -> AsyncGenerator[bytes, None]:
    """Give what a command writes, both of its outputs."""
    process = await screen.session.containers.run(container, words, terminal=False, typing=False)
    try:
        while (said := await process.read()) is not None:
            yield said.data
        _tell_end(screen, container, words, await process.exit_code())
    finally:
        await process.close()


def _tell_end(
    screen: ConsoleScreen, container: HostContainer, words: Sequence[str], code: int | None
) -> None:
    program = words[0]
    if code is None:
        text = msg("{program} runs on in {name}.", program=program, name=container.key)
    elif code in NOT_BEGUN:
        text = msg(
            "Exit code {n}: a program was not found in {name}, or may not be run. Most images have"
            " `sh`.",
            n=code,
            name=container.key,
        )
    else:
        text = msg(
            "{program} in {name} ended with exit code {n}.",
            program=program, name=container.key, n=code,
        )  # fmt: skip
    screen.tell(text)
