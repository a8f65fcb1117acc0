"""Public data sets by name: the shapes and types of their samples. Nothing is downloaded.

Shapes and sizes are those that `paddle.vision.datasets` and `paddle.text.datasets` of Paddle 3.3.1
give, read from its sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain.values import Native, NativeClass, Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.io.dataset import Library
from gpuconsole.preflight.interpreter.paddle.vision.transforms import Picture

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

Pixels = tuple[int | None, int | None, int]


class Pictures(Library):
    """A data set of `paddle.vision.datasets`."""

    picture: Pixels = (None, None, 3)
    label_shape: tuple[int, ...] | None = ()
    sizes: tuple[int, int] = (0, 0)
    """Samples for training and for testing; 0 where the disk decides."""

    def init(self, run: Run, *args: Value, transform: Value = None, backend: Value = None,
             mode: Value = "train", **_: Value) -> None:  # fmt: skip
        """Keep the transform, how pictures are given, and which part of the set it is."""
        self.transform = transform
        self.arrays = (backend or run.image_backend) == "cv2"
        self.mode = mode
        for argument in args:
            if isinstance(argument, Native) and hasattr(argument, "call"):
                self.transform = argument
            elif argument in ("train", "test", "valid"):
                self.mode = argument

    def sample(self, interp: Interpreter) -> Value:
        """Give a transformed picture and its label."""
        run: Run = interp.run
        image: Value = Picture(*self.picture)
        if self.arrays and None not in self.picture:
            image = Array(image.pixels(), "uint8")
        if self.transform is not None:
            image = interp.call(self.transform, [image], {})
        if self.arrays and isinstance(image, Array):
            image = Array(image.shape, run.mode.dtype)
        if self.label_shape is None:
            return [image]
        return (image, Array(self.label_shape, "int64"))

    def count(self, interp: Interpreter) -> Value:
        """Number of samples."""
        size = self.sizes[0 if self.mode == "train" else 1]
        return size or interp.run.unknown("the size of a data set on disk")


class Segmented(Pictures):
    """`VOC2012`: a picture and its map of classes; the transform is for the picture alone."""

    def sample(self, interp: Interpreter) -> Value:
        """Give a transformed picture and a map of an unknown size."""
        image, _ = super().sample(interp)
        return (image, Picture(None, None, 1))


class Texts(Library):
    """A data set of `paddle.text.datasets`: arrays, some as long as a text."""

    fields: tuple[tuple[tuple[int, ...] | None, str], ...] = ()
    """Shape (None: as long as a text) and type of each field."""
    sizes: tuple[int, int] = (0, 0)

    def init(self, run: Run, *args: Value, mode: Value = "train", window_size: Value = -1,
             data_type: Value = "NGRAM", **options: Value) -> None:  # fmt: skip
        """Keep which part of the set it is, and the window of n-grams."""
        self.mode = next((argument for argument in args if argument in ("train", "test")), mode)
        self.window = window_size
        self.grams = data_type
        self.options = options

    def sample(self, interp: Interpreter) -> Value:
        """Give a field each."""
        run: Run = interp.run
        fields: list[Value] = []
        for shape, dtype in self.fields:
            if shape is None:
                fields.append(
                    run.unknown(msg("how long the texts of {label} are", label=self.label))
                )
            else:
                fields.append(Array(shape, dtype))
        return tuple(fields)

    def count(self, interp: Interpreter) -> Value:
        """Number of samples."""
        size = self.sizes[0 if self.mode == "train" else 1]
        return size or interp.run.unknown(msg("the size of {label}", label=self.label))


class Grams(Texts):
    """`Imikolov`: n-grams of words, each a number, or whole sentences."""

    def sample(self, interp: Interpreter) -> Value:
        """Give as many numbers as the window is wide."""
        if self.grams == "NGRAM" and isinstance(self.window, int) and self.window > 0:
            return tuple(Array((), "int64") for _ in range(self.window))
        why: Unknown = interp.run.unknown("how long the sentences of Imikolov are")
        return (why, why)


def _pictures(
    label: str,
    picture: Pixels,
    shape: tuple[int, ...] | None,
    sizes: tuple[int, int],
    base: type[Pictures] = Pictures,
) -> type[Pictures]:
    return type(label, (base,), {"label": label, "picture": picture, "label_shape": shape,
                                 "sizes": sizes})  # fmt: skip


def _texts(label: str, fields: tuple[tuple[tuple[int, ...] | None, str], ...],
           sizes: tuple[int, int] = (0, 0), base: type[Texts] = Texts) -> type[Texts]:  # fmt: skip
    return type(label, (base,), {"label": label, "fields": fields, "sizes": sizes})


_TEXT = (None, "int64")
_ONE = ((1,), "int64")
VISION: dict[str, type[Pictures]] = {
    "MNIST": _pictures("MNIST", (28, 28, 1), (1,), (60_000, 10_000)),
    "FashionMNIST": _pictures("FashionMNIST", (28, 28, 1), (1,), (60_000, 10_000)),
    "Cifar10": _pictures("Cifar10", (32, 32, 3), (), (50_000, 10_000)),
    "Cifar100": _pictures("Cifar100", (32, 32, 3), (), (50_000, 10_000)),
    "Flowers": _pictures("Flowers", (None, None, 3), (1,), (6_149, 1_020)),
    "VOC2012": _pictures("VOC2012", (None, None, 3), (), (2_913, 1_464), Segmented),
    "DatasetFolder": _pictures("DatasetFolder", (None, None, 3), (), (0, 0)),
    "ImageFolder": _pictures("ImageFolder", (None, None, 3), None, (0, 0)),
}
TEXT: dict[str, type[Texts]] = {
    "UCIHousing": _texts("UCIHousing", (((13,), "float32"), ((1,), "float32")), (404, 102)),
    "Imdb": _texts("Imdb", (_TEXT, _ONE), (25_000, 25_000)),
    "Imikolov": _texts("Imikolov", (), base=Grams),
    "Movielens": _texts("Movielens", (*[_ONE] * 5, _TEXT, _TEXT, ((1,), "float64"))),
    "Conll05st": _texts("Conll05st", (_TEXT,) * 9),
    "WMT14": _texts("WMT14", (_TEXT,) * 3),
    "WMT16": _texts("WMT16", (_TEXT,) * 3, (29_000, 1_000)),
}


def classes(table: Mapping[str, type[Native]]) -> dict[str, Value]:
    """Return the classes of a table by name."""
    return {name: NativeClass(kind, name) for name, kind in table.items()}


def set_backend(run: Run, backend: Value) -> None:
    """`paddle.vision.set_image_backend`: how data sets give their pictures."""
    if backend in ("pil", "cv2"):
        run.image_backend = backend
