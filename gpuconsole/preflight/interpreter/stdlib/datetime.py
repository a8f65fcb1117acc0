"""`datetime`: days and times that a script states are computed; the clock's are not known."""

from __future__ import annotations

import ast
import datetime as real
import operator
from collections.abc import Callable
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    SomeNumber,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run import Run
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

NUMBERS = ("year", "month", "day", "hour", "minute", "second", "microsecond", "days", "seconds",
           "microseconds", "tm_yday", "tm_hour", "tm_wday", "tm_mon", "tm_mday",
           "tm_year")  # fmt: skip
METHODS = ("weekday", "isoweekday", "isocalendar", "toordinal", "timestamp", "total_seconds",
           "isoformat", "ctime", "strftime", "date", "time", "timetuple", "replace")  # fmt: skip
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
MAX_TEXT = 200
_FAILURES = (TypeError, ValueError, OverflowError, ArithmeticError, AttributeError)


class Moment(Native):
    """A day, a time, or the span between two."""

    label = "datetime"
    kind: type[Any] = real.datetime

    def __init__(self, known: Any = None) -> None:
        super().__init__()
        self.known = known

    def init(self, run: Run, *args: Value, **kwargs: Value) -> Value:
        """Make it of numbers."""
        unknown = first_unknown(*args, *kwargs.values())
        if unknown is not None:
            return run.unknown("a time that is not known", unknown)
        try:
            self.known = self.kind(*args, **kwargs)
        except _FAILURES:
            return run.unknown("a time that cannot be made")
        return None

    @property
    def text(self) -> str:
        """What `str` gives."""
        return str(self.known)

    def equals(self, other: Value) -> bool:
        """Whether `==` holds."""
        return isinstance(other, Moment) and bool(self.known == other.known)

    def ordered(self, kind: type[ast.cmpop], other: Value) -> bool | None:
        """Whether `<` and the like hold; None where that is not known."""
        compare = _COMPARED.get(kind)
        if compare is None or not isinstance(other, Moment):
            return None
        try:
            return compare(self.known, other.known)
        except TypeError:
            return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moment) and bool(self.known == other.known)

    def __hash__(self) -> int:
        return hash(self.known)

    def __lt__(self, other: Moment) -> bool:
        return bool(self.known < other.known)

    def alike(self, other: Moment) -> bool:
        """Whether both are one."""
        return self.equals(other)

    def anything(self, run: Run, name: str) -> Value:
        """Give a part or a method."""
        if name in NUMBERS and hasattr(self.known, name):
            return getattr(self.known, name)
        if name in METHODS and hasattr(self.known, name):
            return Method(self.known, name)
        return run.unknown(f"datetime.{name} is not known to the analysis")

    def operate(self, interp: Any, kind: Any, other: Value, *, first: bool) -> Value:
        """Add and subtract."""
        value = other.known if isinstance(other, Moment) else other
        sides = (self.known, value) if first else (value, self.known)
        if isinstance(value, (Unknown, Silent)):
            return _unknown_like(interp.run, self, other)
        try:
            return wrapped(_OPERATORS[kind](*sides))
        except (KeyError, *_FAILURES):
            return interp.run.unknown("a time that cannot be computed")

    @staticmethod
    def static_strptime(run: Run, text: Value, form: Value) -> Value:
        """Read a text."""
        if not isinstance(text, str) or not isinstance(form, str):
            return run.unknown("a time that is read from data", text)
        try:
            return wrapped(real.datetime.strptime(text[:MAX_TEXT], form[:MAX_TEXT]))
        except ValueError:
            return run.interp.lacking(f"{text[:40]!r} is no time as {form[:40]!r}", "ValueError")

    @staticmethod
    def static_combine(run: Run, day: Value, time: Value) -> Value:
        """Join a day and a time."""
        try:
            return wrapped(real.datetime.combine(day.known, time.known))
        except _FAILURES:
            return run.unknown("a time that is not known", first_unknown(day, time))

    static_now = static_utcnow = static_today = staticmethod(lambda run, *_, **__: Silent())


class Day(Moment):
    """`datetime.date`."""

    label = "date"
    kind = real.date


class Time(Moment):
    """`datetime.time`."""

    label = "time"
    kind = real.time


class Span(Moment):
    """`datetime.timedelta`."""

    label = "timedelta"
    kind = real.timedelta


def _reader(kind: type[Moment], name: str) -> Callable[..., Value]:
    def read(run: Run, *args: Value) -> Value:
        if not all(isinstance(one, (str, int, float)) for one in args):
            return run.unknown("a time that is read from data", first_unknown(*args))
        try:
            return wrapped(getattr(kind.kind, name)(*args))
        except _FAILURES:
            return run.interp.lacking(f"{str(args)[:60]} is no time", "ValueError")

    return read


for _kind in (Moment, Day):
    for _name in ("fromisoformat", "fromordinal", "fromtimestamp"):
        setattr(_kind, f"static_{_name}", staticmethod(_reader(_kind, _name)))


class Method(Native):
    """A method of a known day, time or span."""

    label = "method"

    def __init__(self, known: Any = None, name: str = "") -> None:
        super().__init__()
        self.known, self.name = known, name

    def call(self, interp: Any, *args: Value, **kwargs: Value) -> Value:
        """Call it with plain values."""
        values = [*args, *kwargs.values()]
        if not all(isinstance(one, (int, str)) and len(str(one)) < MAX_TEXT for one in values):
            return interp.run.unknown("a time that is not known", first_unknown(*values))
        try:
            return wrapped(getattr(self.known, self.name)(*args, **kwargs))
        except _FAILURES:
            return interp.run.unknown("a time that cannot be computed")


def wrapped(value: Any) -> Value:
    """Return what the interpreter has for a result."""
    for kind in (Moment, Day, Time, Span):
        if type(value) is kind.kind:
            return kind(value)
    if isinstance(value, tuple):
        # A struct_time has names too; `isocalendar` gives three numbers.
        return Moment(value) if hasattr(value, "tm_yday") else tuple(value)
    return value


def _unknown_like(run: Run, moment: Moment, other: Value) -> Value:
    if isinstance(moment, Span) and isinstance(other, SomeNumber):
        return run.number("a span that is not known")
    return run.unknown("a time that is not known", other if isinstance(other, Unknown) else None)


def namespace() -> Namespace:
    """Return `datetime`."""
    return Namespace("datetime", {
        "datetime": NativeClass(Moment, "datetime"), "date": NativeClass(Day, "date"),
        "time": NativeClass(Time, "time"), "timedelta": NativeClass(Span, "timedelta"),
        "timezone": NativeClass(Silent, "timezone"),
    })  # fmt: skip
