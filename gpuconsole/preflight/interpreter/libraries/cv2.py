"""`cv2`: pictures as arrays, with a size that is known once they are resized."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from gpuconsole.preflight.interpreter.domain import exposed, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    OPEN,
    Bound,
    Length,
    Namespace,
    Native,
    NativeFunction,
    Symbol,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array, dtype_name, extents, picked, promote
from gpuconsole.preflight.interpreter.numpy.array_methods import transposed

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

GRAYSCALE, COLOR = 0, 1
UNKNOWN_SIDE = 1 << 20
"""A side longer than any picture's, to tell which slices do not depend on it."""
LARGE = (
    "Assumed: pictures on disk are larger than the sizes that the script compares them with, "
    "such as those of its crops."
)

ALIKE = "Assumed: pictures of one sample, such as an image and its mask, have one size."
Axis = Literal["height", "width"]
_SIDES: Mapping[Axis, str] = {"height": "height of a picture:", "width": "width of a picture:"}
"""How the symbols of lengths begin that are sides of pictures."""


def unknown_side(run: Run, axis: Axis) -> Length:
    """Return a side of a picture on disk: a length that is greater than any that is written."""
    some = lengths.some(run, "the size of a picture on disk")
    key = f"{_SIDES[axis]}{some.terms[0][0].key}"
    side = replace(some, const=UNKNOWN_SIDE, terms=((Symbol(key), 1),))
    run.findings.assumed(LARGE, side)
    return side


def same_side(run: Run, left: Value, right: Value) -> bool:
    """Whether two lengths are heights, or widths, of pictures: taken to be those of one sample."""
    axes = [_axis_of(side) for side in (left, right)]
    if axes[0] is None or axes[0] != axes[1]:
        return False
    run.findings.assumed(ALIKE, left)
    return True


def _axis_of(value: Value) -> str | None:
    if not isinstance(value, Length) or value.const != UNKNOWN_SIDE or len(value.terms) != 1:
        return None
    symbol, times = value.terms[0]
    return next(
        (axis for axis in _SIDES.values() if times == 1 and symbol.key.startswith(axis)), None
    )


class Photo(Native):
    """A picture out of a file: an array of which the sides are not known."""

    label = "picture"
    also = (Array,)

    def __init__(self, channels: int | None = 3, dtype: str = "uint8") -> None:
        super().__init__()
        self.channels, self.dtype = channels, dtype
        self.sides: tuple[Length, Length] | None = None
        """Height and width, once the script has asked for them."""

    def joined(self, other: Value) -> Photo | None:
        """Return what is either picture, of which the sides are not known; None if neither is."""
        tail = () if self.channels is None else (self.channels,)
        if isinstance(other, Photo):
            same = other.channels == self.channels
        else:
            same = isinstance(other, Array) and (len(other.shape), *other.shape[2:]) == (
                2 + len(tail), *tail)  # fmt: skip
        return Photo(self.channels, self.dtype) if same and other.dtype == self.dtype else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of it as an array: sides that nothing bounds."""
        sides = (Bound(OPEN**2), Bound(OPEN**2))
        if self.sides is not None:
            sides = (Bound.of(self.sides[0]), Bound.of(self.sides[1]))
        return sides if self.channels is None else (*sides, self.channels)

    def as_array(self) -> Array:
        """Return an array with impossibly long sides."""
        tail = () if self.channels is None else (self.channels,)
        return Array((UNKNOWN_SIDE, UNKNOWN_SIDE, *tail), self.dtype)

    def viewed(self, shape: tuple[int, ...], data: Value = None) -> Array:
        """Return a view with its axes in another order."""
        return Array(shape, self.dtype)

    def unsized(self, run: Run, dtype: str) -> Photo:
        """Return what `np.array` makes: the same, of another type where one is wanted."""
        return Photo(self.channels, dtype or self.dtype)

    @exposed.prop("shape")
    def get_shape(self, run: Run) -> Value:
        """Give the sides, which are not known, and the channels."""
        if self.sides is None:
            self.sides = unknown_side(run, "height"), unknown_side(run, "width")
        return self.sides if self.channels is None else (*self.sides, self.channels)

    @exposed.prop("ndim")
    def get_ndim(self, run: Run) -> Value:
        """Give the number of axes."""
        return 2 if self.channels is None else 3

    @exposed.method("astype")
    def do_astype(self, run: Run, dtype: Value, **_: Value) -> Value:
        """Convert."""
        return Photo(self.channels, dtype_name(dtype, self.dtype))

    @exposed.method("transpose")
    def do_transpose(self, run: Run, *order: Value) -> Value:
        """Permute the axes: an array with unknown sides, of which parts may be known."""
        sides = [Bound.of(side) for side in self.get_shape(run)[:2]]
        tail = () if self.channels is None else (self.channels,)
        return transposed(run, Array((*sides, *tail), self.dtype), *order)

    @exposed.method("copy")
    def do_copy(self, run: Run, *_: Value) -> Value:
        """Copy."""
        return self

    def operate(
        self, interp: Interpreter, kind: type[ast.operator], other: Value, *, first: bool
    ) -> Value:
        """Compute with each pixel."""
        dtype = other.dtype if isinstance(other, (Array, Photo)) else "uint8"
        promoted = promote(self.dtype, dtype)
        real = kind is ast.Div or isinstance(other, float)
        return Photo(
            self.channels, "float64" if real and not promoted.startswith("float") else promoted
        )

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a part: a crop of a known size, or a picture of an unknown one."""
        part = picked(interp.run, self.as_array(), key)
        sides = part.shape[:2] if isinstance(part, Array) else ()
        if len(sides) == 2 and all(side < UNKNOWN_SIDE for side in sides):
            return part
        if isinstance(part, Array) and len(part.shape) < 2:
            is_inside = max(part.shape, default=0) < UNKNOWN_SIDE
            return part if is_inside else interp.run.unknown("a row of a picture on disk")
        whole = isinstance(part, Array) and len(part.shape) == 3
        return Photo(part.shape[2] if whole else None, self.dtype)


def _read(run: Run, path: Value = None, flag: Value = COLOR, *_: Value) -> Value:
    return Photo(None if flag == GRAYSCALE else 3)


def _tail(picture: Value) -> tuple[int, ...]:
    if isinstance(picture, Photo):
        return () if picture.channels is None else (picture.channels,)
    # OpenCV's results have no axis for one channel.
    return tuple(picture.shape[2:]) if picture.shape[2:] != (1,) else ()


def _resize(run: Run, picture: Value, dsize: Value = None, *_: Value, fx: Value = None,
            fy: Value = None, **__: Value) -> Value:  # fmt: skip
    if isinstance(picture, Unknown):
        return picture
    if dsize is None:
        is_scaled = isinstance(picture, Array) and isinstance(fx, (int, float))
        if not is_scaled or not isinstance(fy, (int, float)):
            return Photo(picture.channels, picture.dtype) if isinstance(picture, Photo) else (
                run.unknown("how far a picture is scaled", fx))  # fmt: skip
        height, width = picture.shape[:2]
        return Array((round(height * fy), round(width * fx), *_tail(picture)), picture.dtype)
    return _sized(run, picture, dsize)


def _sized(run: Run, picture: Value, size: Value) -> Value:
    sides = extents(run, size)
    if isinstance(sides, Unknown) or max(sides) >= OPEN:
        tail = _tail(picture)
        return Photo(tail[0] if tail else None, picture.dtype)
    return Array((sides[1], sides[0], *_tail(picture)), picture.dtype)


def _warp(run: Run, picture: Value, matrix: Value, dsize: Value, *_: Value, **__: Value) -> Value:
    return picture if isinstance(picture, Unknown) else _sized(run, picture, dsize)


def _color(run: Run, picture: Value, code: Value, *_: Value) -> Value:
    if isinstance(picture, Unknown) or not isinstance(code, str):
        return picture
    target = code.split("2")[-1]
    channels = {"GRAY": None, "BGRA": 4, "RGBA": 4}.get(target, 3)
    if isinstance(picture, Photo):
        return Photo(channels, picture.dtype)
    tail = () if channels is None else (channels,)
    return Array((*picture.shape[:2], *tail), picture.dtype)


def _border(run: Run, picture: Value, top: Value, bottom: Value, left: Value, right: Value,
            *_: Value, **__: Value) -> Value:  # fmt: skip
    if not isinstance(picture, Array):
        return picture
    sides = extents(run, [run.interp.binary(ast.Add, picture.shape[0], run.interp.binary(
        ast.Add, top, bottom)), run.interp.binary(ast.Add, picture.shape[1], run.interp.binary(
            ast.Add, left, right))])  # fmt: skip
    return sides if isinstance(sides, Unknown) else Array((*sides, *_tail(picture)), picture.dtype)


def _keep(run: Run, picture: Value, *_: Value, **__: Value) -> Value:
    return picture


def _threshold(run: Run, picture: Value, *_: Value, **__: Value) -> Value:
    return (run.number("a threshold"), picture)


def _split(run: Run, picture: Value) -> Value:
    if isinstance(picture, Array):
        return [Array(picture.shape[:2], picture.dtype) for _ in range(picture.shape[2])]
    if isinstance(picture, Photo):
        return [Photo(None, picture.dtype) for _ in range(picture.channels or 1)]
    return picture


def _merge(run: Run, parts: Value) -> Value:
    """Put pictures of one channel together."""
    unknown = first_unknown(parts)
    if unknown is not None:
        return unknown
    first = parts[0]
    if isinstance(first, Photo):
        return Photo(len(parts), first.dtype)
    return Array((*first.shape[:2], len(parts)), first.dtype)


def _nothing(run: Run, *_: Value, **__: Value) -> None:
    return None


def namespace() -> Namespace:
    """Return `cv2`."""
    table: dict[str, Callable[..., Value]] = {
        "imread": _read, "imdecode": _read, "resize": _resize, "cvtColor": _color,
        "warpAffine": _warp, "warpPerspective": _warp, "copyMakeBorder": _border,
        "threshold": _threshold, "split": _split, "merge": _merge,
        "imwrite": _nothing, "imshow": _nothing,
        "waitKey": _nothing, "setNumThreads": _nothing,
        "getRotationMatrix2D": lambda run, *a, **k: Array((2, 3), "float64"),
        **dict.fromkeys(("flip", "GaussianBlur", "blur", "medianBlur", "dilate", "erode",
                         "filter2D", "normalize", "addWeighted", "equalizeHist", "bilateralFilter",
                         "convertScaleAbs", "LUT"), _keep),
    }  # fmt: skip
    colors = ("BGR2RGB", "RGB2BGR", "BGR2GRAY", "RGB2GRAY", "GRAY2BGR", "GRAY2RGB", "BGR2HSV",
              "RGB2HSV", "HSV2BGR", "HSV2RGB", "BGR2LAB", "RGB2LAB", "LAB2BGR", "BGR2YCrCb",
              "BGRA2BGR", "RGBA2RGB", "BGR2BGRA", "RGBA2BGR", "BGRA2RGB")  # fmt: skip
    plain = dict.fromkeys(("INTER_NEAREST", "INTER_LINEAR", "INTER_AREA", "INTER_CUBIC",
                           "INTER_LANCZOS4", "BORDER_CONSTANT", "BORDER_REFLECT",
                           "BORDER_REPLICATE", "BORDER_REFLECT_101", "THRESH_BINARY",
                           "THRESH_OTSU", "IMREAD_ANYCOLOR"), 2)  # fmt: skip
    names: dict[str, Value] = {key: NativeFunction(call, f"cv2.{key}")
                               for key, call in table.items()}  # fmt: skip
    return Namespace("cv2", {
        **names, **{"COLOR_" + name: name for name in colors}, **plain,
        "IMREAD_GRAYSCALE": GRAYSCALE, "IMREAD_COLOR": COLOR, "IMREAD_UNCHANGED": -1,
        "ocl": Namespace("cv2.ocl", {"setUseOpenCL": NativeFunction(_nothing, "setUseOpenCL")}),
    })  # fmt: skip
