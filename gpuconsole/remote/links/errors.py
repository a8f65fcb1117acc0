"""What went wrong at a host, worded for a person. Foreign text is cleaned here."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Sequence

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, UnreachableError

_SHOWN = 60
"""Characters of a command that a message shows."""


def describe_status(status: int) -> str:
    """Say how a command ended: `exit status 2`, `killed by SIGKILL`."""
    number = -status if status < 0 else status - 128
    if status < 0 or 128 < status < 160:
        try:
            return msg("ended by {signal}", signal=signal.Signals(number).name)
        except ValueError:
            pass
    return f"exit status {status}"


def command_failed(host: str, argv: Sequence[str], status: int, errors: bytes) -> EngineError:
    """A command ended with an error; its own last line of errors says why."""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    reason = clean(lines[-1], 300) if lines else "it printed no reason"
    return EngineError(
        "Command failed",
        msg(
            "{host}: {argv}: {status}: {reason}",
            host=host,
            argv=_shown(argv),
            status=describe_status(status),
            reason=reason,
        ),
    )


def command_too_slow(host: str, argv: Sequence[str], timeout: float) -> EngineError:
    """A command did not end in its time."""
    return EngineError(
        "Command took too long",
        msg(
            "{host}: {argv} did not end within {timeout} s.",
            host=host,
            argv=_shown(argv),
            timeout=f"{timeout:g}",
        ),
        "Look at the host's load and disks; a driver that hangs blocks commands too.",
    )


def output_too_long(host: str, argv: Sequence[str]) -> EngineError:
    """A command printed more than any honest answer."""
    return EngineError(
        "Too much output",
        msg("{host}: {argv} printed more than 64 MiB.", host=host, argv=_shown(argv)),
    )


def _shown(argv: Sequence[str]) -> str:
    return clean(" ".join(argv), _SHOWN)


class LoginError(UnreachableError):
    """The host answers, and does not let us in."""


def started_nothing(host: str, fault: str, noise: bytes) -> UnreachableError:
    """The login shell did not become /bin/sh."""
    said = clean(noise.decode("utf-8", "replace").strip(), 200)
    reason = fault or "the login shell ended before the command began"
    return UnreachableError(
        "Login shell gets in the way",
        msg(
            "{host}: {reason}{value}.",
            host=host,
            reason=reason,
            value=f" and said: {said}" if said else "",
        ),
        "Look at the account's login shell and its start-up files.",
    )


def session_refused(host: str) -> UnreachableError:
    """sshd lets the connection stand, and refuses one more command over it."""
    return UnreachableError(
        "sshd allows no more sessions",
        msg(
            "{host}: its sshd refuses one more session over the connection that is open.", host=host
        ),
        "Raise `MaxSessions` in sshd_config on the host (10 is its default, and enough), then "
        "reload sshd.",
    )


def dropped(host: str, where: str) -> UnreachableError:
    """A connection was accepted, and ended before the login."""
    return UnreachableError(
        "Connection dropped",
        msg("{host}: {where} ended the connection before the login.", host=host, where=where),
        "sshd does that while many log in at once: raise `MaxStartups` (and "
        "`PerSourceMaxStartups`) in its sshd_config. Its log on the host names the reason.",
    )


def unreachable(host: str, where: str, error: BaseException, timeout: float) -> UnreachableError:
    """A connection that could not be made, by what stopped it."""
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return UnreachableError(
            "No answer",
            msg(
                "{host}: {where} did not answer within {time} s.",
                host=host,
                where=where,
                time=f"{timeout:g}",
            ),
            "Is it switched on, and is the way there free of a firewall?",
        )
    if isinstance(error, socket.gaierror):
        return UnreachableError(
            "Unknown address",
            msg("{host}: {where}: the name cannot be resolved.", host=host, where=where),
            "Check `address` and `jump` in the inventory, your ssh config and your DNS.",
        )
    if isinstance(error, ConnectionRefusedError):
        return UnreachableError(
            "Connection refused",
            msg("{host}: {where} refuses connections.", host=host, where=where),
            "Does sshd run there, and on that port?",
        )
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    said = msg("{host}: {where}: {why}.", host=host, where=where, why=clean(reason, 300))
    return UnreachableError("Cannot connect", said)
