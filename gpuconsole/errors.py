"""Every error a person can meet, as one small tree.

ConsoleError
├── UsageError            wrong usage, file or local state              exit 2
│   ├── DocumentError     a YAML file that is wrong, with its place
│   ├── JournalError      the state folder cannot be used
│   ├── TrustError        a file or folder that others can change, and that decides something
│   └── ReadOnlyError     an action refused in read-only mode
├── RefusedError               a clear "no"                                   exit 1
├── UnreachableError      a host or engine that was asked for            exit 3
│   └── HostKeyError      unknown or changed host key
├── EngineError           the engine answered with an error              exit 3
│   └── ImageError        an image that cannot be had
└── LeaseTakenError            another console holds the device               exit 1

Third-party exceptions are translated into these once, where they enter.
"""

from __future__ import annotations


class ConsoleError(Exception):
    """What happened, where, and what to do.

    `title` is a few words, `message` one or two sentences with the place (host, file, line),
    `hint` the next step a person can take ("" when there is none).
    """

    exit_code = 2

    def __init__(self, title: str, message: str, hint: str = "") -> None:
        super().__init__(f"{title}: {message}")
        self.title = title
        self.message = message
        self.hint = hint

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


class UnreachableError(ConsoleError):
    """A host or engine that was asked for cannot be reached."""

    exit_code = 3


class HostKeyError(UnreachableError):
    """The host key is unknown or has changed."""


class EngineError(ConsoleError):
    """The container engine answered with an error."""

    exit_code = 3


class ImageError(EngineError):
    """An image cannot be had on a host."""


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
