"""The compiled copy of the simulation: built by the C compiler at hand, called by its structures.

It plays a window of two weeks in about 10 ms and starts every job when the engine does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_double, c_int
from functools import cached_property
from pathlib import Path
from statistics import fmean

from gpuconsole.placement.engine.features import FACTORS, ORDER_FEATURES, PLACE_TERMS
from gpuconsole.placement.engine.queue_order import FRONT_AREAS, FRONT_LEAST, FRONT_TIMES
from gpuconsole.placement.engine.topology import link_quality
from gpuconsole.placement.learned.gate import Play
from gpuconsole.placement.model import Learned, Policy
from gpuconsole.placement.simulate.device_speeds import CLASSES
from gpuconsole.placement.simulate.lab import THRESHOLD, Lab
from gpuconsole.placement.simulate.metrics import Busy, Outcome, Ran, quantile
from gpuconsole.placement.simulate.workload import Workload

SOURCE = Path(__file__).with_name("loop.c")
SITES, KINDS = 64, 8
_WEIGHTS = ("fit", "pack", "fragments", "speed", "length", "links", "price", "bulk")
_UNKNOWN = {"balance", "domestic"}
"""Terms that the copy leaves out; `idle` and `preferred` are equal for all places here."""
_Doubles, _Ints = POINTER(c_double), POINTER(c_int)


class _Lab(Structure):
    _fields_ = (
        *((name, c_int) for name in ("sites", "kinds", "devices")),
        *((name, c_int * SITES) for name in ("kind", "size")),
        *(("price", c_double * SITES), ("cheapest", c_double)),
        *((name, c_double * KINDS) for name in ("limit", "links")),
        ("linked", c_int * KINDS),
    )


class _Jobs(Structure):
    _fields_ = (
        *((name, c_int) for name in ("count", "users")),
        *((name, _Doubles) for name in ("submitted", "run_time", "predicted", "need")),
        *((name, _Ints) for name in ("devices", "hosts", "user", "kinds", "job_class")),
        *((name, _Doubles) for name in ("speed", "unlinked")),
    )


_QUEUE = (
    "fair_share",
    "patience",
    "front_after_s",
    "front_times",
    "front_least",
    "front_areas",
    "by_time",
    "by_devices",
)


class _Policy(Structure):
    _fields_ = (
        *((name, c_double) for name in (*_WEIGHTS, *_QUEUE)),
        ("place", c_double * (len(PLACE_TERMS) * (1 + len(FACTORS)))),
        ("order", c_double * len(ORDER_FEATURES)),
        *((name, c_double) for name in ("place_clip", "order_clip")),
    )


def built(folder: Path) -> CDLL:
    """Compile the copy into a folder and load it; OSError where there is no compiler."""
    target = folder / "loop.so"
    words = ["cc", "-O3", "-fno-math-errno", "-shared", "-fPIC", str(SOURCE), "-o", str(target)]
    subprocess.run([*words, "-lm"], check=True)
    return CDLL(str(target))


class Window:
    """A window of jobs on a lab, as the copy takes it."""

    def __init__(self, lab: Lab, workload: Workload) -> None:
        """The lab's hosts must have equal devices, prices, and no failures."""
        assert lab.failures is None, "the copy knows no failures"
        names = {(h.model, h.memory_mib, h.backend): None for h in lab.hosts}
        self._kinds = {name: number for number, name in enumerate(names)}
        self._lab, self._workload, self.jobs = self._lab_of(lab), workload, workload.jobs
        jobs, users = workload.jobs, {job.user: None for job in workload.jobs}
        number = {user: place for place, user in enumerate(users)}
        classes = list(CLASSES)
        speed = [0.0] * (len(classes) * KINDS)
        for host in lab.hosts:
            kind = self._kinds[host.model, host.memory_mib, host.backend]
            for place, name in enumerate(classes):
                speed[place * KINDS + kind] = host.speed[name]
        self._jobs = _Jobs(
            len(jobs),
            len(users),
            _doubles([job.submitted_s for job in jobs]),
            _doubles([job.run_time_s for job in jobs]),
            _doubles([job.predicted_s or 0.0 for job in jobs]),
            _doubles([job.need_mib for job in jobs]),
            _ints([job.devices for job in jobs]),
            _ints([lab.hosts_for(job.devices) for job in jobs]),
            _ints([number[job.user] for job in jobs]),
            _ints([self._able(job.backends, job.need_mib) for job in jobs]),
            _ints([classes.index(job.job_class) for job in jobs]),
            _doubles(speed),
            _doubles([one.unlinked for one in CLASSES.values()]),
        )

    def starts(self, code: CDLL, policy: Policy) -> tuple[list[float], list[float]]:
        """Return when each job starts and ends under a policy (s)."""
        assert policy.backfill == "easy"
        assert not any(policy.weights.get(name) for name in _UNKNOWN)
        learned = policy.learned or Learned()
        place = [
            learned.place.get(f"{term}*{by}" if by else term, 0.0)
            for term in PLACE_TERMS
            for by in ("", *FACTORS)
        ]
        order = [learned.order.get(name, 0.0) for name in ORDER_FEATURES]
        given = _Policy(
            *(policy.weights.get(name, 0.0) for name in _WEIGHTS),
            policy.fair_share,
            policy.patience,
            policy.front_after_s,
            FRONT_TIMES,
            FRONT_LEAST,
            FRONT_AREAS,
            float(policy.order != "fifo"),
            float(policy.order == "area"),
            (c_double * len(place))(*place),
            (c_double * len(order))(*order),
            learned.place_clip,
            learned.order_clip,
        )
        start, end = ((c_double * len(self.jobs))() for _ in range(2))
        ended = code.simulate(byref(self._lab), byref(self._jobs), byref(given), start, end)
        assert ended == len(self.jobs)
        return list(start), list(end)

    def play(self, code: CDLL, policy: Policy) -> Play:
        """Play the window under a policy."""
        start, end = self.starts(code, policy)
        counted = [place for place, job in enumerate(self.jobs) if job.counted]
        waits = sorted(start[place] - self.jobs[place].submitted_s for place in counted)
        completion = fmean(end[place] - self.jobs[place].submitted_s for place in counted)
        return Play(completion, quantile(waits, 0.99) or 0.0)

    def outcome(self, code: CDLL, policy: Policy) -> Outcome:
        """Play the window under a policy and return all that the engine's simulation does."""
        start, end = self.starts(code, policy)
        ran, changes = [], []
        for job, began, ended in zip(self.jobs, start, end, strict=True):
            ran.append(Ran(job, began, ended, (ended - began) * job.devices))
            working = job.devices * job.utilization / 100.0
            changes += [(began, job.devices, working), (ended, -job.devices, -working)]
        busy, held, working = [Busy(0.0, 0, 0.0)], 0, 0.0
        for at, devices, work in sorted(changes):
            held, working = held + devices, working + work
            busy.append(Busy(at, held, working))
        return Outcome(
            policy.name,
            self._lab.devices,
            tuple(ran),
            tuple(busy),
            self._workload.counted_from,
            self._workload.last_arrival,
        )

    @cached_property
    def _limits(self) -> list[float]:
        return [memory * THRESHOLD for _, memory, _ in self._kinds]

    def _able(self, backends: Sequence[str], need: float) -> int:
        """Return the kinds that suit a job, a bit each."""
        return sum(
            1 << kind
            for (_, _, backend), kind in self._kinds.items()
            if backend in backends and need <= self._limits[kind]
        )

    def _lab_of(self, lab: Lab) -> _Lab:
        made = _Lab(len(lab.hosts), len(self._kinds), lab.devices)
        prices = [host.price_per_hour for host in lab.hosts if host.price_per_hour is not None]
        assert len(prices) == len(lab.hosts), "the copy wants a price for every host"
        made.cheapest = min(prices)
        for site, host in enumerate(lab.hosts):
            kind = self._kinds[host.model, host.memory_mib, host.backend]
            made.kind[site], made.size[site], made.price[site] = kind, host.devices, prices[site]
            made.limit[kind], made.linked[kind] = self._limits[kind], host.linked
            made.links[kind] = link_quality("NV12" if host.linked else "PHB")
        return made


def _doubles(values: Sequence[float]) -> object:
    return (c_double * len(values))(*values)


def _ints(values: Sequence[int]) -> object:
    return (c_int * len(values))(*values)
