"""The best place for one job on a board: whole devices first, then a shared one where allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from gpuconsole.core.services import SERVICE
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine.board import Board, Cell, Shelf, Site, Spot
from gpuconsole.placement.engine.expected_end import expected_end
from gpuconsole.placement.engine.job_profile import PERMANENT, Profile, site_code
from gpuconsole.placement.engine.place_value import Worth, need_of
from gpuconsole.placement.engine.ranking import Ranking, Scored
from gpuconsole.placement.engine.scores import Scorer, scorer_for
from gpuconsole.placement.engine.topology import closest, link_quality

Chosen = tuple[tuple[Cell, tuple[Spot, ...]], ...]


@dataclass(frozen=True, slots=True)
class Pick:
    """Devices for a job, host by host, and what they are worth."""

    chosen: Chosen
    score: float
    links: float = 0.0
    """Mean quality of the links among the devices of the first host, 0-1."""
    shared: bool = False


def pick(profile: Profile, board: Board) -> Pick | None:
    """Return the best place for a job now, or None. A replica of a service goes to a host without
    another one where such a host will do."""
    if profile.request.task.kind != SERVICE:
        return _picked(profile, board)
    profile.apart = True
    choice = _picked(profile, board)
    profile.apart = False
    return _picked(profile, board) if choice is None else choice


def _picked(profile: Profile, board: Board) -> Pick | None:
    count = profile.request.devices
    if count > 1:
        return _several(profile, board, count)
    choice = _one(profile, board)
    return _shared(profile, board) if choice is None and profile.policy.sharing else choice


def cell_code(profile: Profile, shelf: Shelf) -> str:
    """Return the filter by which a free cell will not do, or "". Asked in this order, so that what
    waiting cannot lift comes first."""
    view = profile.views[shelf.kind]
    if view.code:
        return view.code
    if not shelf.empty and (code := profile.empty_only):
        return code
    need = profile.request.need_mib
    if need is not None and need > shelf.spare_mib:
        return "held"
    if profile.preference_ends is not None and view.rank is None:
        return "preferred"
    return ""


def host_code(profile: Profile, board: Board, site: Site, count: int) -> str:
    """Return the filter by which a host will not do for `count` devices of this job, or ""."""
    if code := site_code(profile, site.host):
        return code
    if profile.shun(site.host.name) is not None:
        return "aside"
    if profile.home is not None and site.place != profile.home:
        return "quota"
    if profile.apart and profile.has_replica(site):
        return "replica"
    user = profile.request.user
    own = sum(len(c.spots) for c in site.held if c.holder is not None and c.holder.user == user)
    ruling = profile.rules.host(profile.request, site.host, own, count)
    return "" if ruling is None else ruling.code


def fitting_hosts(profile: Profile, board: Board) -> frozenset[str]:
    """Return the hosts that could run a job, or their part of it, were they free and well."""
    least, names = profile.request.least_on_host, set()
    for site in board.sites:
        cells = (*site.cells.values(), *site.held)
        sizes = Counter(spot.kind for cell in cells for spot in cell.spots)
        able = any(size >= least and not profile.views[kind].code for kind, size in sizes.items())
        drained = site.host.drained and site.host.aside is None
        if able and not drained and host_code(profile, board, site, least) not in PERMANENT:
            names.add(site.host.name)
    return frozenset(names)


def allowed(profile: Profile, board: Board, shelf: Shelf, count: int) -> bool:
    """Tell whether a job leaves the first blocked job its devices."""
    reservation = board.reservation
    if not shelf.reserved or reservation is None:
        return True
    seconds = profile.request.run_time_s
    if seconds is not None and profile.now + seconds <= reservation.when:
        return True
    return count <= reservation.spare


def suitable(
    profile: Profile, board: Board, count: int
) -> Iterator[tuple[Shelf, list[Cell] | None]]:
    """Yield shelves with `count` devices in a cell; the cells too where hosts must be asked."""
    picky = profile.picky
    for shelf in list(board.shelves()):
        if (
            shelf.free < count
            or cell_code(profile, shelf)
            or not allowed(profile, board, shelf, count)
        ):
            continue
        if not picky:
            yield shelf, None
        elif cells := [c for c in board.on(shelf) if not host_code(profile, board, c.site, count)]:
            yield shelf, cells


def _one(profile: Profile, board: Board) -> Pick | None:
    if (ranking := _ranking(profile, board, 1)) is not None:
        return _highest(profile, board, 1, ranking)
    return one_of_all(profile, board)


def one_of_all(profile: Profile, board: Board) -> Pick | None:
    """Return the best place for one device by a look at all shelves."""
    scorer = scorer_for(profile, board, 1)
    best: tuple[float, int] | None = None
    chosen: Cell | None = None
    for shelf, cells in suitable(profile, board, 1):
        score = scorer.score(shelf)
        if best is not None and score < best[0]:
            continue
        cell = board.first(shelf) if cells is None else cells[0]
        if best is None or score > best[0] or cell.order < best[1]:
            best, chosen = (score, cell.order), cell
    if chosen is None or best is None:
        return None
    return Pick(((chosen, (chosen.spots[0],)),), best[0])


def best_single(profile: Profile, board: Board, most: int) -> list[Pick]:
    """Return the best places for one device; looks only at shelves that can be among them."""
    scorer = scorer_for(profile, board, 1)
    shelves = [(scorer.score(shelf), shelf, cells) for shelf, cells in suitable(profile, board, 1)]
    shelves.sort(key=lambda each: -each[0])
    picks: list[Pick] = []
    for score, shelf, cells in shelves:
        if len(picks) >= most and score < picks[most - 1].score:
            break
        standing = board.in_turn(shelf) if cells is None else iter(cells)
        picks += [Pick(((cell, (cell.spots[0],)),), score) for cell in islice(standing, most)]
        picks.sort(key=rank)
        del picks[most:]
    return picks


def _ranking(profile: Profile, board: Board, count: int) -> Ranking[Cell] | None:
    """Return what finds the best cell where many differ; None where a look at all shelves is as
    fast, or where the score depends on more than the place and the job."""
    if not board.various or profile.policy.learned is not None:
        return None
    return board.ranking(
        ("cells", *_likeness(profile, count)),
        lambda: Ranking(Worth(profile, board, count, _links(profile, board, count)).cells),
    )


def _likeness(profile: Profile, count: int) -> tuple[object, ...]:
    """Return what jobs have in common to which each place adds the same."""
    policy = profile.policy
    weights = tuple(policy.weights.items())
    return (
        count,
        profile.request.devices,
        weights,
        policy.memory_threshold,
        tuple(policy.mix.items()),
    )


def _links(profile: Profile, board: Board, count: int) -> dict[int, float]:
    """Return what the best link between devices of each kind adds to the score."""
    weight = max(0.0, profile.policy.weights.get("links", 0.0))
    if count == 1 or not board.linked or not weight:
        return {}
    return {kind: weight * _nearest(board, kind) for kind in range(len(board.kinds))}


def _highest(profile: Profile, board: Board, count: int, ranking: Ranking[Cell]) -> Pick | None:
    """Return the best cell, with the closest of its devices."""
    scorer = scorer_for(profile, board, count)
    weight = scorer.weights["links"] if board.linked else 0.0
    picky = profile.picky

    def scored(cell: Cell) -> Scored[Pick] | None:
        shelf = cell.shelf
        assert shelf is not None
        if cell_code(profile, shelf) or not allowed(profile, board, shelf, count):
            return None
        if picky and host_code(profile, board, cell.site, count):
            return None
        score = scorer.score(shelf)
        if count == 1:
            return score, cell.order, True, Pick(((cell, (cell.spots[0],)),), score)
        spots, links = _closest(cell, count)
        total = round(score + weight * links, 9)
        highest = not weight or links >= _nearest(board, cell.kind)
        return total, spots[0].order, highest, Pick(((cell, spots),), total, links)

    return ranking.best(need_of(profile, scorer), scored)


def _several(profile: Profile, board: Board, count: int) -> Pick | None:
    if board.has_room(profile.able, count) and (choice := _on_one_host(profile, board, count)):
        return choice
    for hosts in range(2, profile.request.task.hosts + 1):
        if count % hosts == 0 and (gang := _gang(profile, board, count // hosts, hosts)):
            return gang
    return None


def _on_one_host(profile: Profile, board: Board, count: int) -> Pick | None:
    if (ranking := _ranking(profile, board, count)) is not None:
        return _highest(profile, board, count, ranking) or _mixed_of_ranking(profile, board, count)
    picks = best_linked(profile, board, count, 1) or mixed_of_all(profile, board, count)
    return picks[0] if picks else None


def best_linked(profile: Profile, board: Board, count: int, most: int) -> list[Pick]:
    """Return the best cells that hold `count` devices, with the closest of their devices.

    Links are looked at cell by cell, for as long as perfect ones could still bring a shelf among
    the best.
    """
    scorer = scorer_for(profile, board, count)
    weight = scorer.weights["links"] if board.linked else 0.0
    shelves = [
        (scorer.score(shelf), shelf, cells) for shelf, cells in suitable(profile, board, count)
    ]
    shelves.sort(key=lambda each: -each[0])
    picks: list[Pick] = []
    for score, shelf, cells in shelves:
        if len(picks) >= most and score + weight < picks[most - 1].score:
            break
        standing = board.in_turn(shelf) if cells is None else iter(cells)
        top, best_possible = 0, _nearest(board, shelf.kind) if weight else 0.0
        for cell in standing if weight else islice(standing, most):
            spots, links = _closest(cell, count)
            total = round(score + weight * links, 9)
            picks.append(Pick(((cell, spots),), total, links))
            top += links >= best_possible
            if top == most:
                break
        picks.sort(key=rank)
        del picks[most:]
    return picks


def _nearest(board: Board, kind: int) -> float:
    """Return the best link that any two devices of a kind have: no cell can do better."""
    if kind not in board.nearest:
        kinds = {
            peer.kind
            for site in board.sites
            if kind in site.kinds
            for device in site.host.devices
            for peer in device.peers
        }
        board.nearest[kind] = max(map(link_quality, kinds), default=0.0)
    return board.nearest[kind]


def _closest(cell: Cell, count: int) -> tuple[tuple[Spot, ...], float]:
    """Return the closest devices of a cell, worked out again only where it has changed."""
    if count not in cell.closest:
        cell.closest[count] = closest(cell.spots, count)
    return cell.closest[count]


def rank(pick: Pick) -> tuple[float, int]:
    """Sort key: the best score first, equals in the order of the inventory."""
    return -pick.score, pick.chosen[0][1][0].order


def mixed_of_all(profile: Profile, board: Board, count: int) -> list[Pick]:
    """Return the best host with enough devices of one kind only if those that others use are
    counted."""
    scorer = scorer_for(profile, board, count)
    picks: list[Pick] = []
    for place in board.crowded:
        site = board.sites[place]
        if profile.picky and host_code(profile, board, site, count):
            continue
        for kind, free in site.free.items():
            if free >= count and kind in profile.able:
                pick = _mixture(profile, board, scorer, site, kind)
                picks += [pick] if pick is not None else []
    return sorted(picks, key=rank)[:1]


def _mixed_of_ranking(profile: Profile, board: Board, count: int) -> Pick | None:
    """Return the same by a ranking of the hosts."""
    worth = Worth(profile, board, count, {})
    ranking = board.ranking(("mixed", *_likeness(profile, count)), lambda: Ranking(worth.mixtures))
    if ranking is None:
        return next(iter(mixed_of_all(profile, board, count)), None)
    scorer = scorer_for(profile, board, count)
    picky = profile.picky

    def scored(place: tuple[Site, int]) -> Scored[Pick] | None:
        site, kind = place
        if picky and host_code(profile, board, site, count):
            return None
        choice = _mixture(profile, board, scorer, site, kind)
        return None if choice is None else (choice.score, rank(choice)[1], True, choice)

    return ranking.best(need_of(profile, scorer, whole=False), scored)


def _mixture(profile: Profile, board: Board, scorer: Scorer, site: Site, kind: int) -> Pick | None:
    """Return devices of one kind from several cells of a host, where they are enough."""
    count = scorer.count
    cells = [
        cell
        for cell in site.cells.values()
        if cell.kind == kind and cell.shelf is not None
        and not cell_code(profile, cell.shelf)
        and allowed(profile, board, cell.shelf, count)
    ]  # fmt: skip
    if sum(len(cell.spots) for cell in cells) < count:
        return None
    return _together(scorer, cells, count)


def _together(scorer: Scorer, cells: Sequence[Cell], count: int) -> Pick:
    """Take devices cell by cell, idle ones first; the busiest of them is what counts."""
    left, chosen, last = count, [], cells[0]
    for cell in sorted(cells, key=lambda cell: (-cell.idle, cell.order)):
        if left:
            chosen.append((cell, tuple(cell.spots[:left])))
            left -= len(chosen[-1][1])
            last = cell
    assert last.shelf is not None
    return Pick(tuple(chosen), scorer.score(last.shelf))


def _gang(profile: Profile, board: Board, each: int, hosts: int) -> Pick | None:
    """Return the best hosts of one kind with `each` devices free on each of them."""
    by_kind: dict[int, list[Pick]] = {}
    for choice in best_linked(profile, board, each, len(board.sites)):
        by_kind.setdefault(choice.chosen[0][0].kind, []).append(choice)
    best: Pick | None = None
    for picks in by_kind.values():
        apart = list(
            {choice.chosen[0][0].site.place: choice for choice in reversed(picks)}.values()
        )
        apart.sort(key=rank)
        if len(apart) < hosts:
            continue
        parts = apart[:hosts]
        parts.sort(key=lambda part: part.chosen[0][1][0].order)
        chosen = tuple(place for part in parts for place in part.chosen)
        whole = Pick(chosen, sum(part.score for part in parts) / hosts, parts[0].links)
        if best is None or rank(whole) < rank(best):
            best = whole
    return best


def _shared(profile: Profile, board: Board) -> Pick | None:
    """Return the device with a sharing holder that has the most memory left."""
    request = profile.request
    if not request.task.share or request.need_mib is None or request.task.exclusive:
        return None
    best: Pick | None = None
    for site in board.sites:
        for cell in site.held:
            if shared_code(profile, board, cell) or _delays(profile, board, cell):
                continue
            if profile.picky and host_code(profile, board, site, 1):
                continue
            assert cell.holder is not None
            left = profile.views[cell.kind].limit_mib or 0.0
            score = (left - (cell.holder.need_mib or 0.0) - request.need_mib) / 1024.0
            choice = Pick(((cell, (cell.spots[0],)),), round(score, 9), shared=True)
            if best is None or rank(choice) < rank(best):
                best = choice
    return best


def _delays(profile: Profile, board: Board, cell: Cell) -> bool:
    """Tell whether a guest could keep a device beyond the time for which it is reserved."""
    reservation = board.reservation
    if (
        reservation is None
        or cell.kind != reservation.kind
        or cell.site.place not in reservation.sites
    ):
        return False
    seconds = profile.request.run_time_s
    assert cell.holder is not None
    until = max(reservation.when, expected_end(cell.holder, profile.now))
    return seconds is None or profile.now + seconds > until


def shared_code(profile: Profile, board: Board, cell: Cell) -> str:
    """Return "" when a held device may take the job beside its holder, else why not: `leased`
    where they do not share, `memory` or `utilization` where both together are too much."""
    holder, view, request = cell.holder, profile.views[cell.kind], profile.request
    if holder is None or cell.guest is not None or cell.fault:
        return "leased"
    if not (holder.share and request.task.share):
        return "leased"
    if view.code or request.devices != 1 or sum(len(c.spots) for c in board.held[holder.job]) != 1:
        return "leased"
    if holder.need_mib is None or request.need_mib is None or view.limit_mib is None:
        return "memory"
    if cell.spots[0].spare_mib is None:
        return "memory"
    if holder.need_mib + request.need_mib > view.limit_mib:
        return "memory"
    if holder.utilization is None or request.utilization is None:
        return "utilization"
    return "utilization" if holder.utilization + request.utilization > 100.0 else ""
