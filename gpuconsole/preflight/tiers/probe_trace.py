"""The probe's recordings of one script at several batch sizes, as one trace of any batch size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest
from math import ceil, log, prod
from typing import Any, TypeVar

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.batch_sizes import MOST_BATCH
from gpuconsole.preflight.memory.trace import AffineTrace, Kind, Trace

T = TypeVar("T")

WAITING = "waiting"
_KINDS = ("", "parameters", "gradients", "optimizer", "inputs", WAITING)
"""Kinds of blocks as the probe numbers them; nothing known means an activation."""
MOST_VARIED = 0.02
"""Share by which the elements of the batches of one run may differ, where each run is at the batch
size that it is asked about: labels in two forms beside pictures of one size."""
MOST_UNMATCHED = 0.01
"""Share of the blocks' bytes that two runs may differ in before they count as two programs."""
MOST_ALIGNED = 6000
"""Longest stretch, in blocks, that is aligned where two runs differ: a bound on time."""
MOST_COMPARED = 2_000_000
"""The same for pairs of blocks of one name in two such stretches: aligning looks at each of them,
several times."""
QUADRATIC = log(3.5) / log(2)
"""A block that grows faster than this power of the batch is one of pairs of samples: with the
batch doubled, `b - 1` at most triples from two samples on, `b * b` takes four times as much."""
MOST_EVENTS = 4_000_000
MOST_BYTES = 2**44
"""No block has 16 TiB; a larger figure is none."""
USUAL_QUEUED, USUAL_BUFFERED = 2, 2
"""`prefetch_factor` and `reader_buffer_size` of a loader of Paddle 3.3.1 that names none."""
MOST_AHEAD = 10_000
"""Batches that a reader holds ready, at most; a larger figure is none."""
MOST_COUNT = MOST_BATCH
"""The largest length of an axis and number of samples."""


class Unusable(Exception):  # noqa: N818 - an answer for people, not a mistake
    """The recordings do not tell the memory at other batch sizes; says why."""


class OtherProgram(Unusable):
    """With another batch size the script does something else, such as a step for each sample."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recording."""

    batch: int
    events: tuple[int, ...]
    cycles: tuple[int, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    """The kernel in which each block was born; "" outside of kernels."""
    kinds: tuple[str, ...]
    inside: frozenset[int]
    """Blocks that were born and gave back within one kernel."""
    shapes: tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]
    """Shapes of the tensors of each batch fetched, by reader."""
    readers: tuple[Mapping[str, int | None], ...]
    waits: tuple[tuple[int, int | None], ...]
    """For each block of waiting batches the place of its reader, and how many of them there are at
    most where the reader has fewer left than it holds ready."""
    widest_conv: int
    flags: frozenset[str]
    trained: bool
    fixed: bool = False
    """Whether it ran with the script's own batch size, and can with no other; `batch` is 0 where
    that has no number."""


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a block as a function of the batch size."""

    fixed: float
    linear: float
    square: float = 0.0

    def at(self, batch: int) -> int:
        """Return the bytes, rounded up."""
        return max(0, ceil(self.fixed + batch * (self.linear + batch * self.square)))


def read_run(data: Mapping[str, Any]) -> Run:
    """Read one recording; ValueError when it is not one."""
    try:
        words, numbers = data["names"], data["name"]
        run = Run(
            batch=_whole(data["batch"], MOST_BATCH),
            events=tuple(map(int, data["events"])),
            cycles=tuple(map(int, data["cycles"])),
            sizes=tuple(_whole(size, MOST_BYTES) for size in data["sizes"]),
            names=tuple(str(words[number]) for number in numbers),
            kinds=tuple(_KINDS[kind] for kind in data["kind"]),
            inside=frozenset(map(int, data["inside"])),
            shapes=_shapes(data["shapes"]),
            readers=tuple(map(_reader, data["readers"])),
            waits=_waits(data.get("waits"), len(data["readers"])),
            widest_conv=_whole(data["widest_conv"], MOST_BYTES),
            flags=frozenset(map(str, data["flags"])),
            trained=bool(data["trained"]),
            fixed=bool(data.get("fixed", False)),
        )
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a recording: {error!r}") from None
    count = len(run.sizes)
    whole = len(run.names) == len(run.kinds) == count
    if not whole or len(run.events) > MOST_EVENTS or run.batch < (0 if run.fixed else 1):
        raise ValueError("not a recording: its lists do not go together")
    if any(not -count <= event < count for event in run.events):
        raise ValueError("not a recording: an event of no block")
    return run


def _whole(value: object, most: int) -> int:
    """Return a whole number from 0 to `most`; ValueError for any other, which JSON may hold too."""
    number = int(value) if isinstance(value, (int, float, str)) else -1
    if not 0 <= number <= most:
        raise ValueError("not a recording: a figure out of bounds")
    return number


def _waits(
    said: Iterable[tuple[object, object]] | None, readers: int
) -> tuple[tuple[int, int | None], ...]:
    """Return how batches wait; in records before that said so, each reader has one block."""
    if said is None:
        return tuple((place, None) for place in range(readers))
    return tuple(
        (_whole(reader, MOST_COUNT), None if left is None else _whole(left, MOST_AHEAD))
        for reader, left in said
    )


def _reader(data: Mapping[str, object]) -> dict[str, int | None]:
    samples, batches = data.get("samples"), data.get("batches")
    return {
        "samples": None if samples is None else _whole(samples, MOST_COUNT),
        "batches": None if batches is None else _whole(batches, MOST_COUNT),
        "queued": _whole(data.get("queued", USUAL_QUEUED), MOST_AHEAD),
        "buffered": _whole(data.get("buffered", USUAL_BUFFERED), MOST_AHEAD),
    }


def _shapes(
    data: Iterable[Iterable[Iterable[Iterable[object]]]],
) -> tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]:
    return tuple(
        tuple(tuple(_shape(shape) for shape in batch) for batch in reader) for reader in data
    )


def _shape(data: Iterable[object]) -> tuple[int, ...]:
    # A length that a program leaves open is -1.
    return tuple(-1 if length == -1 else _whole(length, MOST_COUNT) for length in data)


@dataclass(frozen=True, slots=True)
class Ahead:
    """By how many batches a reader holds more ready than one that is made without further words."""

    queued: int = 0
    """More in the queue of its thread, on the host."""
    buffered: int = 0
    """More that are copied to the device."""

    def waiting(self, usual: int, *, host: bool) -> int:
        """Return the batches that it holds ready; those queued count where the host's memory is
        what is counted."""
        return max(0, usual + self.buffered + (self.queued if host else 0))


@dataclass(frozen=True, slots=True)
class Recording:
    """Blocks with sizes that are functions of the batch size, in the order of the larger run."""

    run: Run
    sizes: tuple[Size, ...]
    conv: Size
    samples: tuple[Size | None, ...] = ()
    """How many samples an epoch of each reader has, None if unknown. Some scripts make
    their data as long as so many batches."""
    ahead: tuple[Ahead, ...] = ()
    """What each reader holds ready beyond the usual."""
    widths: tuple[Size | None, ...] = ()
    """How many samples a batch of each reader has where that is not the batch size that is trained
    with: loaders that evaluate may have a size of their own."""

    @property
    def ends(self) -> bool:
        """Whether a reader may run out of batches to hold ready."""
        return any(sample is not None for sample in self.samples)

    def trace(self, batch: int, waiting: int, *, kernels: bool) -> Trace:
        """Return the trace at a batch size.

        `waiting` batches are held ready by each reader that says no more; `kernels` keeps what
        lives only within a kernel, as the CPU's kernels need it.
        """
        run = self.run
        waits = iter(run.waits)
        sizes: list[int] = []
        kinds: list[Kind] = []
        for place, kind in enumerate(run.kinds):
            size = self.sizes[place].at(batch)
            if kind == WAITING:
                reader, left = next(waits, (len(self.ahead), None))
                held = self._held(reader, left, waiting, host=kernels)
                samples, width = _at(self.samples, reader), _at(self.widths, reader)
                size *= ready(samples, batch, held, None if width is None else width.at(batch))
            elif not kernels and place in run.inside:
                size = 0
            sizes.append(size)
            kinds.append(_kind(kind, place in run.inside))
        return Trace(run.events, sizes, kinds)

    def _held(self, reader: int, left: int | None, usual: int, *, host: bool) -> int:
        """Return how many batches wait in a reader that has so many left, None if enough."""
        held = (_at(self.ahead, reader) or Ahead()).waiting(usual, host=host)
        return held if left is None else min(held, left)

    def line(self, waiting: int, *, kernels: bool) -> AffineTrace | None:
        """Return the trace as exact lines, None where some block is not one."""
        run = self.run
        fixed: list[int] = []
        slopes: list[int] = []
        waits = iter(run.waits)
        for place, size in enumerate(self.sizes):
            if size.square or size.fixed % 1 or size.linear % 1 or size.fixed < 0:
                return None
            times = 1
            if run.kinds[place] == WAITING:
                reader, left = next(waits, (len(self.ahead), None))
                times = self._held(reader, left, waiting, host=kernels)
            if not kernels and place in run.inside:
                times = 0
            fixed.append(int(size.fixed) * times)
            slopes.append(int(size.linear) * times)
        kinds = [_kind(kind, place in run.inside) for place, kind in enumerate(run.kinds)]
        return AffineTrace(run.events, fixed, slopes, kinds)


def _at(of_readers: Sequence[T | None], reader: int) -> T | None:
    """Return what a reader has, None where nothing is recorded of it."""
    return of_readers[reader] if reader < len(of_readers) else None


def constant(run: Run) -> Recording:
    """Return a run as a recording that is the same at every batch size."""
    sizes = tuple(Size(size, 0.0) for size in run.sizes)
    samples = tuple(
        None if reader["samples"] is None else Size(reader["samples"], 0.0)
        for reader in run.readers
    )
    return Recording(
        run, sizes, Size(run.widest_conv, 0.0), samples, _ahead(run), _widths(run, run)
    )


def for_all_sizes(whole: Recording, small: Run) -> Recording:
    """Return a recording of two runs for batch sizes beside theirs: where fewer and fewer batches
    are left they end an epoch elsewhere, and each reader has as many ready as it holds."""
    run = whole.run
    if small.waits == run.waits:
        return whole
    return replace(whole, run=replace(run, waits=tuple((reader, None) for reader, _ in run.waits)))


def ready(samples: Size | None, batch: int, waiting: int, width: int | None = None) -> int:
    """Return how many batches a reader holds ready beside the current one; `width` is how many
    samples each has, `batch` where that is not its own."""
    if samples is None:
        return waiting
    return max(0, min(waiting, ceil(samples.at(batch) / max(1, width or batch)) - 1))


def _widths(small: Run, large: Run) -> tuple[Size | None, ...]:
    widths: list[Size | None] = []
    for few, many in zip_longest(small.readers, large.readers):
        if few is None or many is None:
            widths.append(None)
            continue
        before, after = _width(few, small.batch), _width(many, large.batch)
        own = before is not None or after is not None
        sizes = before or small.batch, after or large.batch
        widths.append(grown(small.batch, sizes[0], large.batch, sizes[1]) if own else None)
    return tuple(widths)


def _width(reader: Mapping[str, int | None], batch: int) -> int | None:
    """Return how many samples a batch of a reader has in a run; None if so many batches of the
    run's own size make up its epoch, or it is unknown."""
    samples, batches = reader["samples"], reader["batches"]
    if not samples or not batches:
        return None
    if batch and samples // batch <= batches <= ceil(samples / batch):
        return None
    return ceil(samples / batches)


def _in_one_batch(reader: Mapping[str, int | None], batch: int) -> bool:
    """Tell whether all samples of a reader are in one batch of a size: none has more of them."""
    return reader["batches"] == 1 and 0 < (reader["samples"] or 0) <= batch


def _ahead(run: Run) -> tuple[Ahead, ...]:
    return tuple(
        Ahead((reader["queued"] or 0) - USUAL_QUEUED, (reader["buffered"] or 0) - USUAL_BUFFERED)
        for reader in run.readers
    )


def _samples(small: Run, large: Run) -> tuple[Size | None, ...]:
    sizes: list[Size | None] = []
    for few, many in zip_longest(small.readers, large.readers):
        # One epoch more or less in a run says nothing of its samples.
        before, after = (few or many)["samples"], (many or few)["samples"]
        if before is None or after is None:
            sizes.append(None)
        else:
            sizes.append(grown(small.batch, before, large.batch, after))
    return tuple(sizes)


def _kind(kind: str, inside: bool) -> Kind:
    if kind == WAITING:
        return "inputs"
    if kind:
        return kind  # type: ignore[return-value]
    return "workspace" if inside else "activations"


def combine(small: Run, large: Run, *, exact: bool = False) -> Recording:
    """Return one recording of two batch sizes; Unusable says why they do not make one.

    `exact` runs are of the batch sizes that are asked about, so that the shapes of their batches
    need not tell those of others.
    """
    for run in (small, large) if exact else ():
        require_little_varied(run)
    if not exact:
        _check_shapes(small, large)
    partner = _partners(small, large)
    sizes: list[Size] = []
    lost = 0
    for place, size in enumerate(large.sizes):
        other = partner[place]
        if other is None:
            lost += size
            sizes.append(Size(size, 0.0))
        else:
            sizes.append(grown(small.batch, small.sizes[other], large.batch, size))
    if lost > MOST_UNMATCHED * max(1, sum(large.sizes)):
        raise OtherProgram(
            f"the script does something else with {large.batch} samples than with {small.batch}: "
            "its operators depend on the data"
        )
    unchanged = all(not (size.linear or size.square) for size in sizes)
    if unchanged and not any(_in_one_batch(reader, small.batch) for reader in small.readers):
        raise Unusable("the batch size that was put in changes nothing in the script's memory")
    conv = grown(small.batch, small.widest_conv, large.batch, large.widest_conv)
    return Recording(
        large, tuple(sizes), conv, _samples(small, large), _ahead(large), _widths(small, large)
    )


def grown(few: int, small: int, many: int, large: int) -> Size:
    """Return the size of a block that has `small` bytes at `few` samples, `large` at `many`."""
    if large <= small:
        # What shrinks with the batch is held at the most that was seen.
        return Size(small, 0.0)
    if small and log(large / small) / log(many / few) >= QUADRATIC:
        square = (large / many - small / few) / (many - few)
        return Size(0.0, small / few - square * few, square)
    slope = (large - small) / (many - few)
    return Size(small - slope * few, slope)


def _partners(small: Run, large: Run) -> list[int | None]:
    """Return for each block of the larger run the one of the smaller run that it is."""
    if small.names == large.names and small.events == large.events:
        return list(range(len(large.sizes)))
    partner: list[int | None] = [None] * len(large.sizes)
    left, right = _stretches(small), _stretches(large)
    for ours, theirs in zip(left, right, strict=False):
        for first_block, other in _aligned(
            [small.names[i] for i in ours], [large.names[i] for i in theirs]
        ):
            partner[theirs[other]] = ours[first_block]
    return partner


def _stretches(run: Run) -> list[list[int]]:
    """Return the blocks born in each cycle."""
    ends = [0, *run.cycles, len(run.events)]
    return [[event for event in run.events[a:b] if event >= 0] for a, b in pairwise(ends)]


def _aligned(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of places that go together in two nearly equal lists."""
    least = min(len(left), len(right))
    head = next((i for i in range(least) if left[i] != right[i]), least)
    tail = next((i for i in range(least - head) if left[-1 - i] != right[-1 - i]), least - head)
    pairs = [(i, i) for i in range(head)]
    pairs += [(len(left) - 1 - i, len(right) - 1 - i) for i in range(tail)]
    middle = left[head : len(left) - tail], right[head : len(right) - tail]
    short = all(middle) and max(map(len, middle)) <= MOST_ALIGNED
    if short and _compared(*middle) <= MOST_COMPARED:
        matcher = SequenceMatcher(None, *middle, autojunk=False)
        for a, b, length in matcher.get_matching_blocks():
            pairs += [(head + a + i, head + b + i) for i in range(length)]
    return pairs


def _compared(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many pairs of places in two lists have one name."""
    ours, theirs = Counter(left), Counter(right)
    return sum(count * theirs[name] for name, count in ours.items())


def _check_shapes(small: Run, large: Run) -> None:
    """Raise Unusable when the shapes of the batches differ by more than the batch size."""
    for ours, theirs in zip(small.shapes, large.shapes, strict=False):
        for run, batches in ((small, ours), (large, theirs)):
            for batch in _unlike(run, batches):
                raise Unusable(_changing(batches[0], batch))
        if ours and theirs:
            for first, other in zip(ours[0], theirs[0], strict=False):
                if not _scaled(first, other, small.batch, large.batch):
                    raise Unusable(_changing(ours[0], theirs[0]))


Shapes = Sequence[tuple[int, ...]]


def varies(run: Run) -> bool:
    """Tell whether the shapes of a run's batches change from one to the next."""
    return any(True for batches in run.shapes for _ in _unlike(run, batches))


def require_little_varied(run: Run) -> None:
    """Raise Unusable where the batches of a run differ in size by more than `MOST_VARIED`."""
    for batches in run.shapes:
        for batch in _unlike(run, batches):
            sizes = _elements(batches[0]), _elements(batch)
            if max(sizes) - min(sizes) > MOST_VARIED * max(sizes):
                raise Unusable(_changing(batches[0], batch))


def _unlike(run: Run, batches: Sequence[Shapes]) -> Iterator[Shapes]:
    """Yield the batches of a reader in a run that are not like its first, nor what an epoch ends
    with."""
    for batch in batches[1:]:
        rest = batch is batches[-1] and _is_rest(run, batches)
        if not rest and not _alike(batches[0], batch, run.batch):
            yield batch


def _is_rest(run: Run, batches: Sequence[Shapes]) -> bool:
    """Tell whether the last batch of a reader is what its full ones leave of a data set: so many
    samples in each tensor, of shapes that are alike otherwise."""
    first, last = batches[0], batches[-1]
    if len(first) != len(last) or not all(first) or not all(last):
        return False
    pairs = {(full[0], rest[0]) for full, rest in zip(first, last, strict=True)}
    alike = all(full[1:] == rest[1:] for full, rest in zip(first, last, strict=True))
    if not alike or len(pairs) != 1:
        return False
    full_samples, rest_samples = pairs.pop()
    whole = (len(batches) - 1) * full_samples + rest_samples
    return any(
        reader["samples"] == whole and reader["batches"] == len(batches) for reader in run.readers
    )


def _elements(batch: Shapes) -> int:
    return sum(prod(shape) for shape in batch)


def _alike(first: Shapes, batch: Shapes, size: int) -> bool:
    """Tell whether a batch has the shapes of the first, or is an epoch's shorter last one."""
    if len(first) != len(batch):
        return False
    return all(
        expected_block == other
        or (expected_block[1:] == other[1:] and other[0] < expected_block[0] == size)
        for expected_block, other in zip(first, batch, strict=True)
    )


def _scaled(small: tuple[int, ...], other: tuple[int, ...], few: int, many: int) -> bool:
    return len(small) == len(other) and all(
        a == b or a * many == b * few for a, b in zip(small, other, strict=True)
    )


def _changing(first: Shapes, other: Shapes) -> str:
    before, after = next((a, b) for a, b in zip_longest(first, other, fillvalue=()) if a != b)
    return (
        "the shapes of its batches change from one to the next "
        f"({list(before)}, then {list(after)}): "
        "memory depends on the longest"
    )
