"""Data sets, samplers and the loader: where batches, and their sizes, come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from gpuconsole.preflight.backends import terms
from gpuconsole.preflight.scan import asking, ops
from gpuconsole.preflight.scan.arrays import Array, shape_of
from gpuconsole.preflight.scan.pictures import Picture
from gpuconsole.preflight.scan.run import CYCLES, Run
from gpuconsole.preflight.scan.tensors import Tensor
from gpuconsole.preflight.scan.values import (
    MISSING,
    Blocked,
    Function,
    Native,
    ShapeFault,
    SomeInt,
    SomeNumber,
    Unknown,
    Value,
    first_unknown,
)

MAX_FETCHES = 512


class Dataset(Native):
    """`paddle.io.Dataset` and `IterableDataset`: user classes derive from it."""

    label = "Dataset"

    def sample(self, calls: Any) -> Value:
        """Return one sample: what `__getitem__` gives for an index that nobody knows."""
        cls = self.cls
        run: Run = calls.run
        if cls is None:
            return run.unknown("a sample of this data set")
        index = SomeInt(run.file, run.line, "the index of a sample")
        getter = cls.find("__getitem__")
        if isinstance(getter, Function):
            return calls.call(calls.bind(getter, self), [index], {})
        walker = cls.find("__iter__")
        if isinstance(walker, Function):
            for one in calls.iterate(calls.call(calls.bind(walker, self), [], {})):
                return one
        return run.unknown(f"class {cls.name} has no __getitem__")


class TensorDataset(Dataset):
    """`paddle.io.TensorDataset`."""

    label = "TensorDataset"

    def init(self, run: Run, tensors: Value) -> None:
        """Keep the tensors."""
        self.tensors = list(tensors)
        if any(not isinstance(one, (Tensor, Array)) for one in self.tensors):
            raise TypeError("a TensorDataset of something else than tensors")

    def sample(self, calls: Any) -> Value:
        """Give one row of each."""
        return tuple(Array(one.shape[1:], one.dtype) for one in self.tensors)

    def count(self, calls: Any) -> Value:
        """Number of rows."""
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """`Subset`, `random_split`, `ConcatDataset`: samples of another data set."""

    label = "Subset"

    def init(self, run: Run, dataset: Value, *_: Value) -> None:
        """Keep the first data set."""
        self.dataset = dataset[0] if isinstance(dataset, (list, tuple)) else dataset

    def sample(self, calls: Any) -> Value:
        """Give a sample of it."""
        return sample_of(calls, self.dataset)


class KnownDataset(Dataset):
    """A data set of `paddle.vision.datasets`, whose shapes are known by its name."""

    picture: tuple[int | None, int | None, int] = (None, None, 3)
    label_shape: tuple[int, ...] = ()
    size = 0

    def init(self, run: Run, *args: Value, transform: Value = None, **kwargs: Value) -> None:
        """Keep the transform."""
        self.transform = transform
        for one in args:
            if isinstance(one, Native) and hasattr(one, "call"):
                self.transform = one

    def sample(self, calls: Any) -> Value:
        """Give a transformed picture and its label."""
        image: Value = Picture(*self.picture)
        if self.transform is not None:
            image = calls.call(self.transform, [image], {})
        return (image, Array(self.label_shape, "int64"))

    def count(self, calls: Any) -> Value:
        """Number of samples."""
        return self.size or calls.run.unknown("the size of a data set on disk")


def _known(name: str, picture: tuple[int | None, int | None, int], label: tuple[int, ...],
           size: int) -> type[KnownDataset]:  # fmt: skip
    return type(name, (KnownDataset,), {"label": name, "picture": picture, "label_shape": label,
                                        "size": size})  # fmt: skip


KNOWN: dict[str, type[KnownDataset]] = {
    "MNIST": _known("MNIST", (28, 28, 1), (1,), 60_000),
    "FashionMNIST": _known("FashionMNIST", (28, 28, 1), (1,), 60_000),
    "Cifar10": _known("Cifar10", (32, 32, 3), (), 50_000),
    "Cifar100": _known("Cifar100", (32, 32, 3), (), 50_000),
    "Flowers": _known("Flowers", (None, None, 3), (1,), 0),
    "DatasetFolder": _known("DatasetFolder", (None, None, 3), (), 0),
}


class BatchSampler(Native):
    """`BatchSampler` and `DistributedBatchSampler`."""

    label = "BatchSampler"

    def init(self, run: Run, dataset: Value = None, *args: Value, batch_size: Value = None,
             **_: Value) -> None:  # fmt: skip
        """Keep data set and batch size."""
        self.dataset = dataset
        numbers = [one for one in args if isinstance(one, int) and not isinstance(one, bool)]
        self.batch_size = batch_size if batch_size is not None else (numbers or [1])[0]

    def do_set_epoch(self, run: Run, *_: Value) -> None:
        """Change no sizes."""

    def count(self, calls: Any) -> Value:
        """Number of batches."""
        return batches(calls, self.dataset, self.batch_size)


def batches(calls: Any, dataset: Value, batch_size: Value) -> Value:
    """Return how many batches a data set gives, or an unknown."""
    size = calls.call(calls.builtins["len"], [dataset], {})
    unknown = first_unknown(size, batch_size)
    if unknown is not None or not batch_size:
        return unknown or 0
    return -(-size // batch_size)


def sample_of(calls: Any, dataset: Value) -> Value:
    """Return one sample of anything that serves as a data set."""
    if isinstance(dataset, Dataset):
        return dataset.sample(calls)
    if isinstance(dataset, Unknown):
        return dataset
    if isinstance(dataset, (list, tuple)) and dataset:
        return dataset[0]
    cls = getattr(dataset, "cls", None)
    getter = cls.find("__getitem__") if cls is not None else MISSING
    if isinstance(getter, Function):
        run: Run = calls.run
        index = SomeInt(run.file, run.line, "the index of a sample")
        return calls.call(calls.bind(getter, dataset), [index], {})
    return calls.run.unknown("a sample of this data set")


class Loader(Native):
    """`paddle.io.DataLoader`."""

    label = "DataLoader"

    def init(self, run: Run, dataset: Value = None, *_: Value, batch_sampler: Value = None,
             batch_size: Value = 1, collate_fn: Value = None, **__: Value) -> None:  # fmt: skip
        """Keep data set, batch size and collate function."""
        self.dataset = dataset
        self.collate = collate_fn
        self.batch_size = batch_size
        if isinstance(batch_sampler, BatchSampler):
            self.batch_size = batch_sampler.batch_size
        elif batch_sampler is not None:
            self.batch_size = first_unknown(batch_sampler) or run.unknown("a sampler of its own")
        self.place = (run.file, run.line)

    def call(self, calls: Any) -> Value:
        """`loader()` is the loader."""
        return self

    def count(self, calls: Any) -> Value:
        """Number of batches."""
        return batches(calls, self.dataset, self.batch_size)

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give batches, closing a cycle whenever the next one is asked for after a step."""
        run: Run = calls.run
        run.loaders += 1
        batch = run.batch_now = self._size(run)
        names = asking.loop_names(run.loop) if run.loop is not None else ()
        sample = sample_of(calls, self.dataset)
        waiting: deque[Value] = deque()
        ahead = terms(run.setting.backend).waiting_batches
        before, count = run.backwards, 0
        while not self._enough(run, count, before):
            while len(waiting) <= ahead:
                waiting.append(self._named(run, names, self._batch(calls, sample, batch)))
            count += 1
            yield waiting.popleft()

    def _enough(self, run: Run, count: int, before: int) -> bool:
        if count:
            run.close_cycle()
        if count and run.cycles >= CYCLES:
            return True
        if count >= 2 and run.blocking is not None:
            return True
        # No backward in two batches while something is trained: an evaluation.
        return count >= MAX_FETCHES or (
            count >= 2 and run.optimizers > 0 and run.backwards == before
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
        # A second loader written with the same number, say for evaluation, follows the first.
        if setting.batch is not None and size == setting.batch_was:
            size = setting.batch
        if not isinstance(size, int) or size < 1:
            place = run.line
            run.line = self.place[1]
            run.fault(f"a batch size of {size} cannot be")
            run.line = place
            raise Blocked(run.unknown(f"a batch size of {size}"))
        return int(size)

    def _batch(self, calls: Any, sample: Value, batch: int) -> Value:
        run: Run = calls.run
        if self.collate is not None:
            made = calls.call(self.collate, [[sample] * batch], {})
            return self._tensors(run, made)
        if isinstance(sample, (list, tuple)):
            return [stacked(run, one, batch) for one in sample]
        if isinstance(sample, dict):
            return {name: stacked(run, one, batch) for name, one in sample.items()}
        return [stacked(run, sample, batch)]

    def _named(self, run: Run, names: tuple[str, ...], made: Value) -> Value:
        """Return a batch whose unknown fields are asked for, or answered, by their names."""
        if isinstance(made, list) and len(made) == 1 and len(names) > 1:
            # A sample that nobody knows has as many fields as the loop has names.
            made = made * len(names) if isinstance(made[0], Unknown) else made
        if not isinstance(made, (list, tuple)):
            made_one = isinstance(made, Unknown) and names
            return asking.batch_field(run, names[:1], 0, 1, made) if made_one else made
        return [
            asking.batch_field(run, names, place, len(made), one)
            if isinstance(one, Unknown) and names else one
            for place, one in enumerate(made)
        ]  # fmt: skip

    def _tensors(self, run: Run, made: Value) -> Value:
        if isinstance(made, Array):
            return run.tensor(made.shape, made.dtype, "inputs")
        if isinstance(made, (list, tuple)):
            return [self._tensors(run, one) for one in made]
        if isinstance(made, dict):
            return {name: self._tensors(run, one) for name, one in made.items()}
        return made


def stacked(run: Run, one: Value, batch: int) -> Value:
    """Return the batch of one field of a sample, as the default collate makes it."""
    if isinstance(one, SomeInt):
        return run.tensor((batch,), "int64", "inputs")
    if isinstance(one, SomeNumber):
        return run.tensor((batch,), "float64", "inputs")
    if isinstance(one, Unknown):
        return one
    if isinstance(one, Picture):
        raise ShapeFault("pictures reach the loader as images: a transform must make arrays")
    if isinstance(one, (list, tuple)):
        return [stacked(run, part, batch) for part in one]
    if isinstance(one, dict):
        return {name: stacked(run, part, batch) for name, part in one.items()}
    if isinstance(one, str):
        return [one] * batch
    shape, dtype = shape_of(one)
    return run.tensor((batch, *shape), dtype, "inputs")


def random_split(run: Run, dataset: Value, lengths: Value, *_: Value) -> Value:
    """`paddle.io.random_split`."""
    made = []
    for _length in lengths:
        part = Subset()
        part.init(run, dataset)
        made.append(part)
    return made


__all__ = ["KNOWN", "BatchSampler", "Dataset", "Loader", "Subset", "TensorDataset", "ops"]
