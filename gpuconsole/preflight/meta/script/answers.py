"""The answers to a script that asks for numbers that only data determines.

The answer is a plausible constant: ones, no faults (`isnan`, `isinf`), and two numbers of which one
is unknown are not the same (`positives.sum() == 0`). Where a script decides by one, the decision is
a choice that the answer tells, with file and line. A number may become a length: scripts that ask
for a whole one, or for another in a form that cannot be watched, are run again with other
numbers and refused where their memory changes with them (`probe.with_other_numbers`). What `item()`
returns of floats is a `Number`, which is watched: it is noted where it becomes a whole number or
anything but a `Number`.
"""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, SupportsIndex, overload

from ..operators import dispatch
from ..sizes import count, word
from ..state import STATE, rightly
from ..tensor.tensor import Tensor
from ..values import known, ranges
from . import early_exits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from numpy import ndarray
    from numpy.typing import DTypeLike

    from ..types import Result

FAULTS = {"isnan", "isinf", "isnan_v2", "isinf_v2"}
"""Operators that find nothing in plausible data."""
CARRIED = {"any", "all", "sum", "max", "mean", "cast", "reshape", "squeeze", "logical_or",
           "logical_and", "bitwise_or", "bitwise_and", "clone", "assign"}  # fmt: skip
"""Operators that find nothing where nothing was found."""
COUNTED = {"cast", "reshape", "squeeze", "scale", "add", "subtract", "multiply", "divide",
           "minimum", "maximum", "clone", "assign"}  # fmt: skip
"""Operators that make a count of counts."""
SIZES = {"shape", "shape64", "numel"}
"""Operators that tell sizes."""
LIBRARY = "a library"
"""Where code runs that is none of the script's."""
BRANCHES = ("bool",)
WATCHED = ("item", "bool", "format")
"""What is asked of floats and needs no second run: it becomes a `Number`, a choice or a text."""
SOLVED, MOST_SOLVED = 1024, 2**22
"""Rows of the largest matrices that scripts solve for outside of Paddle, and elements of all."""
MOST_PLACES = 8
"""Places that are named at which data was asked for."""
WHOLE = {"uint8", "int8", "int16", "int32", "int64"}
"""Types of whole numbers, which a script may use as lengths."""


def install(root: str) -> None:
    """Answer for unknown data from now on; `root` is the folder of the script's own code."""
    call = dispatch.call

    def watched(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Result:
        result = call(name, args, kwargs)
        if name in SIZES:
            _sized(result, name, args[0])
            return result
        points = _points(name, args)
        if points and isinstance(result, Tensor):
            result.__dict__["m_points"] = points
        ranges.note(name, args, result)
        if args and name.endswith("_"):
            ranges.forget(args[0])
        found_none = name in CARRIED and any(map(_is_nothing, args))
        if name in FAULTS or found_none or _compares(name, result):
            for tensor in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(tensor, Tensor):
                    tensor.__dict__["m_nothing"] = True
        return result

    dispatch.call = watched
    STATE.run = watched
    STATE.value_of = lambda tensor, what: value(tensor, what, root)
    STATE.number_of = Number
    STATE.where = lambda: place(root)
    Number.root = root
    for item in CARRYING:
        setattr(math, item, carrying(getattr(math, item)))
    _draw_by_chances()


def _draw_by_chances() -> None:
    """Let NumPy draw by chances that are unknown data: they are alike, and need not make one."""
    import numpy

    def evenly(chances: object) -> object:
        weights = numpy.asarray(chances) if STATE.made_up_at and chances is not None else None
        if (
            weights is None
            or weights.ndim != 1
            or not weights.size
            or (weights != weights[0]).any()
        ):
            return chances
        return numpy.full(weights.shape, 1 / weights.size)

    choose, draw = numpy.random.choice, numpy.random.multinomial
    numpy.random.choice = lambda a, size=None, replace=True, p=None: choose(
        a, size, replace, evenly(p)
    )
    numpy.random.multinomial = lambda n, pvals, size=None: draw(n, evenly(pvals), size)


def _sized(result: Result, name: str, tensor: object) -> None:
    """Give the sizes of a tensor their data, which is known also where the tensor's is not."""
    import numpy

    if isinstance(tensor, Tensor) and isinstance(result, Tensor):
        shape = [int(extent) for extent in tensor.m_shape]
        number = math.prod(shape) if name == "numel" else shape
        result.m_known = known.of_array(numpy.asarray(number, word(result.m_dtype)))


def _points(name: str, args: Sequence[object]) -> int:
    """Return how many points a sum may have counted in a map, 0 where it counts none."""
    tensors = [argument for argument in args if isinstance(argument, Tensor)]
    if name == "sum" and tensors and count(tensors[0].m_shape) > known.MOST:
        return count(tensors[0].m_shape)
    if name in COUNTED:
        return max((tensor.__dict__.get("m_points", 0) for tensor in tensors), default=0)
    return 0


def _compares(name: str, result: Result) -> bool:
    """Tell whether two numbers were held against each other: of a mask some points are true."""
    return name == "equal" and isinstance(result, Tensor) and count(result.m_shape) == 1


def _is_nothing(value: object) -> bool:
    return isinstance(value, Tensor) and value.__dict__.get("m_nothing", False)


def value(tensor: Tensor, what: str, root: str) -> ndarray:
    """Return an array for a tensor of unknown data."""
    import numpy

    nothing = _is_nothing(tensor)
    STATE.made_up_at[where(root)] = None
    STATE.made_up += 1
    if what in BRANCHES:
        stays = early_exits.here(os.path.join(os.path.abspath(root), ""))
        nothing = nothing if stays is None else not stays
        nothing = tested(where(root), nothing)
        STATE.choice(f"{place(root)}a test of unknown data is {not nothing}")
    array = known.plausible(tensor)
    if nothing:
        return numpy.broadcast_to(numpy.zeros((), array.dtype), array.shape)
    whole = what == "int" or word(tensor.m_dtype) in WHOLE
    if whole or (word(tensor.m_dtype) != "bool" and what not in WATCHED):
        noted(root)
    if whole and what == "numpy" and known.MOST < array.size <= known.MOST_ONES:
        return _parted(array)
    if array.dtype.kind == "f" and ranges.is_chance(tensor):
        return numpy.broadcast_to(numpy.asarray(1 / STATE.number, array.dtype), array.shape)
    if array.dtype.kind in "fc" and what == "numpy" and _is_square(array.shape):
        return _regular(array)
    number = _counted(tensor.__dict__.get("m_points", 0)) + ranges.more(tensor)
    return numpy.broadcast_to(numpy.asarray(number, array.dtype), array.shape)


def _is_square(shape: Sequence[int]) -> bool:
    """Tell whether an array may be of matrices that a script solves for."""
    return len(shape) > 1 and 1 < shape[-1] == shape[-2] <= SOLVED and count(shape) <= MOST_SOLVED


def _regular(array: ndarray) -> ndarray:
    """Return matrices that have an inverse, which those of ones have not."""
    import numpy

    filled = numpy.full(array.shape, STATE.number, array.dtype)
    places = numpy.arange(array.shape[-1])
    filled[..., places, places] *= 2
    return filled


def _counted(points: int) -> int:
    """Return what a number of unknown data is taken to be that may count so many points."""
    if not points:
        return STATE.number
    STATE.counted = True
    return {"few": 1, "all": points}.get(STATE.counts, STATE.number)


def _parted(array: ndarray) -> ndarray:
    """Return a map of whole numbers in which some points belong to something and some to nothing,
    as in the maps that scripts divide by them; runs with other numbers have other shares."""
    import numpy

    STATE.counted = True
    if STATE.counts == "all":
        return numpy.zeros(array.shape, array.dtype)
    filled = numpy.full(array.shape, STATE.number, array.dtype)
    filled.reshape(-1)[:: 2 if STATE.counts else STATE.number + 1] = 0
    return filled


def noted(root: str) -> None:
    """Note who asked for a number that may become a length."""
    STATE.numbers_at[where(root)] = None


def where(root: str) -> str:
    """Return file and line of the script's own code that is running, or that a library is."""
    return place(root).rstrip(": ") or LIBRARY


def tested(at: str, answer: bool) -> bool:
    """Note a test of unknown data; return its answer, the other one where the run before ended with
    an error after it."""
    if at == LIBRARY:
        return answer
    STATE.tests.pop(at, None)
    STATE.tests[at] = None
    return answer != (at in STATE.turned)


def made(number: int, root: str) -> int:
    """Return what a script gets for a number of data that was made up; other runs get others."""
    noted(root)
    return number * STATE.number


def place(root: str) -> str:
    """Return file and line of the script's own code that is running, as the start of a sentence."""
    prefix = os.path.join(os.path.abspath(root), "")
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if os.path.abspath(file).startswith(prefix) and "site-packages" not in file:
            return f"{os.path.relpath(file, prefix)}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""


class Number(float):
    """A number that only data could give, and what is computed of it: what is decided by it is a
    choice."""

    __slots__ = ()
    root = ""

    def _decided(self, answer: bool) -> bool:
        stays = early_exits.here(os.path.join(os.path.abspath(self.root), ""))
        answer = answer if stays is None else stays
        STATE.made_up += 1
        STATE.choice(f"{place(self.root)}a comparison with a number of unknown data is {answer}")
        return answer

    def __float__(self) -> float:
        noted(self.root)
        return float.__add__(self, 0.0)

    def __int__(self) -> int:
        noted(self.root)
        return float.__int__(self)

    __trunc__ = __int__

    def __ceil__(self) -> int:
        noted(self.root)
        return float.__ceil__(self)

    def __floor__(self) -> int:
        noted(self.root)
        return float.__floor__(self)

    @overload
    def __round__(self, digits: None = None) -> int: ...

    @overload
    def __round__(self, digits: SupportsIndex) -> Number: ...

    def __round__(self, digits: SupportsIndex | None = None) -> int | Number:
        if digits is not None:
            return Number(float.__round__(self, digits))
        noted(self.root)
        return float.__round__(self)

    def __divmod__(self, other: float) -> tuple[float, float]:
        return self // other, self % other

    def __array__(self, dtype: DTypeLike = None, copy: object = None) -> ndarray:
        import numpy

        noted(self.root)
        return numpy.asarray(float.__add__(self, 0.0), dtype)

    def __lt__(self, other: float) -> bool:
        return self._decided(float.__lt__(self, other))

    def __le__(self, other: float) -> bool:
        return self._decided(float.__le__(self, other))

    def __gt__(self, other: float) -> bool:
        return self._decided(float.__gt__(self, other))

    def __ge__(self, other: float) -> bool:
        return self._decided(float.__ge__(self, other))


def carrying(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that returns a `Number` of a `Number`."""

    def call(*args: object) -> object:
        try:
            result = function(*args)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise rightly(error) from None
        if type(result) is float and any(type(argument) is Number for argument in args):
            return Number(result)
        return result

    return call


CARRIED_BY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
for _kind in CARRIED_BY:
    for _name in (f"__{_kind}__", f"__r{_kind}__"):
        setattr(Number, _name, carrying(getattr(float, _name)))
for _name in ("__neg__", "__pos__", "__abs__"):
    setattr(Number, _name, carrying(getattr(float, _name)))
CARRYING = ("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "pow", "fabs", "fmod", "hypot",
            "sin", "cos", "tan", "tanh", "copysign", "ldexp", "degrees", "radians")  # fmt: skip
"""Functions of `math` that give a `Number` for one."""


def chosen() -> list[str]:
    """Return the choices as sentences."""
    return [f"Taken for granted: {text}." for text in sorted(STATE.choices)]


def doubts() -> list[str]:
    """Return what the run rests on that only data could tell, as sentences."""
    places = ", ".join(list(STATE.made_up_at)[:MOST_PLACES])
    asked = f"Data that only a real run has was asked for at {places}."
    return [*chosen(), *([asked] if places else ())]
