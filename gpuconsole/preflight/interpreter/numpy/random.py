"""`numpy.random`: what is drawn has a shape and a type, and whole numbers have bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import equality, exposed, join, lengths
from gpuconsole.preflight.interpreter.domain import string_sets as drawn_text
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Bound,
    BoundMethod,
    Function,
    Length,
    Native,
    NativeClass,
    OneOf,
    Share,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.numpy.array import Array, dtype_name, extents, make

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run


MOST_CALLED = 32
"""Functions of which one is called at random, that are all called."""


def drawn(run: Run, size: Value, dtype: str) -> Value:
    """Return an array of a size, or one number."""
    if size is None:
        return run.number("a number drawn at random")
    shape = extents(run, size)
    return shape if isinstance(shape, Unknown) else Array(shape, dtype)


def whole(run: Run, last: Value) -> Value:
    """Return a whole number drawn up to a bound, which is how large an extent made of it is."""
    high = last.high if isinstance(last, Length) else last
    has_bound = isinstance(high, int) and high >= 0
    return lengths.some(run, "a number drawn at random", high if has_bound else None)


class Random(Native):
    """`np.random.RandomState`, `default_rng`, and the module's own functions."""

    label = "RandomState"

    @exposed.method("rand")
    def do_uniform_of(self, run: Run, *shape: Value) -> Value:
        """Draw shares of a shape given as arguments."""
        return drawn(run, list(shape), "float64") if shape else _share(run)

    @exposed.method("random", "random_sample", "sample", "ranf")
    def do_share(self, run: Run, size: Value = None, dtype: Value = None, **_: Value) -> Value:
        """Draw shares."""
        return _share(run) if size is None else drawn(run, size, dtype_name(dtype, "float64"))

    @exposed.method("randn")
    def do_rand(self, run: Run, *shape: Value) -> Value:
        """Draw floats of a shape given as arguments."""
        return drawn(run, list(shape) if shape else None, "float64")

    @exposed.method("standard_normal", "standard_exponential")
    def do_random(self, run: Run, size: Value = None, dtype: Value = None, **_: Value) -> Value:
        """Draw floats."""
        return drawn(run, size, dtype_name(dtype, "float64"))

    @exposed.method(
        "uniform", "normal", "beta", "gamma", "laplace", "lognormal", "logistic", "gumbel",
        "vonmises", "wald",
    )  # fmt: skip
    def do_uniform(
        self, run: Run, low: Value = 0, high: Value = 1, size: Value = None, **_: Value
    ) -> Value:
        """Draw floats of a distribution with two parameters."""
        if size is None and isinstance(low, Array) and low.shape:
            size = low.shape
        return drawn(run, size, "float64")

    @exposed.method("randint", "integers")
    def do_randint(self, run: Run, low: Value, high: Value = None, size: Value = None,
                   dtype: Value = None, endpoint: Value = False, **_: Value) -> Value:  # fmt: skip
        """Draw whole numbers below a bound."""
        if size is None:
            last = low if high is None else high
            if isinstance(last, (int, Length)) and endpoint is not True:
                last = lengths.plus(last, 1, -1)
            return whole(run, last)
        array = drawn(run, size, dtype_name(dtype, "int64"))
        last = low if high is None else high
        if isinstance(array, Array) and isinstance(last, int):
            array.high = Bound(last if endpoint is True else last - 1)
        return array

    @exposed.method("choice")
    def do_choice(self, run: Run, a: Value, size: Value = None, *_: Value, **__: Value) -> Value:
        """Draw from a list, the rows of an array, or the numbers below one."""
        if isinstance(a, (int, Length)):
            last = lengths.plus(a, 1, -1)
            return whole(run, last) if size is None else _below_all(run, last, size)
        if isinstance(a, (list, tuple)) and a and all(isinstance(item, str) for item in a):
            text = drawn_text.one_of(run, a)
            return text if size is None else _many(run, text, size)
        called = _called(run, a)
        if called is not None and (size is None or isinstance(size, (int, Length))):
            return called if size is None else lengths.opened(called, size)
        array = make(run, a)
        if isinstance(array, Unknown) or not array.shape:
            return run.unknown("what is drawn from data", array)
        if size is None:
            if isinstance(a, (list, tuple)) and array.shape == (len(a),):
                bound = max(a) if all(isinstance(item, int) for item in a) else None
                return whole(run, bound)
            return Array(array.shape[1:], array.dtype)
        shape = extents(run, size)
        if isinstance(shape, Unknown):
            return shape
        return Array((*shape, *array.shape[1:]), array.dtype)

    @exposed.method("permutation", "permuted")
    def do_permutation(self, run: Run, n: Value, *_: Value, **__: Value) -> Value:
        """Shuffle a copy."""
        if isinstance(n, (int, Length)):
            result = drawn(run, n, "int64")
            if isinstance(result, Array) and isinstance(n, int):
                result.high = n - 1
            return result
        array = make(run, n)
        return array if isinstance(array, Unknown) else Array(array.shape, array.dtype)

    @exposed.method("seed", "set_state", "get_state")
    def do_seed(self, run: Run, *_: Value, **__: Value) -> None:
        """Seed, or set a state: no size changes."""

    @exposed.method("shuffle")
    def do_shuffle(self, run: Run, value: Value = None, *_: Value, **__: Value) -> None:
        """Shuffle in place: the positions of numbers are unknown afterwards."""
        if isinstance(value, Array):
            value.forget()


class RandomModule(Random):
    """`np.random`."""

    label = "np.random"

    @exposed.prop("RandomState", "default_rng")
    def get_RandomState(self, run: Run) -> Value:  # noqa: N802 - NumPy's name
        """Give the class."""
        return NativeClass(Random, "RandomState")


def _many(run: Run, value: Value, size: Value) -> Value:
    counted = isinstance(size, (int, Length))
    return lengths.opened(value, size) if counted else run.unknown("what is drawn at random", size)


def _below_all(run: Run, last: Value, size: Value) -> Value:
    """Return whole numbers drawn up to a bound."""
    array = drawn(run, size, "int64")
    if isinstance(array, Array) and isinstance(last, int):
        array.high = Bound(last)
    return array


def _between(run: Run, low: Value, high: Value) -> Value:
    return whole(run, high)


def _below(run: Run, low: Value, high: Value = None, *_: Value) -> Value:
    last = low if high is None else high
    return whole(run, lengths.plus(last, 1, -1) if isinstance(last, (int, Length)) else last)


def _one_of(run: Run, items: Value) -> Value:
    if isinstance(items, (int, Unknown)):
        return run.unknown("what is drawn from data", items)
    candidates = lengths.items_of(list(run.interp.iterate(items)))
    if candidates and all(
        equality.same(candidates[0], candidate) for candidate in candidates[1:64]
    ):
        return candidates[0]
    if candidates and all(isinstance(candidate, int) for candidate in candidates):
        return whole(run, max(candidates))
    if candidates and all(isinstance(candidate, str) for candidate in candidates):
        return drawn_text.one_of(run, candidates)
    called = _called(run, candidates)
    return called or join.item(run, candidates, run.unknown("what is drawn at random"), False)


def _called(run: Run, items: Value) -> OneOf | None:
    """Return one of a few things that can be called; None where they are something else."""
    if not isinstance(items, (list, tuple)) or not 0 < len(items) <= MOST_CALLED:
        return None
    if not any(items) or not all(map(_can_be_called, items)):
        return None
    why = run.unknown("what is drawn at random")
    return OneOf(why.file, why.line, why.reason, why.root, tuple(items))


def _can_be_called(value: Value) -> bool:
    if value is None or isinstance(value, (Function, BoundMethod)):
        return True
    cls = value.cls if isinstance(value, Native) else None
    return cls is not None and cls.find("__call__") is not MISSING and all(
        cls.find(name) is MISSING for name in ("__len__", "__bool__"))  # fmt: skip


def _weighted(run: Run, items: Value, weights: Value = None, *_: Value, k: Value = 1,
              **__: Value) -> Value:  # fmt: skip
    """`random.choices`: what has no weight is never drawn."""
    are_listed = isinstance(items, (list, tuple)) and isinstance(weights, (list, tuple))
    if are_listed and len(items) == len(weights) and any(weight != 0 for weight in weights):
        pairs = zip(items, weights, strict=True)
        items = [item for item, weight in pairs if isinstance(weight, Unknown) or weight != 0]
    return _sample(run, items, k)


def _sample(run: Run, items: Value, k: Value = 1, *_: Value, **__: Value) -> Value:
    return lengths.opened(_one_of(run, items), k) if isinstance(k, (int, Length)) else (
        run.unknown("how many are drawn at random", k))  # fmt: skip


def _share(run: Run, *_: Value, **__: Value) -> Value:
    return Share(run.file, run.line, "a number drawn at random")


def _real(run: Run, *_: Value, **__: Value) -> Value:
    return run.number("a number drawn at random")


STANDARD: dict[str, Callable[..., Value]] = {
    "randint": _between, "randrange": _below, "choice": _one_of, "sample": _sample,
    "choices": _weighted,
    "random": _share,
    **dict.fromkeys(("uniform", "gauss", "normalvariate", "getrandbits", "betavariate",
                     "triangular", "expovariate"), _real),
}  # fmt: skip
"""The functions of the standard module `random` that draw."""


class StandardRandom(Native):
    """`random.Random`: the module's functions as methods."""

    label = "random.Random"

    @exposed.method("seed", "shuffle", "setstate", "getstate")
    def do_seed(self, run: Run, *_: Value, **__: Value) -> None:
        """Seed, shuffle in place, or set a state: no size changes."""


def _as_method(call: Callable[..., Value]) -> Callable[..., Value]:
    return lambda self, run, *args, **kwargs: call(run, *args, **kwargs)


for _name, _call in STANDARD.items():
    exposed.add(StandardRandom, "methods", _name, _as_method(_call))
