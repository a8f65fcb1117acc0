"""The rules of a lab as the engine asks for them: quotas, windows, and which image runs where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.fleet import Host
from gpuconsole.core.units import parse_time
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.placement.engine.queue_pass import sweep_key
from gpuconsole.placement.model import Request, Ruling
from gpuconsole.placement.rules.fair_share import Usage
from gpuconsole.placement.rules.quotas import Limits, Quota, Use, Window

if TYPE_CHECKING:
    from gpuconsole.config import LabSettings

Suits = Callable[[Request, Host], str]
"""Says why a host cannot run a job's image, or ""."""


def any_image(request: Request, host: Host) -> str:
    """Let every host run every image."""
    return ""


@dataclass(frozen=True, slots=True)
class LabRules:
    """What a lab forbids at one moment."""

    limits: Limits
    use: Use
    now: float
    suits: Suits = any_image
    _hosts: dict[tuple[str, str, float | None, str], Ruling | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    def job(self, request: Request, held: Mapping[str, int]) -> Ruling | None:
        """Return why a job may not start at all now: see `Rules`."""
        task = request.task
        if task.sweep and task.at_most is not None:
            running = held.get(sweep_key(request.user, task.sweep), 0)
            if running >= task.at_most:
                return Ruling("sweep", _full_sweep(task.sweep, task.at_most, running))
        beyond = self.limits.never(request)
        if beyond is not None:
            return Ruling("beyond", beyond.sentence)
        refusal = self.limits.refused(request, self.use, self.now, held)
        return None if refusal is None else Ruling("quota", refusal.sentence)

    def host(self, request: Request, host: Host, own: int, count: int) -> Ruling | None:
        """Return why a job may not use a host: see `Rules`. Where a window is for a model, a host
        that has one such device is kept whole."""
        taken_away = _interruptible_fault(request.task.checkpoint_dir, host)
        if taken_away:
            return Ruling("interruptible", taken_away)
        crowded = self.limits.crowded(request, host.name, own, count)
        if crowded is not None:
            return Ruling("quota", crowded.sentence)
        key = (request.job, host.name, request.run_time_s, request.task.image)
        if key not in self._hosts:
            self._hosts[key] = self._suits_and_free(request, host)
        return self._hosts[key]

    def _suits_and_free(self, request: Request, host: Host) -> Ruling | None:
        unsuited = self.suits(request, host)
        if unsuited:
            return Ruling("image", unsuited)
        kinds = frozenset((device.model, device.memory_total_mib) for device in host.devices)
        refusal = self.limits.kept(request, host.name, lambda name: _has(kinds, name), self.now)
        return None if refusal is None else Ruling("window", refusal.sentence)


def _full_sweep(sweep: str, at_most: int, running: int) -> str:
    jobs = "1 job runs" if running == 1 else "{all} jobs run"
    template = f"Its sweep {{name}} may have {{n}} at once, and {jobs}."
    return msg(template, name=sweep, n=at_most, all=running)


@lru_cache(maxsize=4096)
def _has(kinds: frozenset[tuple[str, float | None]], name: str) -> bool:
    catalogue = Catalogue.load()
    return any(catalogue.matches(name, model, total) for model, total in kinds)


def limits_of(settings: LabSettings) -> Limits:
    """Return the limits that a lab's settings name."""
    quotas = tuple(
        Quota(
            name=quota.user or quota.account,
            kind="user" if quota.user else "account",
            devices=quota.devices,
            device_hours=quota.device_hours,
            period=quota.per,
        )
        for quota in settings.quotas
    )
    windows = tuple(
        Window(
            name=window.name,
            begins_at=parse_time(window.begins),
            ends_at=parse_time(window.ends),
            repeat=window.repeat or "",
            hosts=window.hosts,
            models=window.models,
            users=window.users,
            accounts=window.accounts,
            labels=window.labels,
            clear_s=window.clear,
        )
        for window in settings.windows
    )
    return Limits(quotas, windows, settings.max_devices_per_host)


def usage_of(settings: LabSettings) -> Usage:
    """Return an account of use, empty yet, with the shares that a lab's settings name."""
    shares = settings.shares
    return Usage(settings.half_life, shares.users, shares.accounts)


def _interruptible_fault(checkpoint_dir: str, host: Host) -> str:
    """Return why a job may not use a host that may be taken away, as a sentence, or ""."""
    if not host.interruptible or checkpoint_dir:
        return ""
    return (
        f"{host.name} may be taken away at any time: only jobs with a `checkpoint_dir`, from which"
        " they go on, may use it."
    )
