"""Hosts that can be switched on and off, as data, and the port to whatever switches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, runtime_checkable

from gpuconsole.core.util.lazy_dataclass import dataclass

Verb = Literal["wake", "sleep"]


@dataclass(frozen=True, slots=True)
class Elastic:
    """When a host may be woken and is put to sleep. Times are seconds."""

    wakes_per_hour: int = 4
    idle_s: float = 900.0
    max_awake_s: float | None = None
    wake_s: float = 120.0
    """How long waking takes, until it was seen."""
    timeout_s: float = 600.0
    sleeps: bool = True
    """Whether it can be put to sleep, and not only be woken."""
    model: str = ""
    devices: int = 0
    """What it has, until it was seen awake."""


@runtime_checkable
class TellsRunning(Protocol):
    """An engine that can list what runs on its host, whatever started it."""

    async def running(self) -> tuple[str, ...]:
        """Return the names of the containers that run."""
        ...


@runtime_checkable
class Hurries(Protocol):
    """A fleet with links that wait between two attempts to connect, and can be asked to retry at
    once."""

    def hurry(self, host: str) -> None:
        """Look for a host at once that is expected back."""
        ...


class Power(Protocol):
    """Switches hosts."""

    @property
    def hosts(self) -> Mapping[str, Elastic]:
        """The hosts that can be woken, by name."""
        ...

    async def switch(self, host: str, verb: Verb) -> str:
        """Do it; returns "" or what went wrong, cleaned, for a person. It ends within a minute or
        two, whatever the command does."""
        ...


class NoPower:
    """Switches nothing."""

    @property
    def hosts(self) -> Mapping[str, Elastic]:
        """No host can be woken."""
        return {}

    async def switch(self, host: str, verb: Verb) -> str:
        """Say that it cannot be done."""
        return f"nothing is known that could {verb} {host}"


NOTHING = NoPower()
