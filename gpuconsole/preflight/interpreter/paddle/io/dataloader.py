"""Samplers and the loader: where batches, and their sizes, come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    Blocked,
    Function,
    Native,
    NativeClass,
    NativeFunction,
    ShapeFault,
    SomeInt,
    SomeNumber,
    Sourced,
    Unknown,
    Value,
    first_unknown,
    is_setting,
)
from gpuconsole.preflight.interpreter.frontend import questions
from gpuconsole.preflight.interpreter.libraries.cv2 import Photo
from gpuconsole.preflight.interpreter.machine.run_state.batches import LeftOut, Queue
from gpuconsole.preflight.interpreter.machine.run_state.progress import CYCLES
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array, shape_of
from gpuconsole.preflight.interpreter.paddle.io.dataset import (
    Composed,
    Concatenated,
    Dataset,
    Subset,
    TensorDataset,
    first_of,
    random_split,
    sample_of,
)
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, Tensor
from gpuconsole.preflight.interpreter.paddle.vision.transforms import Picture
from gpuconsole.preflight.memory.backends import terms
from gpuconsole.preflight.memory.trace import Storage

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_FETCHES = 512
USED_BATCHES = (
    "The loader's batches are single tensors: Paddle's reader lets used ones go only when Python's "
    "collector runs, after a hundred or so of them. One is counted; a data set that returns "
    "tuples, `return (x,)`, does not have this."
)
"""Measured with Paddle 3.3.1: `_restore_batch` leaves a cycle of references about such a batch."""


class Sampler(Native):
    """`RandomSampler`, `SequenceSampler`, `SubsetRandomSampler`, `WeightedRandomSampler`."""

    label = "Sampler"

    def init(self, run: Run, source: Value = None, *args: Value, num_samples: Value = None,
             **_: Value) -> None:  # fmt: skip
        """Keep what is drawn from, and how many draws there are."""
        self.source = source
        self.attrs["data_source"] = source
        self.draws = num_samples

    def count(self, interp: Interpreter) -> Value:
        """Number of samples drawn."""
        if isinstance(self.draws, int) and not isinstance(self.draws, bool):
            return self.draws
        return interp.call(interp.builtins["len"], [self.source], {})

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the index of a sample, as often as there are samples."""
        own = self.cls.find("__iter__") if self.cls is not None else None
        if isinstance(own, Function):
            yield from interp.iterate(interp.call(interp.bind(own, self), [], {}))
            return
        index = SomeInt(interp.run.file, interp.run.line, "the index of a sample")
        yield from interp.iterate(
            lengths.opened(index, lengths.some(interp.run, "how many samples"))
        )


class BatchSampler(Native):
    """`BatchSampler` and `DistributedBatchSampler`; user classes may give batches of their own."""

    label = "BatchSampler"
    dataset: Value = None
    batch_size: Value = 1
    drop_last: Value = False

    def init(self, run: Run, dataset: Value = None, *args: Value, sampler: Value = None,
             batch_size: Value = None, drop_last: Value = False, **_: Value) -> None:  # fmt: skip
        """Keep data set and batch size."""
        self.dataset = dataset if dataset is not None else sampler
        numbers = [
            argument
            for argument in args
            if isinstance(argument, int) and not isinstance(argument, bool)
        ]
        self.batch_size = batch_size if batch_size is not None else (numbers or [1])[0]
        self.drop_last = drop_last
        self.attrs.update(batch_size=self.batch_size, drop_last=drop_last)

    @exposed.method("set_epoch")
    def do_set_epoch(self, run: Run, *_: Value) -> None:
        """Change no sizes."""

    def count(self, interp: Interpreter) -> Value:
        """Number of batches."""
        return batches(interp, self.dataset, self.batch_size, self.drop_last)

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the indexes of a batch, as often as there are batches."""
        own = self.cls.find("__iter__") if self.cls is not None else None
        if isinstance(own, Function):
            yield from interp.iterate(interp.call(interp.bind(own, self), [], {}))
            return
        index = SomeInt(interp.run.file, interp.run.line, "the index of a sample")
        index_batch = (
            [index] * self.batch_size if isinstance(self.batch_size, int) else self.batch_size
        )
        yield from interp.iterate(
            lengths.opened(index_batch, lengths.some(interp.run, "how many batches"))
        )

    def size(self, interp: Interpreter) -> Value:
        """Return the number of samples in a batch."""
        own = self.cls.find("__iter__") if self.cls is not None else None
        if not isinstance(own, Function):
            return self.batch_size
        return own_size(interp, self)


def own_size(interp: Interpreter, sampler: Value) -> Value:
    """Return the size of the batches of a sampler of the script's own."""
    given = sampler.attrs.get("batch_size") if isinstance(sampler, Native) else None
    if isinstance(given, int):
        return given
    first = first_of(interp, sampler)
    if isinstance(first, Unknown):
        return first
    size = lengths.length_of(first)
    return size if size is not None else interp.run.unknown("a sampler of its own")


def put_in(run: Run, size: Value) -> Value:
    """Return a batch size with the one that is asked about in its place.

    A second loader written with the same number, say for evaluation, follows the first, in the
    shipped copy too, but where one of the two has a setting: who changes that leaves the other.
    """
    setting = run.setting
    if isinstance(size, Sourced) and not size.is_setting:
        run.batch.sizes[size.key] = int(size)
    apart = isinstance(size, Sourced) and size.key != setting.batch_key
    apart = apart and (size.is_setting or is_setting(setting.batch_key))
    follows = setting.batch is not None and size == setting.batch_was and not apart
    return setting.batch if follows else size


def batches(
    interp: Interpreter, dataset: Value, batch_size: Value, drop_last: Value = False
) -> Value:
    """Return how many batches a data set has, or an unknown."""
    size = interp.call(interp.builtins["len"], [dataset], {})
    unknown = first_unknown(size, batch_size)
    if unknown is not None or not batch_size:
        return unknown or 0
    return size // batch_size if drop_last is True else -(-size // batch_size)


class Loader(Native):
    """`paddle.io.DataLoader`."""

    label = "DataLoader"

    def init(self, run: Run, dataset: Value = None, *_: Value, batch_sampler: Value = None,
             batch_size: Value = 1, collate_fn: Value = None, drop_last: Value = False,
             **__: Value) -> None:  # fmt: skip
        """Keep data set, batch size and collate function."""
        self.dataset = dataset
        self.collate = collate_fn
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.attrs.update(dataset=dataset, batch_sampler=batch_sampler)
        if isinstance(batch_sampler, BatchSampler):
            self.batch_size = batch_sampler.size(run.interp)
            self.drop_last = batch_sampler.drop_last
        elif batch_sampler is not None:
            self.batch_size = own_size(run.interp, batch_sampler)
        self.place = (run.file, run.line)

    def call(self, interp: Interpreter) -> Value:
        """`loader()` is the loader."""
        return self

    def count(self, interp: Interpreter) -> Value:
        """Number of batches."""
        return batches(interp, self.dataset, self.batch_size, self.drop_last)

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give batches, closing a cycle whenever the next one is asked for after a step."""
        run: Run = interp.run
        run.progress.walking += 1
        try:
            yield from self._as_given(interp) if self.batch_size is None else self._epoch(interp)
        finally:
            run.progress.walking -= 1

    def _epoch(self, interp: Interpreter) -> Iterator[Value]:
        run: Run = interp.run
        names = questions.loop_names(run.loop) if run.loop is not None else ()
        run.batch.loaders += 1
        batch = run.batch.now = self._present(interp, self._size(run))
        fed = run.batch.met or (batch, run.file, run.line)
        sample = interp.guard(lambda run: self._sample(interp), "a sample of the data set")
        ahead, left = self._ahead(interp, batch)
        if run.on_cpu and run.program.draft is not None:
            # Measured: what an executor was fed stays until its next run, and the reader has made
            # one more by then.
            ahead += 1
        waiting: deque[Value] = deque()
        around, run.batch.queue = run.batch.queue, Queue(ahead)

        def make() -> Value:
            collated = interp.guard(lambda run: self._batch(interp, sample, batch), "collation")
            return self._named(run, names, collated)

        run.batch.feeding.append(fed)
        try:
            yield from self._queued(run, waiting, make, ahead, left, self._count(interp, batch))
        except GeneratorExit:
            if not run.batch.cutting:
                # Measured: what waits when a loop is left early is never let go.
                run.batch.abandoned += [waiting, run.batch.queue]
            raise
        finally:
            run.batch.queue = around
            run.batch.feeding.remove(fed)

    def _queued(
        self, run: Run, waiting: deque[Value], make: Callable[[], Value], ahead: int, left: int,
        total: int | None,
    ) -> Iterator[Value]:  # fmt: skip
        """Give the batches of an epoch, with so many waiting, so many after the first, and no more
        than an epoch has once the memory of training is known."""
        used: list[Storage] = []
        before, count = run.progress.backwards, 0
        # A loop that begins when the memory of training is known evaluates: the graph of its first
        # batch may live on while the second one's is made.
        most = MAX_FETCHES if total is None else max(1, total)
        least = min(2 if run.progress.is_steady else 1, most)
        last = False
        while not last:
            if self._enough(run, count, before, least):
                last = run.batch.keeps and (total is None or total > count)
                if run.progress.backwards == before:
                    # One more where batches keep something, beside what all the others keep.
                    run.batch.left_out = LeftOut(count + last, total, ahead * last)
                if not last or run.progress.backwards != before:
                    return
            while len(waiting) <= min(ahead, left - count):
                waiting.append(make())
            if not waiting:
                return
            count += 1
            if isinstance(waiting[0], Tensor):
                # Paddle's reader leaves a bare batch in a cycle of references behind.
                used.append(waiting[0].storage)
                if USED_BATCHES not in run.findings.notes:
                    run.findings.notes.append(USED_BATCHES)
            yield waiting.popleft()

    def _as_given(self, interp: Interpreter) -> Iterator[Value]:
        """Give samples as they are: without a batch size the data set makes the batches."""
        for item in interp.iterate(self.dataset):
            yield self._tensors(interp.run, item)

    def _sample(self, interp: Interpreter) -> Value:
        answers = interp.run.answers
        around, answers.sampling = answers.sampling, True
        try:
            sample = sample_of(interp, self.dataset)
        finally:
            answers.sampling = around
        # Samples are gone once they are collated: one that is kept here must not hold memory.
        return sample if self.collate is not None else _weightless(sample)

    def _present(self, interp: Interpreter, batch: int) -> int:
        """Return the size of a batch: no more than there are samples."""
        if self.drop_last is True or interp.run.setting.endless:
            return batch
        size = _length(interp, self.dataset)
        if not size or size >= batch:
            return batch
        interp.run.batch.short_epochs = True
        return size

    def _ahead(self, interp: Interpreter, batch: int) -> tuple[int, int]:
        """Return how many batches wait beside the current one, and how many follow the first.

        Measured: an epoch's first step has min(5, n - 1) of its n batches waiting, and later
        epochs begin so too, when gradients and states exist. Where there is but one epoch, its
        second step is the first that has these.
        """
        run: Run = interp.run
        full = terms(run.setting.backend).waiting_batches
        count = self._count(interp, batch)
        if count is None:
            return full, MAX_FETCHES + full
        if count > full + (CYCLES - 1 if not run.repeats else 0):
            return full, MAX_FETCHES + full
        run.batch.short_epochs = True
        ahead = min(full, max(0, count - 1))
        # What a single epoch has left goes down; a first step alone shows the whole of it.
        return ahead, max(count - 1, 1) if not run.repeats else MAX_FETCHES + full

    def _count(self, interp: Interpreter, batch: int) -> int | None:
        """Return how many batches an epoch has; None where the script does not tell."""
        size = None if interp.run.setting.endless else _length(interp, self._drawn_from())
        if size is None:
            return None
        return size // batch if self.drop_last is True else -(-size // batch)

    def _drawn_from(self) -> Value:
        """Return what an epoch goes through; None where a sampler of the script's own decides."""
        sampler = self.attrs["batch_sampler"]
        if sampler is None:
            return self.dataset
        plain = isinstance(sampler, BatchSampler) and sampler.cls is None
        return sampler.dataset if plain else None

    def _enough(self, run: Run, count: int, before: int, least: int) -> bool:
        if count:
            run.close_cycle()
        if count >= least and run.progress.is_steady:
            return True
        if count >= 2 and run.findings.blocking is not None:
            return True
        # No backward in two batches while something is trained: an evaluation.
        return count >= MAX_FETCHES or (
            count >= 2 and run.progress.optimizers > 0 and run.progress.backwards == before
        )

    def _size(self, run: Run) -> int:
        setting = run.setting
        size = self.batch_size
        if isinstance(size, Unknown):
            if setting.batch is None:
                raise Blocked(size)
            size = setting.batch
        if setting.batch is not None and not setting.batch_key:
            # Nothing says where the number comes from: it is put in here.
            size = setting.batch
        run.found_batch(size)
        size = put_in(run, size)
        if not isinstance(size, int) or size < 1:
            place = run.line
            run.line = self.place[1]
            failed = run.fault(f"a batch size of {size} cannot be")
            run.line = place
            raise Blocked(failed)
        return int(size)

    def _batch(self, interp: Interpreter, sample: Value, batch: int) -> Value:
        run: Run = interp.run
        if self.collate is not None:
            collated = interp.call(self.collate, [[sample] * batch], {})
            return self._tensors(run, collated)
        return stacked(run, sample, batch)

    def _named(self, run: Run, names: tuple[str, ...], fields: Value) -> Value:
        """Return a batch; its unknown fields become questions, or are answered, by their names."""
        if isinstance(fields, list) and len(fields) == 1 and len(names) > 1:
            # An unknown sample has as many fields as the loop has names.
            fields = fields * len(names) if isinstance(fields[0], Unknown) else fields
        if isinstance(fields, dict) and len(names) == 1:
            return {
                key: questions.batch_item(run, f"{names[0]}[{key!r}]", field)
                if isinstance(field, Unknown)
                else field
                for key, field in fields.items()
            }
        if not isinstance(fields, (list, tuple)):
            made_one = isinstance(fields, Unknown) and names
            return questions.batch_field(run, names[:1], 0, 1, fields) if made_one else fields
        return [
            questions.batch_field(run, names, place, len(fields), field)
            if isinstance(field, Unknown) and names else field
            for place, field in enumerate(fields)
        ]  # fmt: skip

    def _tensors(self, run: Run, value: Value) -> Value:
        """Return what a collate function gave, arrays as tensors."""
        if isinstance(value, Array) and value.dtype in ITEM_BYTES:
            return run.tensor(value.shape, value.dtype, "inputs")
        if isinstance(value, (list, tuple)):
            return [self._tensors(run, field) for field in value]
        if isinstance(value, dict):
            return {name: self._tensors(run, field) for name, field in value.items()}
        return value


def _length(interp: Interpreter, source: Value) -> int | None:
    """Return how many samples there are, None where the script does not tell."""
    if source is None or isinstance(source, Unknown):
        return None
    if isinstance(source, Native) and not hasattr(source, "count"):
        method = source.cls.find("__len__") if source.cls is not None else None
        if not isinstance(method, Function):
            return None
    size = interp.guard(lambda run: interp.call(interp.builtins["len"], [source], {}), "len")
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def _weightless(sample: Value) -> Value:
    if isinstance(sample, Tensor):
        return Array(sample.shape, sample.dtype)
    if isinstance(sample, (list, tuple)):
        return type(sample)(_weightless(part) for part in sample)
    if isinstance(sample, dict):
        return {name: _weightless(part) for name, part in sample.items()}
    return sample


def stacked(run: Run, value: Value, batch: int) -> Value:
    """Return the batch of one field of a sample, as the default collate makes it."""
    if isinstance(value, bool):
        return run.tensor((batch,), "bool", "inputs")
    if isinstance(value, SomeInt):
        return run.tensor((batch,), "int64", "inputs")
    if isinstance(value, SomeNumber):
        return run.tensor((batch,), "float64", "inputs")
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Picture):
        raise ShapeFault("pictures reach the loader as images: a transform must make arrays")
    if isinstance(value, Photo):
        return run.unknown("the size of the pictures on disk")
    if isinstance(value, (list, tuple)):
        if lengths.more_in(value) is not None:
            return lengths.more_in(value)
        return [stacked(run, part, batch) for part in value]
    if isinstance(value, dict):
        return {name: stacked(run, part, batch) for name, part in value.items()}
    if isinstance(value, str):
        return [value] * batch
    try:
        shape, dtype = shape_of(value)
    except TypeError as error:
        return run.unknown(f"a sample of which no tensor is made: {error}")
    if dtype not in ITEM_BYTES:
        return run.unknown(f"a sample of the type {dtype}")
    return run.tensor((batch, *shape), dtype, "inputs")


CLASSES: dict[str, type[Native]] = {
    "Dataset": Dataset, "IterableDataset": Dataset, "DataLoader": Loader, "Sampler": Sampler,
    "BatchSampler": BatchSampler, "DistributedBatchSampler": BatchSampler,
    "TensorDataset": TensorDataset, "Subset": Subset, "ConcatDataset": Concatenated,
    "ChainDataset": Concatenated, "ComposeDataset": Composed, "RandomSampler": Sampler,
    "SequenceSampler": Sampler, "SubsetRandomSampler": Sampler, "WeightedRandomSampler": Sampler,
}  # fmt: skip


def names() -> dict[str, Value]:
    """Return `paddle.io`."""
    return {
        **{name: NativeClass(kind, name) for name, kind in CLASSES.items()},
        "random_split": NativeFunction(random_split, "random_split"),
        "get_worker_info": NativeFunction(lambda run: None, "get_worker_info"),
    }


__all__ = ["BatchSampler", "Dataset", "Loader", "Sampler", "Subset", "TensorDataset"]
