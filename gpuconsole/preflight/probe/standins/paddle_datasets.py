"""Paddle's own data sets where their files are not there.

Only the methods that read files are replaced; what they leave is of the same form, and Paddle's own
`__getitem__` makes samples of it. Sizes are those of the real files.
"""

from __future__ import annotations

import inspect
import io
import os
import sys
import tempfile
from typing import TYPE_CHECKING

from ..notes import note
from . import made_up_content

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from paddle.io import Dataset
    from paddle.text import WMT14, WMT16, Conll05st, Imdb, Imikolov, Movielens, UCIHousing
    from paddle.vision.datasets import MNIST, VOC2012

NO_FILE = "gpuconsole-no-data"


class Rows:
    """So many rows, each made when it is asked for."""

    def __init__(self, count: int, make: Callable[[int], object]) -> None:
        self.count = count
        self.make = make

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int | slice) -> object:
        if isinstance(index, slice):
            return [self.make(number) for number in range(self.count)[index]]
        return self.make(range(self.count)[index])


def install(paddle: ModuleType) -> None:
    """Replace the readers of files."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        own = name.startswith(("paddle.vision.datasets.", "paddle.text."))
        if own and hasattr(module, "_check_exists_and_download"):
            setattr(module, "_check_exists_and_download", _kept(module))  # noqa: B010
    pictures = paddle.vision.datasets
    texts = getattr(paddle.text, "datasets", None) or paddle.text
    _read(pictures.MNIST, "_parse_dataset", _mnist)
    _read(pictures.Cifar10, "_load_data", _cifar)
    _read(pictures.VOC2012, "_load_anno", _voc)
    _read(texts.UCIHousing, "_load_data", _housing)
    _read(texts.Imdb, "_build_work_dict", lambda self, *_: _words(5147))
    _read(texts.Imdb, "_load_anno", _imdb)
    _read(texts.Imikolov, "_build_work_dict", lambda self, *_: _words(2074, "<s>", "<e>"))
    _read(texts.Imikolov, "_load_anno", _imikolov)
    _read(texts.Movielens, "_load_meta_info", _movies)
    _read(texts.Movielens, "_load_data", _ratings)
    _read(texts.WMT14, "_load_data", _wmt14)
    _read(texts.WMT16, "_load_dict", _wmt16_words)
    _read(texts.WMT16, "_load_data", _wmt16)
    _read(texts.WMT16, "get_dict", _wmt16_dict)
    _read(texts.Conll05st, "_load_dict", _conll_words)
    _read(texts.Conll05st, "_load_label_dict", lambda self, *_: _tags())
    _read(texts.Conll05st, "_load_anno", _conll)
    _flowers(pictures.Flowers)


def _kept(module: ModuleType) -> Callable[..., object]:
    check = module._check_exists_and_download

    def checked(path: str, *args: object, **kwargs: object) -> object:
        if path and os.path.exists(path):
            return check(path, *args, **kwargs)
        name = module.__name__.rpartition(".")[2]
        note(f"Not downloaded: the data set {name}; samples of its shapes and types are made up.",
             ("data set", name))  # fmt: skip
        return NO_FILE

    return checked


def _read(cls: type, name: str, instead: Callable[..., object]) -> None:
    """Replace a method of data sets where their file is not there."""
    real = getattr(cls, name)

    def read(self: Dataset, *args: object, **kwargs: object) -> object:
        path = getattr(self, "image_path", None) or getattr(self, "data_file", None)
        there = path is not None and os.path.exists(path)
        return (real if there else instead)(self, *args, **kwargs)

    setattr(cls, name, read)


def _words(count: int, *special: str) -> dict[str, int]:
    """Return a dictionary of so many words, the unknown one last."""
    words = [*special, *(f"word{number}" for number in range(count - 1 - len(special))), "<unk>"]
    return {word: number for number, word in enumerate(words)}


# -- pictures


def _mnist(self: MNIST, *_: object) -> None:
    import numpy

    count = 60000 if self.mode == "train" else 10000
    self.images = Rows(count, lambda number: numpy.full(784, number % 251, "float32"))
    self.labels = Rows(count, lambda number: numpy.array([number % 10], "int64"))


def _cifar(self: Dataset) -> None:
    import numpy

    classes = 100 if type(self).__name__ == "Cifar100" or "100" in str(self.data_url) else 10
    self.data = Rows(
        50000 if self.mode == "train" else 10000,
        lambda number: (numpy.full(3072, number % 251, "uint8"), number % classes),
    )


class Archive:
    """An open archive in which every member is a picture or a mask."""

    def extractfile(self, mask: bool) -> io.BytesIO:
        """Return an open member."""
        return io.BytesIO(made_up_content.picture(mask))

    def close(self) -> None:
        """Nothing is open."""


def _voc(self: VOC2012) -> None:
    count = {"trainval": 2913, "train": 1464}.get(self.flag, 1449)
    self.data_tar, self.name2mem = Archive(), {"picture": False, "mask": True}
    self.data, self.labels = ["picture"] * count, ["mask"] * count


def _flowers(cls: type[Dataset]) -> None:
    real = cls.__init__
    signature = inspect.signature(real)

    def init(self: Dataset, *args: object, **kwargs: object) -> None:
        import paddle

        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        said = given.arguments
        if said["data_file"] and os.path.exists(said["data_file"]):
            real(self, *args, **kwargs)
            return
        self.backend = said["backend"] or paddle.vision.get_image_backend()
        self.transform = said["transform"]
        self.data_path = tempfile.mkdtemp()
        os.mkdir(os.path.join(self.data_path, "jpg"))
        with open(os.path.join(self.data_path, "jpg", "image_00001.jpg"), "wb") as file:
            file.write(made_up_content.picture(False, (667, 500)))
        count = {"train": 6149, "valid": 1020, "test": 1020}.get(said["mode"].lower(), 1020)
        self.indexes, self.labels = [1] * count, [1]

    cls.__init__ = init


# -- texts


def _housing(self: UCIHousing, *_: object) -> None:
    import numpy

    self.data = numpy.zeros((404 if self.mode == "train" else 102, 14))


def _imdb(self: Imdb) -> None:
    words = len(self.word_idx)
    self.docs = Rows(25000, lambda number: [number % words] * (200 + 61 * (number % 2)))
    self.labels = Rows(25000, lambda number: number % 2)


def _imikolov(self: Imikolov) -> None:
    words, first, last = len(self.word_idx), self.word_idx["<s>"], self.word_idx["<e>"]

    def sentence(number: int) -> tuple[list[int], list[int]]:
        row = [(number + place) % words for place in range(16 + 10 * (number % 2))]
        if self.window_size > 0:
            row = row[: self.window_size - 1]
        return [first, *row], [*row, last]

    grams = self.data_type == "NGRAM"
    count = {"train": 929589 if grams else 42068}.get(self.mode, 82430 if grams else 3761)
    self.data = Rows(
        count, (lambda number: (number % words,) * self.window_size) if grams else sentence
    )


def _movies(self: Movielens) -> None:
    from paddle.text.datasets import movielens

    self.categories_dict = {f"category{number}": number for number in range(18)}
    self.movie_title_dict = {f"word{number}": number for number in range(5174)}
    self.movie_info = {
        number: movielens.MovieInfo(str(number), ["category1"], "word1 word2 word3")
        for number in range(1, 3953)
    }
    self.user_info = {
        number: movielens.UserInfo(str(number), "MF"[number % 2], "25", str(number % 21))
        for number in range(1, 6041)
    }


def _ratings(self: Movielens) -> None:
    def rating(number: int) -> object:
        movie = self.movie_info[1 + number % 3952]
        described = movie.value(self.categories_dict, self.movie_title_dict)
        return self.user_info[1 + number % 6040].value() + described + [[number % 5 * 2 - 3.0]]

    tested = int(1000209 * self.test_ratio)
    self.data = Rows(tested if self.mode == "test" else 1000209 - tested, rating)


def _sentences(self: WMT14 | WMT16, count: int, source: int, target: int) -> None:
    """Set a corpus of pairs: words of the source, of the target, and of the target moved by one;
    0 begins and 1 ends a sentence."""

    def row(number: int, words: int) -> list[int]:
        return [3 + (number + place) % max(1, words - 3) for place in range(22 + 8 * (number % 2))]

    self.src_ids = Rows(count, lambda number: [0, *row(number, source), 1])
    self.trg_ids = Rows(count, lambda number: [0, *row(number, target)])
    self.trg_ids_next = Rows(count, lambda number: [*row(number, target), 1])


def _wmt14(self: WMT14) -> None:
    size = self.dict_size if self.dict_size > 0 else 30000
    self.src_dict, self.trg_dict = _words(size), _words(size)
    _sentences(self, {"train": 191155}.get(self.mode, 5957), size, size)


def _wmt16(self: WMT16) -> None:
    count = {"train": 29000, "test": 1000}.get(self.mode, 1014)
    _sentences(self, count, self.src_dict_size, self.trg_dict_size)


def _wmt16_words(
    self: WMT16, lang: str, dict_size: int, reverse: bool = False
) -> Mapping[str, int] | Mapping[int, str]:
    words = _words(dict_size, "<s>", "<e>")
    return {number: word for word, number in words.items()} if reverse else words


def _wmt16_dict(
    self: WMT16, lang: str, reverse: bool = False
) -> Mapping[str, int] | Mapping[int, str]:
    size = self.src_dict_size if lang == self.lang else self.trg_dict_size
    return _wmt16_words(self, lang, size, reverse)


def _conll_words(self: Conll05st, filename: str) -> dict[str, int]:
    first = not hasattr(self, "word_dict")
    return _words(44068 if first else 3162)


def _tags() -> dict[str, int]:
    kinds = ["V", *(f"A{number}" for number in range(28))]
    tags = [f"{place}-{kind}" for kind in kinds for place in "BI"]
    return {tag: number for number, tag in enumerate([*tags, "O"])}


def _conll(self: Conll05st) -> None:
    def length(number: int) -> int:
        return 20 + 16 * (number % 2)

    self.sentences = Rows(5267, lambda number: ["word1"] * length(number))
    self.predicates = Rows(5267, lambda number: "word1")
    self.labels = Rows(5267, lambda number: ["B-A0", "B-V"] + ["O"] * (length(number) - 2))
