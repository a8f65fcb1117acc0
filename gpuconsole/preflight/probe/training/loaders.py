"""Loaders without threads or workers: the same batches, fetched when they are asked for.

What a device would see of a loader are its batches; samples are made and gone in between. The
batches that a reader keeps ready are added by the reader of the recording.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import math
import opcode
import operator
import sys
import time
import weakref
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, cast

from ..notes import note
from . import batch_size, collation, seeding, watched_loops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType, ModuleType
    from typing import TypeVar

    from paddle.io import DataLoader, Dataset

    from ..documents import Reader
    from .hooks import Session

    T = TypeVar("T")
    Taken = Callable[["Lazy"], "list[object]"]
    """Makes a list of the samples of a batch."""

FIRST, LATER = 8, 2
"""Samples of a batch that are looked at, of the first batch and of later ones, to tell if all are
of one form."""
SMALL = 16
"""Samples of a batch in which labels may decide what is done with it, as those of detectors do."""
FETCHED, SOON = 1_000_000, 150_000
"""Work for the samples of a small batch, and of a larger one, that are all fetched; of more the
first are, and copies fill the rest. A unit is a call, or so many numbers of a sample as `NUMBERS`:
an idle processor does about a million in a second."""
NUMBERS = 30
VALUED = 65_536
"""Elements of the largest tensor with values that are known: `meta.values.known.MOST`."""
LONGEST_S = 20.0
"""Processor time for the samples of a batch in any case: what samples do beyond their calls is not
counted."""
LOOKED, AGAIN = 24, 2
"""Samples that are looked at over a whole data set, to tell if they differ in size, and in a later
epoch to tell if they are as they were."""
SLIGHT = 16
"""Characters by which texts of one size may differ."""


USUAL_QUEUED, USUAL_BUFFERED = 2, 2
"""`prefetch_factor` and `reader_buffer_size` of a loader that names none."""
MOST_AHEAD = 10_000
"""Batches held ready, at most."""
LEFT = (
    "Epochs are left before their end: Paddle keeps the batches that their readers had ready, {0} "
    "with each such epoch, for as long as the script runs; {1} were seen."
)


def install(paddle: ModuleType, session: Session) -> None:
    """Give every loader of the dynamic graph an iterator of ours."""
    cls = paddle.io.DataLoader
    old_init, old_iter = cls.__init__, cls.__iter__
    signature = inspect.signature(old_init)
    numbers = itertools.count(1)

    def init(self: DataLoader, *args: object, **kwargs: object) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.arguments["num_workers"] = 0
        bound.arguments.pop("persistent_workers", None)
        bound.arguments.pop("worker_init_fn", None)
        old_init(*bound.args, **bound.kwargs)
        session.unread.add(self)

    def iterate(self: DataLoader) -> Watched:
        sparing: Taken = list
        if session.sparing:
            sparing = Largest(Sparing(vars(self).setdefault(_FETCHING, session.fetching())),
                              session.flags)  # fmt: skip
            # The loader itself would stay in a cycle.
            alive = weakref.ref(self)
            sparing.fetching.keeps = lambda: session.keeps_batches(vars(alive()).get(_FAMILY, 0))
        if paddle.in_dynamic_mode():
            inner = batches(paddle, self, sparing)
        elif session.sparing:
            inner = for_programs(paddle, self, sparing)
        else:
            inner = iter(old_iter(self))
        return Watched(inner, session, numbers, self)

    cls.__init__, cls.__iter__, cls.__call__ = init, iterate, iterate


class Watched:
    """An iterator over batches that tells the session of each."""

    def __init__(
        self,
        inner: Iterator[object],
        session: Session,
        numbers: Iterator[int],
        loader: DataLoader,
    ) -> None:
        self.inner = inner
        self.session = session
        self.numbers = numbers
        self.number = next(numbers)
        self.loader = weakref.ref(loader)
        own = batch_size.own_of(loader)
        self.length: Reader = {**lengths(loader), "own": own, **ahead(loader)}
        self.taken = 0
        self.bare: list[object] = []
        family = vars(loader).setdefault(_FAMILY, self.number)
        session.family[self.number] = family
        self._begin()

    def _begin(self) -> None:
        """Open the epoch: its thread fetches the first batches before any is asked for."""
        session = self.session
        self.open = True
        session.opens(self.number)
        session.readers[self.number] = self.length
        session.begun(self.number, self.ready)
        session.open_readers[self.number] = self

    def __iter__(self) -> Iterator[object]:
        return self

    def __len__(self) -> int:
        batches = self.length["batches"]
        if batches is None:
            raise TypeError("the length of the data set is not known")
        return batches

    def __next__(self) -> object:
        session = self.session
        if is_by_hand(sys._getframe(1)):
            session.by_hand.add(self.number)
        if not session.asked(self.number):
            self.close()
            raise StopIteration
        if not self.open:
            self._begin()
        session.unread.discard(self.loader())
        self._takes()
        session.record.mark("fetch", session.record.count + 1)
        try:
            batch = next(self.inner)
        except StopIteration:
            self.close()
            raise
        finally:
            session.record.mark("fetched")
        if self.taken - 1 == self.length["batches"]:
            # More come than it was said to have.
            session.opens(self.number)
        if not isinstance(batch, (list, tuple, dict)):
            # Paddle's reader leaves a bare batch to Python's collector: the last used one stays.
            self.bare = [*self.bare[-1:], batch]
            session.leaves_used(self.loader(), batch, self.length["batches"], self.ready)
        return session.batch(self.number, batch)

    next = __next__

    def _takes(self) -> None:
        """A batch is asked for: with each of the last ones fewer wait, and none with the last."""
        self.taken += 1
        left = (self.length["batches"] or 0) - self.taken
        if 0 <= left < self.ready:
            self.session.record.mark("close", self.number)
        if 0 < left < self.ready:
            self.session.opens(self.number, left)

    def close(self) -> None:
        """The reader releases its waiting batches."""
        if self.open:
            self.open = False
            # Of an epoch that is cut the last batch would stay, as long as this is held.
            self.inner = iter(())
            self.session.record.mark("close", self.number)
            self.session.left(self.number)

    def drained(self) -> None:
        """Its epoch is taken for gone through: no batch waits, and the next that it is asked for is
        as of another reader."""
        if self.open:
            self.open = False
            self.session.record.mark("close", self.number)
            self.session.left(self.number)
            family = self.session.family[self.number]
            self.number = next(self.numbers)
            self.session.family[self.number] = family

    def __del__(self) -> None:
        if self.open and self.kept:
            self.open = False
            self.inner = iter(())
            self.session.left(self.number)
            if self.taken:
                self.session.abandoned(self.ready)
        self.close()

    @property
    def ready(self) -> int:
        """Batches that it holds ready: queued, buffered, and one in its thread's hands."""
        return self.length["queued"] + self.length["buffered"] + 1

    @property
    def kept(self) -> bool:
        """Whether it keeps them where it is left now. The thread that fills its queue refers to it,
        and waits for room for as long as there is more to put in."""
        whole = self.length["batches"]
        return whole is None or whole - self.taken >= self.ready


def is_by_hand(frame: FrameType) -> bool:
    """Tell whether code asks for a batch by a call, such as `next(reader)`, and walks over none:
    then another loop counts its batches."""
    code = frame.f_code
    if code.co_filename == watched_loops.__file__:
        return False
    return "CALL" in opcode.opname[code.co_code[frame.f_lasti]]


def ahead(loader: DataLoader) -> Reader:
    """Return how many batches a loader's readers queue and buffer. One is buffered in any case: the
    next is read as soon as one is handed out."""
    queued = getattr(loader, "prefetch_factor", USUAL_QUEUED)
    buffered = getattr(loader, "reader_buffer_size", USUAL_BUFFERED)
    if not getattr(loader, "use_buffer_reader", True):
        buffered = 1
    return {
        "queued": _held_ready(queued, USUAL_QUEUED),
        "buffered": _held_ready(buffered, USUAL_BUFFERED),
    }


def _held_ready(count: object, usual: int) -> int:
    return count if isinstance(count, int) and 0 <= count <= MOST_AHEAD else usual


def lengths(loader: DataLoader) -> Reader:
    """Return how many samples and batches an epoch has, None where that is unknown."""
    return {
        "samples": length_of(getattr(loader, "dataset", None)),
        "batches": length_of(loader),
    }


def length_of(thing: object) -> int | None:
    """Return the length of a thing, None where it tells none."""
    try:
        return len(thing) if isinstance(thing, Sized) else None
    except Exception:
        return None


def batches(paddle: ModuleType, loader: DataLoader, taken: Taken = list) -> Iterator[object]:
    """Yield the batches of a loader as tensors; `taken` makes a list of samples of a batch."""
    from paddle.io.dataloader.collate import default_collate_fn, default_convert_fn

    dataset, sampler = loader.dataset, loader.batch_sampler
    batched = sampler is not None or loader.batch_size is not None
    collate = loader.collate_fn or (default_collate_fn if batched else default_convert_fn)
    if isinstance(taken, Largest) and loader.collate_fn:
        held = taken.inner.fetching
        if held.collate is None:
            held.collate = collation.Collate(collate, taken.flags, extent, held.drawn)
        collate = held.collate
    if isinstance(taken, (Largest, Sparing)):
        taken.fetching.only_reads = collate is default_collate_fn
    if isinstance(dataset, paddle.io.IterableDataset):
        for samples in _chunks(dataset, loader):
            yield as_tensors(paddle, collate(samples))
        return
    if sampler is None:
        for index in range(len(dataset)):
            yield as_tensors(paddle, collate(dataset[index]))
        return
    lists = batch_size.sized(sampler)
    keeps = taken.fetching.keeps if isinstance(taken, (Largest, Sparing)) else None
    for place, indices in enumerate(filled(lists, keeps) if keeps else lists):
        # Nothing here holds the batch while it is used.
        batch = [_batch(paddle, _fetched(Lazy(indices, dataset), taken, place), taken, collate)]
        if isinstance(taken, (Largest, Sparing)):
            taken.given(batch[0])
        yield batch.pop()


def _batch(
    paddle: ModuleType, samples: list[object], taken: Taken, collate: Callable[..., object]
) -> object:
    """Return the batch of some samples, which are let go of: they may be tensors, with memory."""
    if not isinstance(taken, (Largest, Sparing)) or not taken.filled:
        return as_tensors(paddle, collate(samples))
    if taken.reuses and taken.fetching.templates is not None:
        return taken.fetching.templates.batch(_key(samples[0], len(samples)))
    return _unknown(as_tensors(paddle, collate(samples)))


def _key(sample: object, size: int) -> tuple[object, int]:
    return form(sample), size


def for_programs(paddle: ModuleType, loader: DataLoader, taken: Taken) -> Iterator[object]:
    """Yield the batches of a loader as programs are fed them: a list, or by name where it has names
    for them and is to give no list."""
    inner, listed = batches(paddle, loader, taken), getattr(loader, "return_list", True)
    names = None if listed else [fed.name for fed in loader.feed_list or ()]
    while True:
        with paddle.base.dygraph.guard():
            try:
                batch: Any = next(inner)
            except StopIteration:
                return
        yield batch if names is None else [dict(zip(names, batch))]


def filled(lists: Iterable[list[int]], keeps: Callable[[], bool]) -> Iterator[list[int]]:
    """Yield lists of samples, the last as long as the others where these are of one length: with
    another batch size the shorter one, which needs no more memory, would come at another step.
    After one list alone it stays as it is: what is held of two full ones meets in no such epoch.
    So it does where the epoch keeps something of each batch: then it adds to what is held."""
    sizes: list[int] = []
    held: list[int] | None = None
    for indices in lists:
        if held is not None:
            sizes.append(len(_flat(held)))
            yield held
        held = indices
    if held is None:
        return
    most = sizes[0] if len(sizes) > 1 and len(set(sizes)) == 1 else 0
    whole = _flat(held)
    missing = max(0, most - len(whole))
    if not missing or keeps():
        yield held
        return
    longer = [*whole, *itertools.islice(itertools.cycle(whole), missing)]
    yield longer if whole is held else cast("list[int]", [longer])


def _flat(indices: list[int]) -> list[int]:
    """Return the samples of a batch that is one batch of another sampler, as they are there."""
    inner: object = indices[0] if len(indices) == 1 else None
    return [*inner] if isinstance(inner, (list, tuple)) else indices


def _fetched(rows: Lazy, taken: Taken, place: int) -> list[object]:
    """Return the samples of a batch. What is drawn for them, and for the batch after that, is alike
    in every run, however many samples there was time to fetch."""
    seeding.alike(place)
    samples = taken(rows)
    seeding.alike(place)
    return samples


def _unknown(batch: T) -> T:
    """Return a batch with tensors of which no value is known."""
    if isinstance(batch, (list, tuple, dict)):
        for item in batch.values() if isinstance(batch, dict) else batch:
            _unknown(item)
    elif hasattr(batch, "m_known"):
        setattr(batch, "m_known", None)  # noqa: B010
    return batch


class Lazy:
    """Samples of a batch, each fetched when it is asked for."""

    def __init__(self, indices: list[int], dataset: Dataset) -> None:
        self.indices = indices
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[object]:
        return (self.dataset[index] for index in self.indices)


_FAMILY = "gpuconsole_family"
"""Where a loader holds the number of its first reader."""
_FETCHING = "gpuconsole_fetching"
"""Where a loader holds what was found of its batches."""


class Fetching:
    """Whether the batches of a loader are fetched whole: as in another run, else by how much is
    done for a sample, and once they were not never again, so that all steps know as much."""

    def __init__(
        self,
        whole: bool | None,
        reported: set[bool],
        drawn: collation.Drawn | None = None,
        tally: list[int] | None = None,
        templates: collation.Templates | None = None,
    ) -> None:
        """`reported` takes what was found, `whole` and `drawn` are of another run; `tally` is
        the work for all samples that were fetched, each taken for as much as the most. With
        `templates` batches of copies are made in the form of those before: not where memory is
        measured, for what puts a batch together takes some too."""
        self.whole = whole
        self.reported = reported
        self.drawn = drawn
        self.work = 0
        """The most that was done for a sample so far."""
        self.tally = [0] if tally is None else tally
        self.looked: set[tuple[object, int]] = set()
        """Forms and extents of samples all over the data set."""
        self.sample: object = None
        """The largest of them, where they differ in size."""
        self.collate: collation.Collate | None = None
        """What makes a batch of samples, for all epochs."""
        self.templates = templates
        self.keeps: Callable[[], bool] = bool
        """Tells whether the epoch that goes on keeps something of each batch."""
        self.only_reads = False
        """Whether what makes a batch of samples is known not to write to them."""
        self.without_values: object = None
        """The form of samples of which a batch has no tensor with known values."""

    def all_of(self, size: int) -> bool:
        """Tell whether all samples of a batch are fetched, by what was done for the first ones."""
        if self.whole is not None:
            return self.whole
        return size * self.work <= (FETCHED if size <= SMALL else SOON)

    def has_template(self, key: object) -> bool:
        """Tell whether the next batch of copies is made in the form of the ones before."""
        return self.templates is not None and self.templates.reuses(key)

    def copies(self, sample: object, count: int) -> list[object]:
        """Return copies of a sample."""
        if self.templates is None or not self.only_reads:
            return [another(sample) for _ in range(count)]
        return self.templates.copies(functools.partial(another, sample), count)

    def given(self, batch: object) -> None:
        """A batch of copies was made, and its samples are gone."""
        if self.templates is not None:
            self.templates.given(batch)

    def ended(self, whole: bool) -> None:
        """A batch was fetched whole, or not."""
        self.reported.add(whole)
        if not whole:
            self.whole = False


_NONE = object()


class Sparing:
    """Takes the first samples of a batch in place of all, where these are of one form and all would
    take long: for a run in which shapes alone count."""

    def __init__(self, fetching: Fetching) -> None:
        self.form: object = None
        self.fetching = fetching
        self.filled = False
        """Whether copies are among the samples of the last batch: what they hold is not known."""
        self.reuses = False
        """Whether that batch is made in the form of the ones before."""

    def __call__(self, rows: Lazy) -> list[object]:
        """Return as many samples as there are rows."""
        size, rest, ends = len(rows), iter(rows), time.process_time() + LONGEST_S
        self.filled = False
        held = self.fetching
        seen_before = self.form is not None or held.without_values is not None
        first = self._first(rest, LATER if seen_before else FIRST)
        forms = {form(sample) for sample in first}
        if len(forms) == 1 and _have_no_values(first, size):
            (alike,) = forms
            before, held.without_values = held.without_values, alike
            if before in (None, alike):
                return self._with_copies(first, size)
        if size <= len(first) or len(forms) > 1 or self.form not in (None, *forms):
            self.form = False
            return [*first, *rest]
        (self.form,) = forms
        while len(first) < size and self.fetching.all_of(size) and time.process_time() < ends:
            first.append(next(rest))
        return self._with_copies(first, size)

    def _with_copies(self, first: list[object], size: int) -> list[object]:
        """Return so many samples, copies of the last one among them where it takes such."""
        self.filled = len(first) < size
        self.fetching.ended(not self.filled)
        self.fetching.tally[0] += len(first) * self.fetching.work
        self.reuses = self.filled and self.fetching.has_template(_key(first[0], size))
        if self.reuses:
            return [first[0]] * size
        copies = self.fetching.copies(first[-1], size - len(first))
        copies[:0] = first
        return copies

    def given(self, batch: object) -> None:
        """A batch was made of what was taken last, which is gone."""
        if self.filled:
            self.fetching.given(batch)

    def _first(self, rest: Iterator[object], count: int) -> list[object]:
        """Return some samples; what is done for those of the first batch is counted."""
        if self.fetching.whole is not None or self.form is not None:
            return list(itertools.islice(rest, count))
        first = []
        for _ in range(count):
            sample, work = counted(lambda: next(rest, _NONE))
            if sample is _NONE:
                break
            first.append(sample)
            self.fetching.work = max(self.fetching.work, work)
        return first


class Largest:
    """Takes the largest sample for each of a batch where samples differ in size: memory depends on
    the longest that meet in a batch, which need not be among the first of a data set in order."""

    def __init__(self, inner: Sparing, flags: set[str]) -> None:
        self.inner = inner
        self.flags = flags
        self.looked = False
        self.sample: object = None
        self.filled = False
        self.reuses = False
        """As of `Sparing`."""

    def __call__(self, rows: Lazy) -> list[object]:
        """Return as many samples as there are rows."""
        if not self.looked:
            self.looked = True
            self._look(rows.dataset)
        if self.sample is None:
            samples = self.inner(rows)
            self.filled, self.reuses = self.inner.filled, self.inner.reuses
            return samples
        self.filled = True
        self.reuses = self.fetching.has_template(_key(self.sample, len(rows)))
        size = len(rows)
        return [self.sample] * size if self.reuses else self.fetching.copies(self.sample, size)

    @property
    def fetching(self) -> Fetching:
        """What was found of the loader's batches."""
        return self.inner.fetching

    def given(self, batch: object) -> None:
        """As of `Sparing`."""
        if self.filled:
            self.fetching.given(batch)

    def _look(self, dataset: Dataset) -> None:
        """Find the largest of some samples spread over a data set; in a later epoch it is that of
        the first, where a few samples are as they were."""
        held = self.inner.fetching
        if not held.looked or not seen(dataset, AGAIN).keys() <= held.looked:
            samples = seen(dataset, LOOKED)
            # Of samples that are alike none is held: they may be tensors, and their memory counts.
            held.looked, held.sample = set(samples), largest(samples)
        self.sample = held.sample
        if self.sample is None:
            return
        self.flags.add("variable-shape")
        note(
            "Samples differ in size: every batch is made of the largest of some that were looked "
            "at all over the data set.",
            about="samples",
        )


def largest(samples: Mapping[tuple[object, int], object]) -> object:
    """Return the largest of samples by form and extent, None where they hardly differ."""
    sizes = [size for _, size in samples]
    if not samples or (
        len({form_ for form_, _ in samples}) == 1 and max(sizes) - min(sizes) <= SLIGHT
    ):
        return None
    return max(samples.items(), key=lambda item: item[0][1])[1]


def seen(dataset: Dataset, most: int) -> dict[tuple[object, int], object]:
    """Return some samples spread over a data set, one of each form and extent."""
    samples: dict[tuple[object, int], object] = {}
    size, ends, done = length_of(dataset), time.process_time() + LONGEST_S, 0
    for index in spread(size or 0, most):
        if done > FETCHED or time.process_time() > ends:
            break
        try:
            sample, work = counted(functools.partial(operator.getitem, dataset, index))
        except Exception:
            continue
        done += work
        samples.setdefault((form(sample), extent(sample)), sample)
    return samples


def counted(make: Callable[[], T]) -> tuple[T, int]:
    """Return what a function makes, and the work for it: its calls, and the numbers in it."""
    calls = itertools.count()
    before = sys.getprofile()
    sys.setprofile(lambda *_: next(calls) and None)
    try:
        sample = make()
    finally:
        sys.setprofile(before)
    # Each call is noted when it begins and when it ends.
    return sample, next(calls) // 2 + extent(sample) // NUMBERS


def spread(size: int, most: int) -> list[int]:
    """Return places all over a list, the ends first, then halves, quarters and so on."""
    if size <= most:
        return list(range(size))
    order = dict.fromkeys((0, size - 1))
    parts = 2
    while len(order) < most:
        order.update(dict.fromkeys((size - 1) * part // parts for part in range(1, parts, 2)))
        parts *= 2
    return list(order)[:most]


def extent(sample: object) -> int:
    """Return how large a sample is: elements, points of a picture, characters."""
    if isinstance(sample, dict):
        return sum(map(extent, sample.values()))
    if isinstance(sample, (list, tuple)):
        return sum(map(extent, sample))
    if isinstance(sample, (str, bytes)):
        return len(sample)
    shape = getattr(sample, "shape", None)
    shape = getattr(sample, "size", None) if shape is None else shape
    try:
        return 1 if shape is None else math.prod(int(length) for length in shape)
    except TypeError:
        return 1


def another(sample: object) -> object:
    """Return a sample like this with arrays of its own: what makes a batch may write to them."""
    if type(sample) is dict:
        return {name: another(value) for name, value in sample.items()}
    if type(sample) is list:
        return list(map(another, sample))
    if type(sample) is tuple:
        return tuple(map(another, sample))
    return copy.copy(sample)


def _have_no_values(samples: Sequence[object], size: int) -> bool:
    """Tell whether a batch of samples like these has no number and no tensor of which the values
    would be known: what is held of it depends on shapes alone."""
    return all(_has_no_value(sample, size) for sample in samples)


def _has_no_value(sample: object, size: int) -> bool:
    if isinstance(sample, dict):
        sample = list(sample.values())
    if isinstance(sample, (list, tuple)):
        return all(_has_no_value(item, size) for item in sample)
    if sample is None or isinstance(sample, (str, bytes)):
        return True
    return extent(sample) * size > VALUED


def form(sample: object) -> tuple[object, ...]:
    """Return what samples of one form have in common: shapes, types, sizes of pictures."""
    if isinstance(sample, dict):
        return tuple((key, form(value)) for key, value in sample.items())
    if isinstance(sample, (list, tuple)):
        return tuple(map(form, sample))
    shape = getattr(sample, "shape", None) or getattr(sample, "size", None)
    return type(sample).__name__, str(getattr(sample, "dtype", "")), str(shape)


def _chunks(dataset: Dataset, loader: DataLoader) -> Iterator[object]:
    size = loader.batch_size
    if size is None:
        yield from dataset
        return
    rows = iter(dataset)
    while True:
        samples = list(itertools.islice(rows, size))
        if not samples or (len(samples) < size and loader.drop_last):
            return
        yield samples


def as_tensors(paddle: ModuleType, batch: object) -> object:
    """Return a collated batch with its arrays as tensors; text and the like stay.

    As with Paddle's own readers a batch that is no list is handed out as it is.
    """
    import numpy

    return _convert(paddle, numpy, batch)


def _convert(paddle: ModuleType, numpy: ModuleType, value: object) -> object:
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        if getattr(value, "dtype", None) is not None and value.dtype.kind in "OUS":
            return value
        return paddle.to_tensor(value)
    if isinstance(value, dict):
        return {name: _convert(paddle, numpy, item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert(paddle, numpy, item) for item in value]
    return value
