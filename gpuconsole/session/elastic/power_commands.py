"""The commands that wake hosts and put them to sleep, run on this machine and by no shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuconsole.core.devices.host_power import Elastic, Verb
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError

if TYPE_CHECKING:
    from gpuconsole.remote.inventory import HostEntry, Inventory

LIMIT_S = 120.0
"""How long a command may take; cloud tools wait for their API. It is ended then."""
SAID = 300
"""Characters of a command's output that are reported."""


class CommandPower:
    """Implements `core.devices.host_power.Power` over the `wake` and `sleep` of an inventory."""

    def __init__(self, inventory: Inventory, limit_s: float = LIMIT_S) -> None:
        self._entries = {entry.name: entry for entry in inventory.hosts if entry.wake}
        self._hosts = {name: limits_of(entry) for name, entry in self._entries.items()}
        self._limit_s = limit_s

    @property
    def hosts(self) -> Mapping[str, Elastic]:
        """The hosts that can be woken, by name."""
        return self._hosts

    async def switch(self, host: str, verb: Verb) -> str:
        """Run the command to its end; returns "" or what went wrong."""
        from gpuconsole.remote.links.local import LocalLink

        entry = self._entries[host]
        words = entry.wake if verb == "wake" else entry.sleep
        try:
            done = await LocalLink("this machine").run(words, timeout=self._limit_s)
        except ConsoleError as error:
            return clean(f"{error.title}: {error.message}", SAID)
        if done.exit_status == 0:
            return ""
        said = (done.stderr.strip() or done.stdout.strip()).decode("utf-8", "replace")
        text = " ".join(clean(line, SAID) for line in said.splitlines()[-3:])
        return clean(
            f"{words[0]} ended with {done.exit_status}" + (f": {text}" if text else ""), SAID
        )


def limits_of(entry: HostEntry) -> Elastic:
    """Return an inventory's limits of a host, in seconds."""
    given = entry.elastic
    if given is None:
        return Elastic(sleeps=bool(entry.sleep))
    hours = given.max_awake_hours
    return Elastic(
        wakes_per_hour=given.wakes_per_hour,
        idle_s=given.idle_minutes * 60.0,
        max_awake_s=None if hours is None else hours * 3600.0,
        wake_s=given.wake_minutes * 60.0,
        timeout_s=given.wake_timeout_minutes * 60.0,
        sleeps=bool(entry.sleep),
        model=given.model,
        devices=given.devices,
    )
