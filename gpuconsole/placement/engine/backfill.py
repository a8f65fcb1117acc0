"""What is kept for the first job that cannot start (EASY), and when it should."""

from __future__ import annotations

import math

from gpuconsole.placement.engine.board import Board, Reservation, Site
from gpuconsole.placement.engine.expected_end import expected_end
from gpuconsole.placement.engine.job_profile import Profile
from gpuconsole.placement.engine.search import cell_code, host_code


def reserve(job_profile: Profile, board: Board) -> Reservation | None:
    """Return the devices that a blocked job can have soonest; None when it never can.

    Of equal moments the one on fewer hosts.
    """
    request = job_profile.request
    reservations = [
        _soonest(job_profile, board, request.devices // hosts, hosts)
        for hosts in range(1, max(1, request.task.hosts) + 1)
        if request.devices % hosts == 0
    ]
    return min(
        (reservation for reservation in reservations if reservation is not None),
        key=_when,
        default=None,
    )


def _when(reservation: Reservation) -> float:
    return reservation.when


def _soonest(profile: Profile, board: Board, each: int, hosts: int) -> Reservation | None:
    """Return the reservation of `each` devices on each of so many hosts of one kind."""
    best: Reservation | None = None
    for kind, view in enumerate(profile.views):
        if view.code or (profile.preference_ends is not None and view.rank is None):
            continue
        ready = []
        for site in board.sites:
            if kind not in site.kinds or site.size < each:
                continue
            moments = free_at(profile, board, site, kind, each)
            if len(moments) >= each and not math.isinf(moments[each - 1]):
                ready.append((moments[each - 1], site.place, moments))
        if len(ready) < hosts:
            continue
        ready.sort()
        when, sites = ready[hosts - 1][0], tuple(sorted(each[1] for each in ready[:hosts]))
        if best is None or when < best.when:
            spare = min(sum(m <= when for m in moments) for _, _, moments in ready[:hosts]) - each
            name = profile.request.task.name
            best = Reservation(profile.request.job, name, when, kind, sites, max(0, spare))
    return best


def free_at(profile: Profile, board: Board, site: Site, kind: int, count: int) -> list[float]:
    """Return when each device of a kind on a host can be had, soonest first; none where the job
    may not have `count` there."""
    if profile.picky and host_code(profile, board, site, count):
        return []
    now = profile.now
    moments: list[float] = []
    for cell in site.held:
        holder = cell.holder
        if cell.kind == kind and not cell.fault and holder is not None:
            end = holder.ends_at
            if end is None or end <= now:
                end = expected_end(holder, now)
            if cell.guest is not None:
                end = max(end, expected_end(cell.guest, now))
            # What else is held there stays: only memory that the leaving job held comes free.
            if len(cell.spots) == 1:
                moments.append(end)
            else:
                moments += [end] * len(cell.spots)
    for cell in site.cells.values() if site.free.get(kind) else ():
        if cell.kind == kind and not cell.fault and cell.shelf is not None:
            moments += [now] * (0 if cell_code(profile, cell.shelf) else len(cell.spots))
    moments.sort()
    return moments
