"""One filter grammar for hosts, devices and jobs: `rack:r07 util<20 gpu:a100|h100 !user:me`.

Terms stand side by side and all must hold; `!` before a term denies it; `|` parts alternatives of
a word; quotes keep blanks and signs. `FIELDS` says what can be asked; any other word before a colon
is a label of the host (or of the job).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Literal

from gpuconsole.core.devices.health_levels import (
    SLOWING,
    Condition,
    condition,
    is_busy,
    is_faulty,
    memory_percent,
)
from gpuconsole.core.engines.host_containers import HostContainer
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.jobs import Job
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

_TOKEN = re.compile(r'\s*(!?(?:[^\s"]|"[^"]*")+|!?"[^"]*$)')
_COMPARE = re.compile(r"([A-Za-z_]+)(<=|>=|<|>|=)(.*)\Z")
_BAR = re.compile(r'\|(?=(?:[^"]*"[^"]*")*[^"]*\Z)')
"""A bar outside quotes: one with an even number of quotes after it."""
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:%|c|w|g|gb|gib)?\Z", re.IGNORECASE)
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
ME = "me"
"""The name for the user of the session."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that a filter can ask; the documentation is made from these."""

    name: str
    sign: Literal[":", "<"]
    """`:` compares words, `<` means any of the five comparisons of figures."""
    of: str
    example: str
    says: str


FIELDS: tuple[Field, ...] = (
    Field("host", ":", "host, job", "host:a100-01", "the host of exactly that name"),
    Field("state", ":", "host, device, job", "state:down",
          "a host's state (up, down, stale, connecting, drained), a device's (busy, free, fault, "
          "throttled, lost) or a job's (queued, running, failed, ...)"),
    Field("gpu", ":", "device, job", "gpu:a100|h100", "the device's model contains it"),
    Field("user", ":", "device, job", "user:me",
          "somebody of that name uses the device, or owns the job; `me` is you"),
    Field("process", ":", "device", "process:train.py", "a command on the device contains it"),
    Field("container", ":", "device", "container:3f2a",
          "a process of the device runs in a container with an id that begins so"),
    Field("util", "<", "device", "util<20", "utilisation, percent"),
    Field("mem", "<", "device", "mem>50", "memory held, percent"),
    Field("freemem", "<", "device", "freemem>=24", "free memory, GiB"),
    Field("vram", "<", "device", "vram>=40", "memory of the card, GiB"),
    Field("temp", "<", "device", "temp>80", "temperature, degrees Celsius"),
    Field("power", "<", "device", "power>300", "power drawn, watts"),
    Field("free", "<", "host", "free>=4", "healthy, unused devices of the host"),
    Field("gpus", "<", "host, job", "gpus=8", "devices of the host, or that the job asks for"),
    Field("prio", "<", "job", "prio>10", "priority"),
    Field("image", ":", "container", "image:serving", "the image's name contains it"),
    Field("severity", ":", "incident", "severity:critical",
          "critical, warning or info; its `state:` is open, acknowledged, snoozed or resolved"),
    Field("rule", ":", "incident", "rule:heat", "the rule that found it"),
    Field("job", ":", "incident", "job:ana-42", "a job that it hits"),
)  # fmt: skip

_GIB = 1024.0


def _gib(size_mib: float | None) -> float | None:
    return None if size_mib is None else size_mib / _GIB


_DEVICE_FIGURES: Mapping[str, Callable[[Device], float | None]] = {
    "util": lambda device: device.utilization,
    "mem": memory_percent,
    "freemem": lambda device: _gib(device.memory_free_mib),
    "vram": lambda device: _gib(device.memory_total_mib),
    "temp": lambda device: device.temperature_c,
    "power": lambda device: device.power_w,
}
_HOST_FIGURES: Mapping[str, Callable[[Host], float]] = {
    "free": lambda host: float(free_devices(host)),
    "gpus": lambda host: float(len(host.devices)),
}
_JOB_FIGURES: Mapping[str, Callable[[Job], float]] = {
    "gpus": lambda job: float(job.task.devices or 1),
    "prio": lambda job: float(job.task.priority),
}
FIGURES = tuple(field.name for field in FIELDS if field.sign == "<")
_DEVICE_WORDS = ("gpu", "user", "process", "container")
_DEVICE_STATES = ("busy", "free", "fault", "throttled", "lost")


class FilterError(ValueError):
    """A filter that cannot be read. `column` (from 0) and `length` say where."""

    def __init__(self, message: str, column: int, length: int) -> None:
        super().__init__(message)
        self.message = message
        self.column = column
        self.length = max(1, length)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. `operator` is "" for a word, ":" for key and words, else a comparison."""

    key: str
    operator: str
    texts: tuple[str, ...]
    """Alternatives, in small letters."""
    number: float = 0.0
    denied: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter; with no terms everything matches."""

    terms: tuple[Term, ...] = ()

    def devices(self, host: Host, users: Mapping[str, str]) -> tuple[Device, ...] | None:
        """Return the host's matching devices, or None when the host does not match.

        `users` maps a device's UUID to the user who owns its job. A host without devices
        matches when no term asks anything of a device.
        """
        about_device = [term for term in self.terms if _asks_device(term)]
        for term in self.terms:
            if not _asks_device(term) and _host_holds(term, host) is term.denied:
                return None
        if not about_device:
            return host.devices
        devices = tuple(
            device
            for device in host.devices
            if all(
                _device_holds(term, host, device, users) is not term.denied for term in about_device
            )
        )
        return devices or None

    def job(self, job: Job) -> bool:
        """Tell whether a job matches."""
        return all(_job_holds(term, job) is not term.denied for term in self.terms)

    def container(self, container: HostContainer) -> bool:
        """Tell whether a container of a host matches."""
        return all(_container_holds(term, container) is not term.denied for term in self.terms)


def only_host(name: str) -> Filter:
    """Return the filter that lets exactly one host pass."""
    return Filter((Term("host", ":", (name.lower(),)),))


def parse(text: str, me: str = "") -> Filter:
    """Read a filter, in which `user:me` means `me`; FilterError says what is wrong and where."""
    terms: list[Term] = []
    position = 0
    while match := _TOKEN.match(text, position):
        terms.append(_term(match.group(1), match.start(1), me.lower()))
        position = match.end()
    return Filter(tuple(terms))


def free_devices(host: Host) -> int:
    """Count the devices of a host that are healthy and unused."""
    return sum(_is_free(host, device) for device in host.devices)


def _is_free(host: Host, device: Device) -> bool:
    healthy = condition(host, device) in (Condition.OK, Condition.THROTTLED)
    return healthy and not is_busy(device)


# -- reading ------------------------------------------------------------------------------------


def _term(token: str, column: int, me: str) -> Term:
    if token.count('"') % 2:
        raise FilterError("A quote is not closed.", column + token.rindex('"'), 1)
    denied = token.startswith("!")
    body = token[1:] if denied else token
    if not body:
        raise FilterError("Something must follow `!`.", column, 1)
    start = column + int(denied)
    if body.startswith('"'):
        return Term("", "", _alternatives(body, start), denied=denied)
    if compared := _COMPARE.match(body):
        return _comparison(compared, start, denied)
    key, colon, value = body.partition(":")
    if not colon:
        return Term("", "", _alternatives(body, start), denied=denied)
    key = key.lower()
    if not key or not value:
        raise FilterError(
            msg("`{word}` needs a word on both sides of the colon.", word=body), start, len(body)
        )
    if key in FIGURES:
        raise FilterError(
            msg("`{key}` is a figure: `{key}>{value}`, `{key}<{value}`.", key=key, value=value),
            start,
            len(body),
        )
    texts = _alternatives(value, start + len(key) + 1)
    if key == "user" and me:
        texts = tuple(me if text == ME else text for text in texts)
    return Term(key, ":", texts, denied=denied)


def _alternatives(value: str, start: int) -> tuple[str, ...]:
    """Return the words between bars that stand outside quotes, in small letters."""
    words = [part.replace('"', "").lower() for part in _BAR.split(value)]
    if not all(words):
        raise FilterError("A word is missing beside `|`.", start, len(value))
    return tuple(words)


def _comparison(match: re.Match[str], start: int, denied: bool) -> Term:
    key, sign, value = match.group(1).lower(), match.group(2), match.group(3)
    if key not in FIGURES:
        figures = ", ".join(FIGURES)
        raise FilterError(
            msg("`{key}` is no figure; known: {known}.", key=key, known=figures), start, len(key)
        )
    figure = _NUMBER.match(value)
    if figure is None:
        place = start + match.start(3)
        raise FilterError(
            msg("`{key}{sign}` needs a number.", key=key, sign=sign), place, len(value)
        )
    return Term(key, sign, (value,), float(figure[1]), denied)


# -- holding ------------------------------------------------------------------------------------


def _asks_device(term: Term) -> bool:
    if term.operator == ":":
        states = any(_means(text, _DEVICE_STATES) for text in term.texts)
        return term.key in _DEVICE_WORDS or (term.key == "state" and states)
    return term.operator != "" and term.key in _DEVICE_FIGURES


def _means(text: str, words: tuple[str, ...]) -> bool:
    return any(word.startswith(text) for word in words)


def _host_holds(term: Term, host: Host) -> bool:
    if term.operator == "":
        values = {value.lower() for value in host.labels.values()}
        return any(text in host.name.lower() or text in values for text in term.texts)
    if term.operator == ":":
        if term.key == "state":
            return any(_in_state(host, text) for text in term.texts)
        if term.key == "host":
            return host.name.lower() in term.texts
        return host.labels.get(term.key, "").lower() in term.texts
    figure = _HOST_FIGURES.get(term.key)
    return figure is not None and _OPERATORS[term.operator](figure(host), term.number)


def _in_state(host: Host, text: str) -> bool:
    words = ("drained",) if host.aside is None else ("drained", "aside")
    if host.drained and _means(text, words):
        return True
    return host.state.value.startswith(text)


def _device_holds(term: Term, host: Host, device: Device, users: Mapping[str, str]) -> bool:
    if term.operator == ":":
        return any(_word_holds(term.key, text, host, device, users) for text in term.texts)
    value = _DEVICE_FIGURES[term.key](device)
    return value is not None and _OPERATORS[term.operator](value, term.number)


def _word_holds(key: str, text: str, host: Host, device: Device, users: Mapping[str, str]) -> bool:
    if key == "gpu":
        return text in device.model.lower()
    if key == "user":
        names = [process.user.lower() for process in device.processes]
        return text in names or users.get(device.uuid, "").lower() == text
    if key == "process":
        return any(text in process.command.lower() for process in device.processes)
    if key == "container":
        ids = (process.container_id for process in device.processes)
        return any(each.startswith(text) for each in ids if each)
    if not _means(text, _DEVICE_STATES):
        # An alternative that only hosts have, beside one of devices: `state:down|fault`.
        return _in_state(host, text)
    return _device_in_state(text, host, device)


def _device_in_state(text: str, host: Host, device: Device) -> bool:
    up = host.state is HostState.UP
    states = {
        "busy": is_busy(device),
        "free": _is_free(host, device),
        "fault": is_faulty(device),
        "throttled": up and not SLOWING.isdisjoint(device.throttle),
        "lost": device.lost,
    }
    return any(held for state, held in states.items() if state.startswith(text))


def _job_holds(term: Term, job: Job) -> bool:
    attempt = job.attempt
    if term.operator == "":
        name, number = job.task.name.lower(), job.id.lower()
        return any(text in name or number.startswith(text) for text in term.texts)
    if term.operator == ":":
        words = {"state": job.state.value, "user": job.user.lower()}
        words["host"] = attempt.host.lower() if attempt else ""
        words["gpu"] = " ".join(job.task.preferred_devices).lower()
        value = words.get(term.key, job.task.labels.get(term.key, "").lower())
        return any(text in value for text in term.texts)
    figure = _JOB_FIGURES.get(term.key)
    return figure is not None and _OPERATORS[term.operator](figure(job), term.number)


def _container_holds(term: Term, container: HostContainer) -> bool:
    if term.operator == "":
        names = (container.name, container.image, container.command)
        return any(
            container.id.startswith(text) or any(text in name.lower() for name in names)
            for text in term.texts
        )
    words = {
        "host": (container.host,),
        "state": (container.state,),
        "user": container.users,
        "image": (container.image,),
        "job": (container.job,),
        "container": (container.id,),
    }.get(term.key, ())
    exact = term.key in ("host", "user")
    return term.operator == ":" and any(
        text == word.lower() if exact else text in word.lower()
        for text in term.texts
        for word in words
    )
