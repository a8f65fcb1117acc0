"""`paddle.io` data sets: what one sample of them is, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Function,
    More,
    Native,
    SomeInt,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class Dataset(Native):
    """`paddle.io.Dataset` and `IterableDataset`: user classes derive from it."""

    label = "Dataset"

    def sample(self, interp: Interpreter) -> Value:
        """Return one sample: the result of `__getitem__` for an unknown index."""
        cls = self.cls
        run: Run = interp.run
        if cls is None:
            return run.unknown("a sample of this data set")
        getter = cls.find("__getitem__")
        if isinstance(getter, Function):
            index = lengths.some(run, "the index of a sample")
            return interp.call(interp.bind(getter, self), [index], {})
        walker = cls.find("__iter__")
        if isinstance(walker, Function):
            return first_of(interp, interp.call(interp.bind(walker, self), [], {}))
        return run.unknown(f"class {cls.name} has no __getitem__")


class Library(Dataset):
    """A data set of the library: it can be indexed and walked over as well."""

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a sample."""
        return self.sample(interp)

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Yield one sample, which represents all."""
        yield self.sample(interp)
        size = self.count(interp)
        if size == 1:
            return
        why = interp.run.unknown("how many samples a data set has", size)
        yield More(why.file, why.line, why.reason, why.root, lengths.of_unknown(why),
                   self.sample(interp))  # fmt: skip

    def count(self, interp: Interpreter) -> Value:
        """Number of samples."""
        return interp.run.unknown("the size of a data set")


class TensorDataset(Library):
    """`paddle.io.TensorDataset`."""

    label = "TensorDataset"

    def init(self, run: Run, tensors: Value) -> None:
        """Keep the tensors."""
        self.tensors = list(tensors)
        if any(not isinstance(tensor, (Tensor, Array)) for tensor in self.tensors):
            raise TypeError("a TensorDataset of something else than tensors")

    def sample(self, interp: Interpreter) -> Value:
        """Give one row of each."""
        return tuple(Array(tensor.shape[1:], tensor.dtype) for tensor in self.tensors)

    def count(self, interp: Interpreter) -> Value:
        """Number of rows."""
        return self.tensors[0].shape[0]


class Subset(Library):
    """`Subset` and the parts of `random_split`: some samples of another data set."""

    label = "Subset"

    def init(self, run: Run, dataset: Value, indices: Value = None, *_: Value) -> None:
        """Keep the data set and how many samples of it there are."""
        self.dataset = dataset
        self.attrs["dataset"] = dataset
        has_length = indices is not None and not isinstance(indices, Unknown)
        self.size = (
            run.interp.call(run.interp.builtins["len"], [indices], {}) if has_length else indices
        )

    def sample(self, interp: Interpreter) -> Value:
        """Give a sample of it."""
        return sample_of(interp, self.dataset)

    def count(self, interp: Interpreter) -> Value:
        """Number of samples."""
        return super().count(interp) if self.size is None else self.size


class Concatenated(Library):
    """`ConcatDataset` and `ChainDataset`: one data set after another."""

    label = "ConcatDataset"

    def init(self, run: Run, datasets: Value, *_: Value) -> None:
        """Keep the data sets."""
        self.datasets = list(run.interp.iterate(datasets))

    def sample(self, interp: Interpreter) -> Value:
        """Give a sample of the first."""
        return sample_of(interp, self.datasets[0])

    def count(self, interp: Interpreter) -> Value:
        """Sum of the numbers of samples."""
        sizes = [interp.call(interp.builtins["len"], [dataset], {}) for dataset in self.datasets]
        return first_unknown(*sizes) or sum(sizes)


class Composed(Library):
    """`ComposeDataset`: the fields of several data sets beside each other."""

    label = "ComposeDataset"

    def init(self, run: Run, datasets: Value, *_: Value) -> None:
        """Keep the data sets."""
        self.datasets = list(run.interp.iterate(datasets))

    def sample(self, interp: Interpreter) -> Value:
        """Give the fields of a sample of each."""
        fields: list[Value] = []
        for dataset in self.datasets:
            sample = sample_of(interp, dataset)
            fields.extend(sample if isinstance(sample, (list, tuple)) else [sample])
        return tuple(fields)

    def count(self, interp: Interpreter) -> Value:
        """Number of samples of each."""
        return interp.call(interp.builtins["len"], [self.datasets[0]], {})


def first_of(interp: Interpreter, items: Value) -> Value:
    """Return the first item of a walk."""
    for item in interp.iterate(items):
        return lengths.likeness(item)
    return interp.run.unknown("a sample of a data set that returns none")


def sample_of(interp: Interpreter, dataset: Value) -> Value:
    """Return one sample of anything that serves as a data set."""
    if isinstance(dataset, Dataset):
        return dataset.sample(interp)
    if isinstance(dataset, Unknown):
        return dataset
    if isinstance(dataset, (list, tuple)) and dataset:
        index = interp.run.unknown("the index of a sample")
        return lengths.likeness(interp.subscript(dataset, index))
    if isinstance(dataset, Array) and dataset.shape:
        return Array(dataset.shape[1:], dataset.dtype)
    cls = getattr(dataset, "cls", None)
    getter = cls.find("__getitem__") if cls is not None else MISSING
    if isinstance(getter, Function):
        run: Run = interp.run
        index = lengths.some(run, "the index of a sample")
        return interp.call(interp.bind(getter, dataset), [index], {})
    item = getattr(dataset, "item", None)
    if item is not None and not isinstance(dataset, Tensor):
        return item(interp, SomeInt(interp.run.file, interp.run.line, "the index of a sample"))
    return interp.run.unknown("a sample of this data set")


def random_split(run: Run, dataset: Value, lengths: Value, *_: Value, **__: Value) -> Value:
    """`paddle.io.random_split`: parts of a number or a share of the samples."""
    parts = []
    for size in lengths:
        part = Subset()
        part.init(run, dataset)
        part.size = size
        if isinstance(size, float):
            whole = run.interp.call(run.interp.builtins["len"], [dataset], {})
            part.size = int(whole * size) if isinstance(whole, int) else whole
        parts.append(part)
    return parts
