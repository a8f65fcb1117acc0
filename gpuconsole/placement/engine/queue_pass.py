"""One pass over the queue: who starts where, and what is kept for the first who cannot.

The same pass serves the live console, the forecast of its queue and the simulator. It knows no
clock and no chance: an equal board, queue, policy and time give an equal outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine.backfill import reserve
from gpuconsole.placement.engine.board import Board, Reservation
from gpuconsole.placement.engine.job_profile import Profile, profile
from gpuconsole.placement.engine.preemption import victims
from gpuconsole.placement.engine.search import Pick, pick
from gpuconsole.placement.model import FREE, Candidate, Holder, Policy, Request, Rules


@dataclass(frozen=True, slots=True)
class Start:
    """A job that starts now, and where."""

    request: Request
    pick: Pick
    candidate: Candidate | None = None
    """The pick with its reasons, where they were asked for."""


@dataclass(slots=True)
class Outcome:
    """What one pass over the queue came to. Its board holds the devices of those that start."""

    board: Board
    started: list[Start] = field(default_factory=list)
    blocked: list[Request] = field(default_factory=list)
    """In the order of the queue."""
    reservation: Reservation | None = None
    preempted: tuple[str, ...] = ()
    """Running jobs that should make room for the first blocked one."""
    head: Request | None = None
    """The first blocked job, where the others may not pass it."""


class Failures:
    """What found no place on a board: kept until something is given back.

    Devices only get fewer during a pass, so a job that needs as much and runs as long as one that
    failed, and is otherwise like it, fails too.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], list[tuple[float, float]]] = {}

    def clear(self) -> None:
        """Forget: devices were given back."""
        self._known.clear()

    def cover(self, shape: tuple[object, ...], need: float, seconds: float) -> bool:
        """Tell whether a job of this shape, need (MiB) and length (s) has no place."""
        return any(n <= need and s <= seconds for n, s in self._known.get(shape, ()))

    def add(self, shape: tuple[object, ...], need: float, seconds: float) -> None:
        """Note a job that found no place."""
        others = [(n, s) for n, s in self._known.get(shape, ()) if not (need <= n and seconds <= s)]
        self._known[shape] = [*others, (need, seconds)]


Profiles = Callable[[Request], Profile]
Explain = Callable[[Pick, Profile, Board], Candidate]


def run(
    board: Board,
    queue: Sequence[Request],
    policy: Policy | Mapping[str, Policy],
    now: float,
    rules: Rules = FREE,
    *,
    lab: Policy | None = None,
    failures: Failures | None = None,
    profiles: Profiles | None = None,
    explain: Explain | None = None,
) -> Outcome:
    """Pass over a queue that is in order, and take the devices of those that start.

    `policy` may map job ids to policies, for tasks that name their own; `lab` then says how later
    jobs may pass a blocked one. `failures` and `profiles` are kept from pass to pass by a caller
    that moves one board through time. `explain` returns the explanation of a start.
    """
    mode = policy if isinstance(policy, Policy) else lab or Policy()
    refused = Failures() if failures is None else failures
    outcome = Outcome(board)
    hopeless = Failures()
    counts = None if rules is FREE else held_devices(board)
    for request in queue:
        if outcome.head is not None and mode.backfill == "strict":
            outcome.blocked.append(request)
            continue
        if not board.free and not mode.sharing and outcome.head is not None:
            outcome.blocked.append(request)
            continue
        if counts is not None and rules.job(request, counts) is not None:
            outcome.blocked.append(request)
            continue
        own = policy if isinstance(policy, Policy) else policy[request.job]
        job_profile = profiles(request) if profiles else profile(request, board, own, now, rules)
        job_profile.now = now
        choice = _place(job_profile, board, refused)
        if choice is None:
            outcome.blocked.append(request)
            if outcome.head is None:
                _block(outcome, job_profile, board, mode, hopeless)
            continue
        candidate = explain(choice, job_profile, board) if explain else None
        board.take(choice.chosen, holder_of(request, now))
        _spend(board, job_profile, choice)
        outcome.started.append(Start(request, choice, candidate))
        if counts is not None:
            task = request.task
            _count(counts, request.user, task.account, request.devices)
            _count_sweep(counts, request.user, task.sweep)
    if board.reservation is not None:
        outcome.reservation = board.reservation
        board.reserve(None)
    return outcome


def holder_of(request: Request, now: float) -> Holder:
    """Return the holder that a request becomes when it starts now."""
    task, seconds = request.task, request.run_time_s
    return Holder(
        job=request.job,
        name=task.name,
        user=request.user or "this queue",
        since=now,
        ends_at=None if seconds is None else now + seconds,
        need_mib=request.need_mib,
        utilization=request.utilization,
        share=task.share,
        priority=task.priority,
        account=task.account,
        sweep=task.sweep,
        resumable=task.resumable,
    )


def _place(profile: Profile, board: Board, failures: Failures) -> Pick | None:
    request = profile.request
    if profile.policy.sharing and request.task.share:
        return pick(profile, board)  # what else its device does counts too
    if not board.has_room(profile.able, profile.least):
        return None
    shape = (profile.shape(), board.reservation is not None)
    extent = _extent(request)
    if failures.cover(shape, *extent):
        return None
    choice = pick(profile, board)
    if choice is None:
        failures.add(shape, *extent)
    return choice


def _extent(request: Request) -> tuple[float, float]:
    """Return the memory (MiB) and time (s) by which jobs of one shape differ."""
    need = 0.0 if request.need_mib is None else request.need_mib
    return need, float("inf") if request.run_time_s is None else request.run_time_s


def _block(
    outcome: Outcome, profile: Profile, board: Board, mode: Policy, hopeless: Failures
) -> None:
    """Note the first job that cannot start although it could one day; `hopeless` are those of
    which it was seen that they cannot."""
    like = (profile.shape(), *_extent(profile.request))
    if mode.backfill != "strict" and hopeless.cover(*like):
        return
    reservation = reserve(profile, board)
    if reservation is None and mode.backfill != "strict":
        # It waits for something that the queue does not hold: nothing can be kept for it.
        hopeless.add(*like)
        return
    outcome.head = profile.request
    if mode.preemption:
        outcome.preempted = victims(profile, board)
    if reservation is not None and mode.backfill == "easy":
        board.reserve(reservation)


def _spend(board: Board, profile: Profile, choice: Pick) -> None:
    """Count what a job that outlasts the reservation takes of the devices that are spare then."""
    reservation, seconds = board.reservation, profile.request.run_time_s
    if (
        reservation is None
        or choice.shared
        or (seconds and profile.now + seconds <= reservation.when)
    ):
        return
    by_site: Counter[int] = Counter()
    for cell, spots in choice.chosen:
        if cell.kind == reservation.kind and cell.site.place in reservation.sites:
            by_site[cell.site.place] += len(spots)
    taken = max(by_site.values(), default=0)
    if taken:
        board.reserve(replace(reservation, spare=reservation.spare - taken))


def held_devices(board: Board) -> dict[str, int]:
    """Return how many devices users and accounts hold, by `user:` or `account:` and name, and how
    many jobs of a sweep hold any, by `sweep:`, its user and its name."""
    counts: dict[str, int] = {}
    for job, cells in board.held.items():
        sweeps = set()
        for cell in cells:
            for holder in (cell.holder, cell.guest):
                if holder is not None and holder.job == job:
                    _count(counts, holder.user, holder.account, len(cell.spots))
                    sweeps.add((holder.user, holder.sweep))
        for user, sweep in sweeps:
            _count_sweep(counts, user, sweep)
    return counts


def sweep_key(user: str, sweep: str) -> str:
    """Return under what the jobs of a sweep are counted that hold devices."""
    return f"sweep:{user}/{sweep}"


def _count_sweep(counts: dict[str, int], user: str, sweep: str) -> None:
    if sweep:
        key = sweep_key(user, sweep)
        counts[key] = counts.get(key, 0) + 1


def _count(counts: dict[str, int], user: str, account: str, devices: int) -> None:
    for key in (f"user:{user}", f"account:{account}"):
        counts[key] = counts.get(key, 0) + devices
