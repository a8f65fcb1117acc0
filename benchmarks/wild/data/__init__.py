"""Data that users of the corpus have beside their scripts, made by recipe.

A recipe is a function that writes a few small files below a folder, in the layout that the README
or the reader of a script asks for: pictures are flat, texts are made-up words, and only shapes and
counts matter. An entry of the manifest names its recipes with their parameters:

    "data": [{"recipe": "voc", "path": "data/VOCdevkit/VOC2012"}]

`path` is relative to the working folder of the script. Recipes must be quick (a second) and small
(a few MiB), for each question is asked of a copy of the repository with its data.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.wild.data import arrays, sound, tables, text, vision


def zipped(file: Path, *, holds: Iterable[Mapping[str, Any]]) -> None:
    """Write a zip archive of what further recipes make, their paths relative to its top."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(file, "w") as archive:
        make(holds, Path(temporary))
        for path in sorted(Path(temporary).rglob("*")):
            archive.write(path, path.relative_to(temporary))


RECIPES: Mapping[str, Callable[..., None]] = {
    "ade20k": vision.ade20k,
    "celeba_attributes": tables.celeba_attributes,
    "characters": sound.characters,
    "cifar": arrays.cifar,
    "cifar_unpacked": arrays.cifar_unpacked,
    "cityscapes": vision.cityscapes,
    "coco": vision.coco,
    "culane": vision.culane,
    "edited": arrays.edited,
    "grid": tables.grid,
    "hdf5": arrays.hdf5,
    "icdar": tables.icdar,
    "image_list": vision.image_list,
    "imagenet_devkit": tables.imagenet_devkit,
    "interactions": arrays.interactions,
    "json_file": arrays.json_file,
    "json_lines": text.json_lines,
    "lines": text.lines,
    "matlab": arrays.matlab,
    "mnist": arrays.mnist,
    "modelnet": arrays.modelnet,
    "mpii": vision.mpii,
    "notes": vision.notes,
    "numpy_archives": arrays.numpy_archives,
    "numpy_files": arrays.numpy_files,
    "numpy_object": arrays.numpy_object,
    "ocr_detection": vision.ocr_detection,
    "packed": vision.packed,
    "pairs": vision.pairs,
    "person_reid": vision.person_reid,
    "pickled": arrays.pickled,
    "pictures": vision.pictures,
    "planetoid": arrays.planetoid,
    "sounds": sound.sounds,
    "voc_detection": vision.voc_detection,
    "voc_segmentation": vision.voc_segmentation,
    "zeros": tables.zeros,
    "zipped": zipped,
}
"""By name. A recipe takes its target (a file or a folder) and the parameters of the manifest."""


def make(data: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write data below a working folder.

    Raises KeyError where there is no such recipe, TypeError where its parameters are wrong.
    """
    for one in data:
        parameters = {name: v for name, v in one.items() if name not in ("recipe", "path")}
        RECIPES[one["recipe"]](folder / one["path"], **parameters)
