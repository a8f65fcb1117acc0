"""Exceptions of a script: what it raises, and which handler takes it."""

from __future__ import annotations

import builtins

from gpuconsole.preflight.interpreter.domain.values import (
    Native,
    NativeClass,
    Unknown,
    UserClass,
    UserRaise,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run


class Error(Native):
    """An instance of a built-in exception, or of a class of the script that derives from one."""

    label = "Exception"

    def init(self, run: Run, *args: Value, **_: Value) -> None:
        """Keep the arguments."""
        self.attrs["args"] = args

    @property
    def text(self) -> str | None:
        """The result of `str`, where it is one text or number."""
        args = self.attrs.get("args", ())
        is_plain = len(args) == 1 and isinstance(args[0], (str, int, float))
        return str(args[0]) if is_plain else "" if not args else None


class Raised(UserRaise):
    """The script raises; carries the exception as the script sees it."""

    def __init__(self, message: str, value: Value, place: tuple[str, int]) -> None:
        super().__init__(message)
        self.value = value
        self.place = place


def _built_in() -> dict[str, type[Error]]:
    return {
        name: type(name, (Error,), {"label": name})
        for name, kind in vars(builtins).items()
        if isinstance(kind, type) and issubclass(kind, BaseException)
    }


KINDS = _built_in()


def names() -> dict[str, Value]:
    """Return the built-in exceptions by name."""
    return {name: NativeClass(kind, name) for name, kind in KINDS.items()}


def raised(run: Run, name: str, message: str) -> Raised:
    """Return a built-in exception that an operation of the script raises."""
    return Raised(message, KINDS[name](), (run.file, run.line))


def is_general(wanted: Value) -> bool:
    """Whether a handler takes any error, so that nothing tells what it was written for."""
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(
        isinstance(kind, NativeClass) and kind.name in ("Exception", "BaseException")
        for kind in kinds
    ) or wanted is None  # fmt: skip


def takes(wanted: Value, value: Value) -> bool | None:
    """Whether `except wanted` takes an exception; None if that is unknown."""
    if wanted is None:
        return True
    answers = [_takes_one(each, value) for each in
               (wanted if isinstance(wanted, tuple) else (wanted,))]  # fmt: skip
    if True in answers:
        return True
    return None if None in answers else False


def _takes_one(wanted: Value, value: Value) -> bool | None:
    if isinstance(value, Unknown) or isinstance(wanted, Unknown):
        return None
    if isinstance(wanted, UserClass):
        return value.cls is not None and wanted in value.cls.mro()
    if not isinstance(wanted, NativeClass) or not issubclass(wanted.type, Error):
        return None
    kind, other = vars(builtins).get(value.label), vars(builtins).get(wanted.name)
    if isinstance(kind, type) and isinstance(other, type):
        return issubclass(kind, other)
    return None
