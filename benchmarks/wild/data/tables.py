"""Recipes for arrays, tables and settings: pickles, HDF5, MAT, lists of ratings or attributes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.wild.data.text import lines
from benchmarks.wild.data.vision import pictures


def settings(file: Path, *, replace: Mapping[str, str]) -> None:
    """Edit a settings file of the project as its user does: texts and what takes their place.

    Raises ValueError where the file does not hold one of the texts.
    """
    text = file.read_text("utf-8")
    for old, new in replace.items():
        if old not in text:
            raise ValueError(f"{file.name} does not hold {old!r}")
        text = text.replace(old, new)
    # The copy of the repository shares its files with the clone.
    file.unlink()
    file.write_text(text, "utf-8")


def interactions(
    file: Path, *, users: int = 600, items: int = 300, each: int = 20, line: str = "{user} {item}"
) -> None:
    """Write pairs of a user and an item, both counted from 1, in the order of the users."""
    rows = ((user, (user * 7 + n * 13) % items + 1) for user in range(1, users + 1)
            for n in range(each))  # fmt: skip
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line.format(user=u, item=i)}\n" for u, i in rows), "utf-8")


class Zeros:
    """An array of zeros that is pickled as the call that makes it, not as its content."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        self.shape, self.dtype = tuple(shape), dtype

    def __reduce__(self) -> Any:
        import numpy

        return numpy.zeros, (self.shape, self.dtype)


def pickled(file: Path, *, holds: Any) -> None:
    """Write a pickle; in it `{"shape": …, "dtype": …}` stands for an array of zeros."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(_value(holds), protocol=2))


def _value(described: Any) -> Any:
    if isinstance(described, list):
        return [_value(one) for one in described]
    if not isinstance(described, dict):
        return described
    if "shape" in described:
        return Zeros(described["shape"], described.get("dtype", "float32"))
    return {name: _value(value) for name, value in described.items()}


def hdf5(file: Path, *, arrays: Mapping[str, Mapping[str, Any]]) -> None:
    """Write arrays of zeros, compressed; `{"texts": n}` is an array of so many equal texts."""
    import h5py

    file.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(file, "w") as written:
        for name, array in arrays.items():
            if "texts" in array:
                written.create_dataset(name, data=[b"made"] * array["texts"])
            else:
                shape, dtype = tuple(array["shape"]), array.get("dtype", "float32")
                written.create_dataset(name, shape, dtype, compression="gzip", chunks=True)


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


def celeba(folder: Path, *, count: int = 64, attribute: str = "Male") -> None:
    """Write CelebA's aligned faces and one of their attributes, which every second face has."""
    name = "{i:06d}.jpg"
    pictures(folder / "img_align_celeba", count=count, name=name, size=(178, 218))
    rows = [f"{name.format(i=i)} {'1' if i % 2 else '-1'}" for i in range(count)]
    lines(folder / "list_attr_celeba.txt", line="", count=0, head=[str(count), attribute, *rows])
