"""`paddle.metric`, and objects with methods that change no sizes: callbacks, writers,
strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import Native, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor, broadcast

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class Quiet(Native):
    """An object with methods that change no sizes: callbacks, writers, strategies."""

    label = "object"

    def call(self, interp: Interpreter, *_: Value, **__: Value) -> Value:
        """Give nothing."""
        return None

    @exposed.method("add_scalar", "close")
    def do_add_scalar(self, run: Run, *_: Value, **__: Value) -> None:
        """Write a figure."""


class Metric(Native):
    """`paddle.metric.Metric`, `Precision`, `Recall`, `Auc`: figures are kept as NumPy numbers."""

    label = "Metric"

    @exposed.method("compute")
    def do_compute(self, run: Run, *args: Value) -> Value:
        """Hand on what `update` takes."""
        return args

    @exposed.method("update", "accumulate")
    def do_update(self, run: Run, *_: Value, **__: Value) -> Value:
        """Take the figures of a batch."""
        return run.number("a figure that depends on data")

    @exposed.method("reset")
    def do_reset(self, run: Run) -> None:
        """Begin again."""

    @exposed.method("name")
    def do_name(self, run: Run) -> Value:
        """Give the name."""
        return "metric"


class Accuracy(Metric):
    """`paddle.metric.Accuracy`: sorts the predictions to find the best k."""

    label = "Accuracy"

    def init(self, run: Run, topk: Value = (1,), *_: Value, **__: Value) -> None:
        """Keep how many answers count."""
        counts = (
            [number for number in topk if isinstance(number, int)]
            if isinstance(topk, (list, tuple))
            else []
        )
        self.count = max(counts, default=1)

    @exposed.method("compute")
    def do_compute(self, run: Run, pred: Tensor, label: Value = None, *_: Value) -> Value:
        """Compare; the sorted values and places exist for a moment, the places while compared."""
        order = run.tensor(pred.shape, "int64")
        run.scratch(pred.nbytes)
        shape = broadcast((*pred.shape[:-1], self.count), _answers(pred, label))
        if shape is None:
            raise TypeError("labels that do not go with the predictions")
        equal = run.tensor(shape, "bool")
        del order
        out = run.tensor(shape, "float32")
        del equal
        return out


def _answers(pred: Tensor, label: Value) -> tuple[int, ...]:
    """Return the shape of the labels as a column: as class numbers, or one of many."""
    if not isinstance(label, Tensor):
        return (*pred.shape[:-1], 1)
    if len(label.shape) == 1 or (len(label.shape) == 2 and label.shape[-1] == 1):
        return (label.shape[0], 1)
    return (*label.shape[:-1], 1)


def accuracy(run: Run, input: Tensor, label: Value, k: int = 1, *_: Value, **__: Value) -> Value:
    """`paddle.metric.accuracy`."""
    rows = input.shape[0] if input.shape else 1
    best = run.tensor((rows, k), input.dtype), run.tensor((rows, k), "int64")
    del best
    return run.tensor((), "float32")
