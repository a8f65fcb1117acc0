"""Recipes for arrays and notes: pickles, a development kit, attributes and boxes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.wild.data.text import lines
from benchmarks.wild.data.vision import pictures


class Zeros:
    """An array of zeros that is pickled as the call that makes it, not as its content."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        self.shape, self.dtype = tuple(shape), dtype

    def __reduce__(self) -> Any:
        import numpy

        return numpy.zeros, (self.shape, self.dtype)


def zeros(file: Path, *, holds: Any, keys: str = "text") -> None:
    """Write a pickle; in it `{"shape": …, "dtype": …}` stands for an array of zeros.

    `keys` are `text`, or `bytes` as in a pickle of Python 2 that is read so.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(_value(holds, in_bytes=keys == "bytes"), protocol=2))


def _value(described: Any, *, in_bytes: bool) -> Any:
    if isinstance(described, list):
        return [_value(one, in_bytes=in_bytes) for one in described]
    if not isinstance(described, dict):
        return described
    if "shape" in described:
        return Zeros(described["shape"], described.get("dtype", "float32"))
    return {
        name.encode() if in_bytes else name: _value(value, in_bytes=in_bytes)
        for name, value in described.items()
    }


def imagenet_devkit(folder: Path, *, count: int = 64, classes: int = 4) -> None:
    """Write ImageNet's development kit: classes by number, and those of the validation pictures."""
    import numpy
    from scipy import io

    kinds = numpy.zeros((classes, 1), [("ILSVRC2012_ID", object), ("WNID", object)])
    for number in range(classes):
        kinds[number, 0] = (number + 1, f"n{number:08d}")
    (folder / "data").mkdir(parents=True, exist_ok=True)
    io.savemat(folder / "data" / "meta.mat", {"synsets": kinds})
    truth = folder / "data" / "ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("".join(f"{i % classes + 1}\n" for i in range(count)))


def celeba_attributes(folder: Path, *, count: int = 64, attribute: str = "Male") -> None:
    """Write CelebA's aligned faces and one of their attributes, which every second face has."""
    name = "{i:06d}.jpg"
    pictures(folder / "img_align_celeba", count=count, name=name, size=(178, 218))
    rows = [f"{name.format(i=i)} {'1' if i % 2 else '-1'}" for i in range(count)]
    lines(folder / "list_attr_celeba.txt", line="", count=0, head=[str(count), attribute, *rows])


def icdar(
    folder: Path, *, within: str, lists: Sequence[str] = ("train.txt", "test.txt"), count: int = 32
) -> None:
    """Write ICDAR 2015: pictures, a text of boxes for each, and lists of both, whose paths begin
    with the folder as it is seen from the working folder (`within`)."""
    pictures(folder, count=count, name="img/{i}.jpg", size=(1280, 720))
    boxes = ["100,100,300,100,300,160,100,160,word", "400,200,640,200,640,280,400,280,other"]
    for number in range(count):
        lines(folder / f"gt/{number}.txt", line="", count=0, head=boxes)
    for listed in lists:
        lines(folder / listed, line=f"{within}/img/{{i}}.jpg\t{within}/gt/{{i}}.txt", count=count)


def grid(file: Path, *, rows: int, columns: int, along: str = "columns") -> None:
    """Write a table of numbers without a head, which rise along its rows or its columns."""
    table = [[r if along == "rows" else c for c in range(columns)] for r in range(rows)]
    lines(file, line="", count=0, head=[",".join(f"{v / 16:g}" for v in row) for row in table])
