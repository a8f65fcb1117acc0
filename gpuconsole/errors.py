"""Every error a person can meet, as one small tree.

ConsoleError
├── UsageError            wrong usage, file or local state              exit 2
│   ├── DocumentError     a YAML file that is wrong, with its place
│   ├── JournalError      the state folder cannot be used
│   ├── TrustError        a file or folder that others can change, and that decides something
│   └── ReadOnlyError     an action refused in read-only mode
├── RefusedError               a clear "no"                                   exit 1
│   ├── ScriptFailedError a script that was run ended with an error of its own
│   └── NotHereError      the place lacks what is needed; another may have it
│       └── HostBusyError another measurement runs on the host
├── UnreachableError      a host or engine that was asked for            exit 3
│   └── HostKeyError      unknown or changed host key
├── EngineError           the engine answered with an error              exit 3
│   ├── ImageError        an image that cannot be had
│   └── ContainerGoneError  a container that was to start has been removed
└── LeaseTakenError            another console holds the device               exit 1

Third-party exceptions are translated into these once, where they enter.
"""

from __future__ import annotations

from enum import Enum


class Blame(str, Enum):
    """What an error is due to, where a job could not be started because of it."""

    TASK = "task"
    """The task itself: it would fail alike on every host."""
    PLACE = "place"
    """This task on this host: another host may do, and other tasks may start here."""
    IMAGE = "image"
    """The host cannot fetch the image now: other images may do, and so may this one later."""
    HOST = "host"
    """The host: no job starts there now."""


class ConsoleError(Exception):
    """What happened, where, and what to do.

    `title` is a few words, `message` one or two sentences with the place (host, file, line),
    `hint` the next step a person can take ("" when there is none). `blame` says what it is due to
    and `host` on which host it happened ("" where that is not known).
    """

    exit_code = 2
    blame = Blame.TASK

    def __init__(
        self, title: str, message: str, hint: str = "", *, blame: Blame | None = None
    ) -> None:
        super().__init__(f"{title}: {message}")
        self.title = title
        self.message = message
        self.hint = hint
        self.host = ""
        if blame is not None:
            self.blame = blame

    def as_json(self) -> dict[str, dict[str, str]]:
        """Return the `--json` error document."""
        return {"error": {"title": self.title, "message": self.message, "hint": self.hint}}


class UsageError(ConsoleError):
    """Wrong usage, a wrong file, or local state that cannot be used."""


class DocumentError(UsageError):
    """A YAML document is wrong; `message` starts with `file:line:column`."""


class JournalError(UsageError):
    """The state folder or its journal cannot be used."""


class TrustError(UsageError):
    """A file or folder that decides what is trusted can be changed, or entered, by others."""


class ReadOnlyError(UsageError):
    """An action was asked for in read-only mode."""


class RefusedError(ConsoleError):
    """A clear "no": will not fit, will fail, unknown, failed."""

    exit_code = 1


class ScriptFailedError(RefusedError):
    """A script that was run ended with an error that is its own, at a line of a file."""

    def __init__(
        self, title: str, message: str, hint: str = "", *, file: str = "", line: int = 0
    ) -> None:
        super().__init__(title, message, hint)
        self.file = file
        self.line = line


class NotHereError(RefusedError):
    """The place lacks what is needed; another may have it."""


class HostBusyError(NotHereError):
    """Another measurement runs on the host, which takes one at a time."""


class UnreachableError(ConsoleError):
    """A host or engine that was asked for cannot be reached."""

    exit_code = 3


class HostKeyError(UnreachableError):
    """The host key is unknown or has changed."""


class EngineError(ConsoleError):
    """The container engine answered with an error."""

    exit_code = 3
    blame = Blame.HOST


class ImageError(EngineError):
    """An image cannot be had on a host."""

    blame = Blame.TASK


class ContainerGoneError(EngineError):
    """A container that was created and has never started is gone: it can never start."""


class LeaseTakenError(ConsoleError):
    """Another console holds a device.

    `uuid` names the device and `holder` who has it, as far as the lease's labels tell.
    """

    exit_code = 1

    def __init__(self, uuid: str, holder: str) -> None:
        super().__init__(
            "Device is taken", f"{uuid} is leased to {holder}.", "Wait, or choose another."
        )
        self.uuid = uuid
        self.holder = holder
