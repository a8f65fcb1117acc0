"""What makes a method of ours a tool: bounds, and errors as plain text."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from gpuconsole.errors import ConsoleError
from gpuconsole.mcp.answers import answer, sentence
from gpuconsole.session.session import Session

AT_ONCE = 4
"""Tools of a client that work at once; more wait for their turn."""

Reference = Annotated[
    str, Field(min_length=1, max_length=200, description="A job's id, the beginning of it, or name")
]
Limit = Annotated[int, Field(ge=1, le=500, description="The most items to return")]
Words = Annotated[str, Field(max_length=200)]
Script = Annotated[
    str, Field(min_length=1, max_length=4096, description="Path of a Python script on this machine")
]
Arguments = Annotated[
    list[Annotated[str, Field(max_length=2000)]],
    Field(max_length=200, description="The script's own arguments"),
]


class Desk:
    """The session that tools work on, and how many of them may at once."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn = asyncio.Semaphore(AT_ONCE)


class Tools(Protocol):
    """What has tools."""

    desk: Desk


Given = ParamSpec("Given")
Of = TypeVar("Of", bound=Tools)


def tool(
    work: Callable[Concatenate[Of, Given], Coroutine[Any, Any, Mapping[str, Any]]],
) -> Callable[Concatenate[Of, Given], Coroutine[Any, Any, dict[str, Any]]]:
    """Make a method a tool: it takes its turn, what it returns is bounded and clean, and what a
    person could put right is said as text (ToolError)."""

    @functools.wraps(work)
    async def called(self: Of, /, *args: Given.args, **named: Given.kwargs) -> dict[str, object]:
        async with self.desk.turn:
            try:
                return answer(await work(self, *args, **named))
            except ConsoleError as error:
                raise ToolError(sentence(error)) from error

    return called
