"""Pictures and transforms: what shape a data set's images have when they reach the loader."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    ShapeFault,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.libraries.cv2 import Photo, unknown_side
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array, shape_of
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import broadcast
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

TURNS = (2, 4, 5, 6)
"""Of `Image.transpose`: by 90 and 270 degrees, and along the diagonals."""
CHANNELS = {
    "RGB": 3, "L": 1, "RGBA": 4, "1": 1, "P": 1, "CMYK": 4, "HSV": 3, "YCbCr": 3, "LAB": 3, "LA": 2,
    "I": 1, "F": 1,
}  # fmt: skip


ONE_CHANNEL = (
    "Assumed: pictures that become arrays without `convert` have one channel, as masks have."
)


class Picture(Native):
    """A PIL image; height, width or channels are None where the script does not say them."""

    label = "Image"

    def __init__(
        self, height: int | None = None, width: int | None = None, channels: int | None = None
    ) -> None:
        super().__init__()
        self.height, self.width, self.channels = height, width, channels
        self.sides: tuple[Value, Value] | None = None
        """Width and height, once the script has asked for them."""

    def pixels(self) -> tuple[int, ...]:
        """Return the shape of the picture as an array."""
        if self.height is None or self.width is None or self.channels is None:
            raise TypeError("the size of a picture that the script does not state")
        if self.channels == 1:
            return (self.height, self.width)
        return (self.height, self.width, self.channels)

    def unsized(self, run: Run, dtype: str) -> Photo | None:
        """Return the array that is made of a picture with unknown sides."""
        if self.height is not None and self.width is not None:
            return None
        if self.channels is None:
            why = run.unknown("the mode of a picture on disk")
            run.findings.assumed(ONE_CHANNEL, why)
        return Photo(None if self.channels in (1, None) else self.channels, dtype or "uint8")

    def alike(self, other: Picture) -> bool:
        """Whether two pictures have one size, as far as it is known."""
        sizes = (self.height, self.width, self.channels)
        return None not in sizes and sizes == (other.height, other.width, other.channels)

    def joined(self, other: Value) -> Picture | None:
        """Return what is either picture; None for what is no picture of as many channels."""
        if not isinstance(other, Picture) or other.channels != self.channels:
            return None
        height = self.height if self.height == other.height else None
        width = self.width if self.width == other.width else None
        return Picture(height, width, self.channels)

    @exposed.prop("size")
    def get_size(self, run: Run) -> Value:
        """Give (width, height)."""
        if self.sides is None:
            self.sides = (
                unknown_side(run, "width") if self.width is None else self.width,
                unknown_side(run, "height") if self.height is None else self.height,
            )
        return self.sides

    @exposed.method("convert")
    def do_convert(self, run: Run, mode: Value = "RGB") -> Value:
        """Change the channels."""
        return Picture(self.height, self.width, CHANNELS.get(mode))

    @exposed.method("resize")
    def do_resize(self, run: Run, size: Value, *_: Value, **__: Value) -> Value:
        """Resize to (width, height)."""
        if first_unknown(size) is not None:
            return Picture(None, None, self.channels)
        return Picture(size[1], size[0], self.channels)

    @exposed.method("crop")
    def do_crop(self, run: Run, box: Value = None) -> Value:
        """Cut out (left, upper, right, lower)."""
        if box is None:
            return self
        sides = [run.interp.binary(ast.Sub, box[at + 2], box[at]) for at in (1, 0)]
        if first_unknown(sides) is not None or not all(
            isinstance(side, (int, float)) for side in sides
        ):
            return Picture(None, None, self.channels)
        return Picture(int(sides[0]), int(sides[1]), self.channels)

    @exposed.method("rotate")
    def do_rotate(self, run: Run, angle: Value = 0, *_: Value, expand: Value = False,
                  **__: Value) -> Value:  # fmt: skip
        """Turn; a picture that grows with it has an unknown size."""
        return Picture(None, None, self.channels) if expand not in (False, 0, None) else self

    @exposed.method("transpose")
    def do_transpose(self, run: Run, method: Value = 0) -> Value:
        """Flip, or turn by right angles."""
        return Picture(self.width, self.height, self.channels) if method in TURNS else self

    @exposed.method("transform")
    def do_transform(self, run: Run, size: Value, *_: Value, **__: Value) -> Value:
        """Shear, turn or move into a picture of (width, height)."""
        if size is self.sides:
            return self
        return self.do_resize(run, size)

    @exposed.method("split")
    def do_split(self, run: Run) -> Value:
        """Give a picture for each channel."""
        return tuple(Picture(self.height, self.width, 1) for _ in range(self.channels or 1))

    @exposed.prop("width")
    def get_width(self, run: Run) -> Value:
        """Give the width."""
        return self.get_size(run)[0]

    @exposed.prop("height")
    def get_height(self, run: Run) -> Value:
        """Give the height."""
        return self.get_size(run)[1]

    @exposed.prop("mode")
    def get_mode(self, run: Run) -> Value:
        """Give the mode."""
        modes = {1: "L", 3: "RGB", 4: "RGBA"}
        return modes.get(self.channels or 0) or run.unknown("the mode of a picture on disk")

    @exposed.method("copy", "close", "filter", "load", "point", "save", "paste", "enhance")
    def do_copy(self, run: Run, *_: Value, **__: Value) -> Value:
        """Copy or filter without changing the size."""
        return self


def opened(run: Run, *_: Value) -> Value:
    """`Image.open`: the file is not looked at."""
    return Picture()


def loaded(run: Run, *_: Value, **__: Value) -> Value:
    """`paddle.vision.image_load`: a picture of the library that the script chose."""
    return Photo() if run.image_backend == "cv2" else Picture()


def from_array(run: Run, array: Value, *_: Value, **__: Value) -> Value:
    """`Image.fromarray`."""
    if isinstance(array, Photo):
        return Picture(None, None, array.channels or 1)
    shape = array.shape
    return Picture(shape[0], shape[1], shape[2] if len(shape) > 2 else 1)


def pil() -> Namespace:
    """Return `PIL`."""
    image = Namespace(
        "PIL.Image",
        {
            "open": NativeFunction(opened, "open"),
            "fromarray": NativeFunction(from_array, "fromarray"),
            "Image": NativeClass(Picture, "Image"),
            "NEAREST": 0,
            "BOX": 4,
            "BILINEAR": 2,
            "HAMMING": 5,
            "BICUBIC": 3,
            "LANCZOS": 1,
            "ANTIALIAS": 1,
            "AFFINE": 0,
            "FLIP_LEFT_RIGHT": 0,
            "FLIP_TOP_BOTTOM": 1,
            "ROTATE_90": 2,
            "ROTATE_180": 3,
            "ROTATE_270": 4,
            "TRANSPOSE": 5,
            "TRANSVERSE": 6,
            "new": NativeFunction(
                lambda run, mode, size, *a: Picture(size[1], size[0], CHANNELS.get(mode)), "new"
            ),
        },
    )
    image.names["Resampling"] = image
    whole = dict.fromkeys(("mirror", "flip", "autocontrast", "equalize", "grayscale", "invert",
                           "posterize", "solarize", "exif_transpose"), keep)  # fmt: skip
    return Namespace("PIL", {
        "Image": image,
        "ImageOps": Namespace("PIL.ImageOps", {
            key: NativeFunction(call, key) for key, call in whole.items()}),
        "ImageEnhance": Namespace("PIL.ImageEnhance", dict.fromkeys(
            ("Brightness", "Color", "Contrast", "Sharpness"), NativeFunction(keep, "enhance"))),
        "ImageFilter": Namespace("PIL.ImageFilter", dict.fromkeys(
            ("GaussianBlur", "BoxBlur", "BLUR"), NativeFunction(keep, "filter"))),
        "ImageDraw": Silent(), "ImageFont": Silent(), "__version__": "12.0.0",
    })  # fmt: skip


class Planes(Array):
    """The result of `ToTensor`: a picture with its channels first, as transforms take tensors."""


def _picture(value: Value) -> Picture:
    if isinstance(value, Picture):
        return value
    if isinstance(value, Planes) and len(value.shape) == 3:
        return Picture(value.shape[1], value.shape[2], value.shape[0])
    if isinstance(value, Photo):
        return Picture(None, None, value.channels or 1)
    shape = value.shape
    return Picture(shape[0], shape[1], shape[2] if len(shape) > 2 else 1)


def _wrap(value: Value, picture: Picture) -> Value:
    """Return the kind of thing that came in: a picture stays one, an array keeps its axes."""
    if isinstance(value, Picture):
        return picture
    if isinstance(value, Photo) and (picture.height is None or picture.width is None):
        return Photo(picture.channels, value.dtype)
    pixels = picture.pixels()
    if isinstance(value, Planes):
        return Planes((picture.channels or 1, *pixels[:2]), value.dtype)
    if isinstance(value, Photo):
        return Array(pixels, value.dtype)
    if len(value.shape) == 3 and len(pixels) == 2:
        pixels = (*pixels, 1)
    return Array(pixels, value.dtype)


class Transform(Native):
    """One transform: `change` says what becomes of the shape."""

    label = "transform"
    change: Callable[..., Value]

    def init(self, run: Run, *args: Value, **kwargs: Value) -> None:
        """Keep the arguments."""
        self.args, self.kwargs = args, kwargs

    def call(self, interp: Interpreter, value: Value) -> Value:
        """Transform."""
        if isinstance(value, Unknown):
            return value
        return type(self).change(interp.run, value, *self.args, **self.kwargs)


class BaseTransform(Native):
    """`BaseTransform`: a user class says in `_apply_image` what becomes of a picture."""

    label = "BaseTransform"

    def call(self, interp: Interpreter, value: Value) -> Value:
        """Transform a picture, or the picture at the front of a sample."""
        apply = self.cls.find("_apply_image") if self.cls is not None else None
        if not isinstance(apply, Function):
            return interp.run.unknown("a transform of its own without _apply_image")
        method = interp.bind(apply, self)
        if isinstance(value, (list, tuple)):
            return (interp.call(method, [value[0]], {}), *value[1:])
        return interp.call(method, [value], {})


class Compose(Native):
    """`transforms.Compose`."""

    label = "Compose"

    def init(self, run: Run, transforms: Value, *_: Value) -> None:
        """Keep the parts."""
        self.parts = self.attrs["transforms"] = list(transforms)

    def call(self, interp: Interpreter, value: Value) -> Value:
        """Apply the parts in order."""
        for part in self.parts:
            value = interp.call(part, [value], {})
        return value


def keep(run: Run, value: Value, *_: Value, **__: Value) -> Value:
    """Flips, colour and blur keep the shape."""
    return value


def cropped(run: Run, value: Value, top: Value, left: Value, height: Value, width: Value) -> Value:
    """`crop`: a part of a known size."""
    return exact(run, value, (height, width))


def _sides(size: Value) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    return size[0], size[1]


def exact(run: Run, value: Value, size: Value, *_: Value, **__: Value) -> Value:
    """Crops to a size."""
    height, width = _sides(size)
    return _wrap(value, Picture(height, width, _picture(value).channels))


def resize(run: Run, value: Value, size: Value, *_: Value, **__: Value) -> Value:
    """`Resize`: two numbers are exact, one is the shorter side."""
    old = _picture(value)
    if not isinstance(size, int):
        return exact(run, value, size)
    if old.height is None or old.width is None:
        return _wrap(value, Picture(None, None, old.channels))
    short = min(old.height, old.width)
    picture = Picture(int(size * old.height / short), int(size * old.width / short), old.channels)
    return _wrap(value, picture)


def padded(run: Run, value: Value, padding: Value, *_: Value, **__: Value) -> Value:
    """`Pad`: one number, (left/right, top/bottom), or four."""
    old = _picture(value)
    if old.height is None or old.width is None:
        return value
    sides = [padding] * 4 if isinstance(padding, int) else list(padding) * (4 // len(padding))
    # Two numbers are for left and right, and for top and bottom.
    return _wrap(value, Picture(old.height + sides[1] + sides[3], old.width + sides[0] + sides[2],
                                old.channels))  # fmt: skip


def grayscale(run: Run, value: Value, num_output_channels: int = 1, *_: Value) -> Value:
    """`Grayscale`."""
    old = _picture(value)
    return _wrap(value, Picture(old.height, old.width, num_output_channels))


def to_tensor(run: Run, value: Value, data_format: Value = "CHW", *_: Value,
              **__: Value) -> Value:  # fmt: skip
    """`ToTensor`: channels first; bytes become float32, other arrays keep their type."""
    old = _picture(value)
    height, width = old.pixels()[:2]
    dtype = value.dtype if isinstance(value, Array) and value.dtype != "uint8" else "float32"
    if data_format == "HWC":
        return Array((height, width, old.channels or 1), dtype)
    return Planes((old.channels or 1, height, width), dtype)


def transposed(run: Run, value: Value, order: Value = (2, 0, 1), *_: Value, **__: Value) -> Value:
    """`Transpose`: an array with its axes permuted."""
    shape, dtype = shape_of(value)
    if len(shape) == 2:
        shape = (*shape, 1)
    return Array(tuple(shape[axis] for axis in order), dtype)


def normalized(run: Run, value: Value, mean: Value = 0.0, std: Value = 1.0,
               data_format: Value = "CHW", *_: Value, **__: Value) -> Value:  # fmt: skip
    """Return what `Normalize` makes: pixels less one mean a channel, broadcast as NumPy does it.

    The means have the shape [C, 1, 1] (CHW) or [1, 1, C] (HWC), so a picture without an axis of
    channels gets one in front (paddle.vision.transforms.functional_cv2.normalize).
    """
    shape, _dtype = shape_of(value)
    count = len(mean) if isinstance(mean, (list, tuple)) else 3
    channels = (count, 1, 1) if data_format == "CHW" else (1, 1, count)
    is_exact = all(isinstance(extent, int) and not isinstance(extent, Bound) for extent in shape)
    joined = broadcast(shape, channels) if is_exact else shape
    if joined is None:
        raise ShapeFault(
            f"Normalize with {count} channel values and data_format {data_format} "
            f"gets {list(shape)}",
            shape,
            (count,),
        )
    return (Planes if isinstance(value, Planes) else Array)(joined, "float32")


CHANGES: dict[str, Callable[..., Value]] = {
    "Resize": resize, "CenterCrop": exact, "RandomCrop": exact, "RandomResizedCrop": exact,
    "Pad": padded, "Grayscale": grayscale, "ToTensor": to_tensor, "Transpose": transposed,
    "Normalize": normalized,
    **dict.fromkeys((
        "RandomHorizontalFlip", "RandomVerticalFlip", "ColorJitter", "BrightnessTransform",
        "ContrastTransform", "SaturationTransform", "HueTransform", "RandomRotation",
        "RandomErasing", "RandomAffine", "RandomPerspective",
    ), keep),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "resize": resize, "center_crop": exact, "to_tensor": to_tensor, "normalize": normalized,
    "hflip": keep, "vflip": keep, "pad": padded, "crop": cropped, "to_grayscale": grayscale,
    **dict.fromkeys(("rotate", "adjust_brightness", "adjust_contrast", "adjust_hue",
                     "adjust_saturation", "erase", "affine", "perspective"), keep),
}  # fmt: skip


def transforms() -> Namespace:
    """Return `paddle.vision.transforms`."""
    names: dict[str, Value] = {
        name: NativeClass(
            type(name, (Transform,), {"label": name, "change": staticmethod(change)}), name
        )
        for name, change in CHANGES.items()
    }
    names["Compose"] = NativeClass(Compose, "Compose")
    names["BaseTransform"] = NativeClass(BaseTransform, "BaseTransform")
    functions = {name: NativeFunction(call, name) for name, call in FUNCTIONS.items()}
    names["functional"] = Namespace("paddle.vision.transforms.functional", {**functions})
    names.update(functions)
    # The package's own module of that name, which scripts import as well.
    names["transforms"] = Namespace("paddle.vision.transforms.transforms", {**names})
    return Namespace("paddle.vision.transforms", names)
