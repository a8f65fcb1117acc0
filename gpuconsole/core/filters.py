"""One filter grammar for hosts, devices and jobs: `rack:r07 util<20 gpu:h200 !state:down`.

Terms stand side by side and all must hold; `!` before a term denies it; quotes keep blanks.

    word            the name contains it
    state:down      a host's or job's state
    gpu:h200        the device's model contains it
    user:ana        somebody of that name uses the device, or owns the job
    host:a100-01    the host of exactly that name
    rack:r07        any other word before the colon is a label of the host
    util<20         device figures: util, mem (percent), temp (C), power (W)
    free>=4         host figures: free and gpus (numbers of devices)
    prio>10         job figures: prio, gpus
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Job
from gpuconsole.core.levels import Condition, condition, is_busy, memory_percent

_TOKEN = re.compile(r'\s*(!?(?:[^\s"]|"[^"]*")+|!?"[^"]*$)')
_COMPARE = re.compile(r"([A-Za-z_]+)(<=|>=|<|>|=)(.*)\Z")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_DEVICE_FIGURES: Mapping[str, Callable[[Device], float | None]] = {
    "util": lambda device: device.utilization,
    "mem": memory_percent,
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
FIGURES = tuple(dict.fromkeys((*_DEVICE_FIGURES, *_HOST_FIGURES, *_JOB_FIGURES)))


class FilterError(ValueError):
    """A filter that cannot be read. `column` (from 0) and `length` say where."""

    def __init__(self, message: str, column: int, length: int) -> None:
        super().__init__(message)
        self.message = message
        self.column = column
        self.length = max(1, length)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. `operator` is "" for a word, ":" for key and text, else a comparison."""

    key: str
    operator: str
    text: str
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
        found = tuple(
            device
            for device in host.devices
            if all(_device_holds(term, device, users) is not term.denied for term in about_device)
        )
        return found or None

    def job(self, job: Job) -> bool:
        """Tell whether a job matches."""
        return all(_job_holds(term, job) is not term.denied for term in self.terms)


def parse(text: str) -> Filter:
    """Read a filter; FilterError says what is wrong and where."""
    terms: list[Term] = []
    position = 0
    while match := _TOKEN.match(text, position):
        terms.append(_term(match.group(1), match.start(1)))
        position = match.end()
    return Filter(tuple(terms))


def free_devices(host: Host) -> int:
    """Count the devices of a host that are healthy and used by nobody."""
    return sum(
        1
        for device in host.devices
        if condition(host, device) in (Condition.OK, Condition.THROTTLED) and not is_busy(device)
    )


def _term(token: str, column: int) -> Term:
    if token.count('"') % 2:
        raise FilterError("A quote is not closed.", column + token.rindex('"'), 1)
    denied = token.startswith("!")
    body = token[1:] if denied else token
    if not body:
        raise FilterError("Something must follow `!`.", column, 1)
    start = column + int(denied)
    if body.startswith('"'):
        return Term("", "", body.replace('"', "").lower(), denied=denied)
    if compared := _COMPARE.match(body):
        return _comparison(compared, start, denied)
    key, colon, value = body.partition(":")
    if not colon:
        return Term("", "", body.replace('"', "").lower(), denied=denied)
    value = value.replace('"', "").lower()
    if not key or not value:
        raise FilterError(f"`{body}` needs a word on both sides of the colon.", start, len(body))
    return Term(key.lower(), ":", value, denied=denied)


def _comparison(match: re.Match[str], start: int, denied: bool) -> Term:
    key, sign, value = match.group(1).lower(), match.group(2), match.group(3)
    if key not in FIGURES:
        known = ", ".join(FIGURES)
        raise FilterError(f"`{key}` is no figure; known: {known}.", start, len(key))
    try:
        number = float(value.rstrip("%"))
    except ValueError:
        place = start + match.start(3)
        raise FilterError(f"`{key}{sign}` needs a number.", place, len(value)) from None
    return Term(key, sign, value, number, denied)


def _asks_device(term: Term) -> bool:
    if term.operator == ":":
        return term.key in ("gpu", "user")
    return term.operator != "" and term.key in _DEVICE_FIGURES


def _host_holds(term: Term, host: Host) -> bool:
    if term.operator == "":
        return term.text in host.name.lower()
    if term.operator == ":":
        if term.key == "state":
            return host.state.value.startswith(term.text)
        if term.key == "host":
            return host.name.lower() == term.text
        return host.labels.get(term.key, "").lower() == term.text
    figure = _HOST_FIGURES.get(term.key)
    return figure is not None and _OPERATORS[term.operator](figure(host), term.number)


def _device_holds(term: Term, device: Device, users: Mapping[str, str]) -> bool:
    if term.key == "gpu":
        return term.text in device.model.lower()
    if term.key == "user":
        names = {users.get(device.uuid, "").lower()}
        names.update(process.user.lower() for process in device.processes)
        return term.text in names
    value = _DEVICE_FIGURES[term.key](device)
    return value is not None and _OPERATORS[term.operator](value, term.number)


def _job_holds(term: Term, job: Job) -> bool:
    attempt = job.attempt
    if term.operator == "":
        return term.text in job.task.name.lower() or job.id.lower().startswith(term.text)
    if term.operator == ":":
        texts = {"state": job.state.value, "user": job.user.lower()}
        texts["host"] = attempt.host.lower() if attempt else ""
        texts["gpu"] = " ".join(job.task.preferred_devices).lower()
        value = texts.get(term.key, job.task.labels.get(term.key, "").lower())
        return term.text in value
    figure = _JOB_FIGURES.get(term.key)
    return figure is not None and _OPERATORS[term.operator](figure(job), term.number)
