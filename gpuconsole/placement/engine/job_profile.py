"""A job as the board's kinds of device see it: which could ever do, how fast, how much may be used.

Made once for a job; everything that depends on where devices stand is left to `search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from math import log10
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from gpuconsole.core.device_catalogue import Catalogue, Spec
from gpuconsole.core.fleet import Host
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine.board import Board, Kind, Site
from gpuconsole.placement.model import FREE, Policy, Request, Rules, Shun
from gpuconsole.preflight.roofline import Work, roofline

if TYPE_CHECKING:
    from gpuconsole.placement.engine.scores import Scorer

PERMANENT = frozenset({"mig", "backend", "labels", "memory", "image", "interruptible"})
"""Filters that waiting does not lift."""
SHORT_S, LONG_S = 60.0, 2 * 86400.0
"""Run times between which a job's length grows from 0 to 1, by logarithm: a minute, two days."""


class View(NamedTuple):
    """One kind of device for one job."""

    limit_mib: float | None
    """Threshold times capacity."""
    code: str
    """The filter that rules the kind out for good, or ""."""
    rank: int | None
    """Place in the task's preferred devices."""
    spec: Spec | None
    rate: float
    """Steps a second, or TFLOPS; 0 when unknown."""


@dataclass(slots=True)
class Profile:
    """A request and its view of each kind on the board."""

    request: Request
    policy: Policy
    now: float
    threshold: float
    views: list[View]
    best_rate: float
    measures_steps: bool
    """Whether rates are steps a second."""
    preference_ends: float | None
    """Until when only preferred devices will do; None when the wait is over or pointless."""
    rules: Rules = FREE
    home: int | None = None
    """The host to which its user keeps, where the policy has every user keep to one."""
    able: tuple[int, ...] = ()
    """Kinds of device that could do."""
    least: int = 1
    """Devices that it takes of a host at least."""
    apart: bool = False
    """Whether hosts with another replica of its service are passed over."""
    scorers: dict[int, Scorer] = field(default_factory=dict, repr=False, compare=False)
    """By the number of devices, once asked for."""
    _shape: tuple[object, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def empty_only(self) -> str:
        """The filter by which only an empty device will do, or ""."""
        if self.request.task.exclusive:
            return "exclusive"
        if self.request.need_mib is None:
            return "unknown"
        return "foreign" if self.policy.avoid_foreign else ""

    @property
    def picky(self) -> bool:
        """Whether hosts must be asked one by one."""
        task = self.request.task
        unruled = self.rules is FREE and not self.policy.host_per_user
        asked = task.labels or task.anti_labels or self.request.shunned or self.apart
        return bool(asked) or not unruled

    def shun(self, host: str) -> Shun | None:
        """Return why the job does not go to a host now, where it does not."""
        shunned = self.request.shunned.get(host) if self.request.shunned else None
        return shunned if shunned is not None and self.now < shunned.until else None

    def has_replica(self, site: Site) -> bool:
        """Tell whether another replica of the job's service holds a device of a host."""
        request = self.request
        own = (request.user, request.task.sweep)
        return any(
            holder is not None and (holder.user, holder.sweep) == own and holder.job != request.job
            for cell in site.held
            for holder in (cell.holder, cell.guest)
        )

    def usable_mib(self, kind: int, spare_mib: float | None) -> float:
        """Return the memory a job may fill: within the threshold and beside what others hold."""
        limit = self.views[kind].limit_mib
        return 0.0 if limit is None or spare_mib is None else max(0.0, min(limit, spare_mib))

    def length(self) -> float:
        """Return how long the job is, 0-1; 0 if unknown."""
        seconds = self.request.run_time_s
        if not seconds or seconds <= SHORT_S:
            return 0.0
        return min(1.0, log10(seconds / SHORT_S) / log10(LONG_S / SHORT_S))

    def shape(self) -> tuple[object, ...]:
        """Return what decides, besides need and length, whether a job finds a place."""
        if self._shape is None or self.request.shunned:
            self._shape = self._shaped()
        return self._shape

    def _shaped(self) -> tuple[object, ...]:
        task, ends = self.request.task, self.preference_ends
        own = (self.request.user, task.account) if self.picky else ()
        return (
            tuple(view.code for view in self.views),
            self.request.devices,
            task.hosts,
            self.empty_only,
            self.threshold,
            tuple(sorted(task.labels.items())) if task.labels else (),
            tuple(sorted(task.anti_labels.items())) if task.anti_labels else (),
            own,
            task.image if self.rules is not FREE else "",
            self.rules is not FREE and bool(task.checkpoint_dir),
            # A reserved window may admit jobs of unknown length, but not long ones.
            self.rules is not FREE and self.request.run_time_s is None,
            () if ends is None else tuple(view.rank is None for view in self.views),
            task.share and self.policy.sharing,
            tuple(sorted(filter(self.shun, self.request.shunned or ()))),
        )


def profile(
    request: Request, board: Board, policy: Policy, now: float, rules: Rules = FREE
) -> Profile:
    """Return how the kinds on a board look to a job."""
    threshold = request.task.threshold(policy.memory_threshold)
    catalogue = Catalogue.load()
    specs = [_spec(kind.model, kind.total_mib, kind.backend) for kind in board.kinds]
    codes = [_code(request, kind, threshold) for kind in board.kinds]
    rates, measured = _rates(request, board.kinds, specs, codes)
    views = [
        View(
            None if kind.total_mib is None else kind.total_mib * threshold,
            code,
            _rank(catalogue, request, kind),
            spec,
            rate,
        )
        for kind, spec, code, rate in zip(board.kinds, specs, codes, rates, strict=True)
    ]
    best = max((view.rate for view in views if not view.code), default=0.0)
    result = Profile(request, policy, now, threshold, views, best, measured, None, rules)
    result.able = tuple(kind for kind, view in enumerate(views) if not view.code)
    result.least = request.least_on_host
    result.preference_ends = _preference_ends(result, board)
    if policy.host_per_user:
        result.home = _home(result, board)
    return result


def site_code(profile: Profile, host: Host) -> str:
    """Return `labels` when a host lacks a label of the task or has one that it must not have."""
    task = profile.request.task
    return "" if host.has_labels(task.labels, task.anti_labels) else "labels"


def _code(request: Request, kind: Kind, threshold: float) -> str:
    need, total = request.need_mib, kind.total_mib
    if kind.divided or (kind.part and request.devices > 1):
        return "mig"
    rates = request.rates
    if kind.backend != request.task.backend if rates is None else kind.model not in rates:
        return "backend"
    if need is not None and total is not None and need > total * threshold:
        return "memory"
    return ""


@lru_cache(maxsize=4096)
def _spec(model: str, total: float | None, backend: str) -> Spec | None:
    return Catalogue.load().lookup(model, total, backend)


def _rank(catalogue: Catalogue, request: Request, kind: Kind) -> int | None:
    if not request.task.preferred_devices:
        return None
    names = enumerate(request.task.preferred_devices)
    ranks = (place for place, name in names if catalogue.matches(name, kind.model, kind.total_mib))
    return next(ranks, None)


def _rates(
    request: Request, kinds: Sequence[Kind], specs: Sequence[Spec | None], codes: Sequence[str]
) -> tuple[list[float], bool]:
    """Return what ranks kinds by speed, 0 when unknown, and whether that is steps a second.

    Steps a second by the roofline, where the work of a step is known and the figures of every kind
    allow it, for only like may be compared with like; else the FP16 rate in TFLOPS, or the FP32
    rate of a task that does not allow mixed precision. A service makes no steps.
    """
    if request.rates is not None:
        return [request.rates.get(kind.model, 0.0) for kind in kinds], False
    if request.work is not None and request.task.service is None:
        steps = [_step_rate(request.work, spec) for spec in specs]
        if all(rate for rate, code in zip(steps, codes, strict=True) if not code):
            return steps, True
    if request.task.allow_mixed_precision is False:
        return [(spec and spec.fp32_tflops) or 0.0 for spec in specs], False
    return [(spec and spec.rate_tflops) or 0.0 for spec in specs], False


def _step_rate(work: Work, spec: Spec | None) -> float:
    seconds = roofline(work, spec) if spec is not None else None
    return 1.0 / seconds if seconds else 0.0


def _home(profile: Profile, board: Board) -> int | None:
    """Return the user's own host, the same one whenever it is asked; for what it never could take,
    the next that could. A gang over several hosts has no home."""
    first = crc32(profile.request.user.encode())
    for step in range(len(board.sites)):
        site = board.sites[(first + step) % len(board.sites)]
        able = any(not profile.views[kind].code for kind in site.kinds)
        if able and site.size >= profile.request.devices:
            return site.place
    return None


def _preference_ends(profile: Profile, board: Board) -> float | None:
    """Return until when to insist on preferred devices; pointless if the fleet has none."""
    request = profile.request
    if not request.task.preferred_devices:
        return None
    ends = request.waiting_since + request.task.preference_timeout_s
    wanted = {
        number
        for number, view in enumerate(profile.views)
        if view.rank is not None and not view.code
    }
    if profile.now >= ends or not wanted:
        return None
    for site in board.sites:
        if site.kinds & wanted and not site_code(profile, site.host):
            return ends
    return None
