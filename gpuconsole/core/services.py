"""Services: what is kept running on several devices, and when one of its replicas is well.

A service is a group of jobs, a replica each, which share the name in `task.sweep`. `Service` is
what its task asks for; `Replica` is what the dispatcher has noted of one of them, in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

SERVICE = "service"
"""The `kind` of a task that is a service."""
Restart = Literal["always", "on-failure", "never"]
"""After which ends of its own a replica is begun again: each, those with an error, none."""
CheckKind = Literal["http", "tcp", "command"]
Health = Literal["starting", "healthy", "unhealthy"]
HEALTHS: tuple[str, ...] = get_args(Health)
BACKING_OFF, DRAINING = "backing off", "draining"
"""What lists call a replica that waits for its next try, and one that gets no new connections."""
MOST_REPLICAS = 64
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 2.0, 300.0
RESET_S = 600.0
"""A replica that was well for so long begins again with the first back-off."""
UNHEALTHY_CHECKS = 2
"""How many times `failures` more checks an unhealthy replica may fail before it is restarted."""
LEAST_DRAIN_S = 5.0
"""How long a replica that is to leave is kept at least: forwards elsewhere hear of it late."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """How a replica is asked whether it is well, from within its container."""

    kind: CheckKind = "tcp"
    port: int = 0
    """Of `http` and `tcp`; 0 is the service's own."""
    path: str = "/"
    """Of `http`: what is asked for; an answer of 200 to 399 is a good one."""
    command: tuple[str, ...] = ()
    """Of `command`: an exit code of 0 is a good one."""
    interval_s: float = 5.0
    timeout_s: float = 5.0
    failures: int = 3
    """So many in a row make a healthy replica unhealthy."""
    start_s: float = 120.0
    """How long after its start a replica may take to become healthy."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the task of a service asks for."""

    port: int
    """On which each replica listens, in its container."""
    replicas: int = 1
    restart: Restart = "always"
    check: HealthCheck = HealthCheck()
    drain_s: float = 60.0
    """How long a replica that is replaced may finish the connections that it has."""
    preemptible: bool = False
    """Whether jobs that go first may stop it."""
    scaled_at: float = 0.0
    """When `replicas` was last set (s since the epoch); the latest holds for the whole service."""

    @property
    def check_port(self) -> int:
        """The port that its check asks."""
        return self.check.port or self.port


@dataclass(frozen=True, slots=True)
class Replica:
    """What is known of a replica. Times are seconds since the epoch."""

    container: str = ""
    """The name of the container of which `health` tells."""
    health: Health = "starting"
    since: float = 0.0
    """Since when its health is what it is."""
    said: str = ""
    """What the last check said that went wrong; "" after a good one."""
    was_healthy: bool = False
    """Whether this container has ever been."""
    restarts: int = 0
    """How often it was begun again since it was well for `RESET_S`."""
    restart_at: float | None = None
    """When its next try begins; None where it does not wait for one."""
    leaving_at: float | None = None
    """Since when it gets no new connections, as it is to be stopped."""
    leaving_for: str = ""
    """Why it leaves, as a sentence."""


def after_check(
    replica: Replica, service: Service, said: str, failed: int, ran_s: float, now: float
) -> Replica:
    """Return what is known of a replica after a check that said what is wrong, or "".

    `failed` are the checks in a row that went wrong, with this one; `ran_s` is how long its
    container has run. One that was healthy becomes unhealthy after `failures` bad checks, one that
    never was after `start_s`.
    """
    health: Health = replica.health
    if not said:
        health = "healthy"
    elif replica.was_healthy:
        health = "unhealthy" if failed >= service.check.failures else health
    else:
        health = "unhealthy" if ran_s >= service.check.start_s else "starting"
    since = replica.since if health == replica.health and replica.since else now
    ever = replica.was_healthy or not said
    return replace(replica, health=health, since=since, said=said, was_healthy=ever)


def is_to_restart(replica: Replica, service: Service, now: float) -> bool:
    """Tell whether a replica has been unhealthy for so long that it is begun again."""
    check = service.check
    patience = UNHEALTHY_CHECKS * check.failures * check.interval_s
    return (
        service.restart != "never"
        and replica.health == "unhealthy"
        and now - replica.since >= patience
    )


def health_words(replica: Replica, service: Service) -> str:
    """Return how a replica is that is not healthy, with what its last check said; ""."""
    if not replica.said:
        return ""
    if replica.health == "starting":
        return msg("It starts. The last health check: {said_text}", said_text=replica.said)
    if replica.was_healthy:
        return msg("The last health check: {said_text}", said_text=replica.said)
    return msg(
        "It has never been healthy, {time} or more after its start. The last health check:"
        " {said_text}",
        time=format_duration(service.check.start_s), said_text=replica.said,
    )  # fmt: skip


def back_off_s(restarts: int) -> float:
    """Return how long to wait (s) before a try, after so many restarts in a row."""
    return min(LONGEST_BACK_OFF_S, FIRST_BACK_OFF_S * 2.0 ** min(restarts, 16))


def open_connections(tables: str, port: int) -> int:
    """Return how many connections to a port are open by the text of /proc/net/tcp and tcp6, as
    Linux writes them (Documentation/networking/proc_net_tcp): local address, remote address, state.
    """
    return sum(_is_open(line.split(), port) for line in tables.splitlines())


def _is_open(words: list[str], port: int) -> bool:
    if len(words) < 4 or words[3] != "01":
        return False
    _, colon, number = words[1].rpartition(":")
    return bool(colon) and number.upper() == f"{port:04X}"


def replica_name(service: str, taken: Iterable[str]) -> str:
    """Return the name of a service's next replica: `NAME[N]`, a number that none has had."""
    numbers = [replica_number(service, name) for name in taken]
    return f"{service}[{max(numbers, default=0) + 1}]"


def replica_number(service: str, name: str) -> int:
    """Return N of a replica called `NAME[N]`: the higher, the younger; 0 of another name."""
    start = f"{service}["
    number = name[len(start) : -1]
    return int(number) if name.startswith(start) and name[-1:] == "]" and number.isdecimal() else 0
