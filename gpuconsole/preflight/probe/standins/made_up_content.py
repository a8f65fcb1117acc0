"""Content for files that are not there: pictures, lists, annotations, weights."""

from __future__ import annotations

import io
import json
import os
import pickle
import tarfile
import zipfile

from . import made_up_lines, sentencepiece_models

WIDTH, HEIGHT = 500, 375
"""Of a picture: the most frequent size in ImageNet, Pascal VOC and Flowers."""
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
LISTS = (".txt", ".lst", ".list")
WEIGHTS = (".pdparams", ".pdopt", ".pdiparams", ".pdema", ".pth")
ARCHIVES = (".tar", ".tgz", ".tar.gz", ".zip")
MASKS = ("label", "mask", "gt", "annot", "segmentationclass")
"""Words in the paths of pictures with class numbers for pixels."""
PEOPLE = ("bounding_box", "query", "gallery", "market", "dukemtmc", "msmt")
"""Words in the paths of pictures of people that are to be recognised."""
LINES, NAMES, CLASSES = 8192, 64, 2
IMAGES, CATEGORIES, OBJECTS = 512, 80, 7
_WEIGHT = "made.up.weight"
WORDS, UNSURE = 30522, 1000
"""Of a vocabulary: as many as BERT's, the most frequent one, so many of which are counted as a
number of unknown data is. A network may be as wide as its vocabulary is long."""


def kind_of(path: str) -> str | None:
    """Return what a file of this name holds, as it is shown to the reader of an answer; None where
    its name does not say."""
    name = path.lower().strip()
    if _is_vocabulary(name) or sentencepiece_models.is_model(name):
        return "a vocabulary"
    for suffixes, kind in ((PICTURES, "a picture"), (LISTS, "a list"), (WEIGHTS, "weights"),
                           ((".json",), "annotations"), ((".xml",), "annotations"),
                           (ARCHIVES, "an archive")):  # fmt: skip
        if name.endswith(suffixes):
            return kind
    return None


def name_of(folder: str, number: int) -> str:
    """Return the name of a file in a folder, without its ending: a number, or in folders of people
    who are to be recognised a person's and a camera's, as in Market-1501 and those after it."""
    words = os.sep.join(folder.lower().split(os.sep)[-3:])
    if any(people in words for people in PEOPLE):
        return f"{number % NAMES:04d}_c{number % 6 + 1}s1_{number:06d}_00"
    return f"{number:06d}"


def content_of(path: str) -> bytes:
    """Return the bytes of a file of this name."""
    name = path.lower().strip()
    if sentencepiece_models.is_model(name):
        return sentencepiece_models.model()
    if _is_vocabulary(name):
        return vocabulary(name.endswith(".json"))
    if name.endswith(PICTURES):
        words = os.sep.join(name.split(os.sep)[-4:])
        return picture(name.endswith(".png") and any(mask_word in words for mask_word in MASKS))
    if name.endswith(LISTS):
        return pairs()
    if name.endswith(".json"):
        return coco()
    if name.endswith(".xml"):
        return voc()
    if name.endswith(ARCHIVES):
        return archive(path)
    return weights()


def _is_vocabulary(name: str) -> bool:
    return "vocab" in os.path.basename(name) and name.endswith((".txt", ".json"))


def vocabulary(numbered: bool) -> bytes:
    """Return words of a tokenizer, one a line or `numbered` in JSON: special ones, characters and
    parts of words, then made-up ones."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "<s>", "</s>",
               "<mask>", "<|endoftext|>", "word"]  # fmt: skip
    latin = [chr(code) for code in range(0x21, 0x7F)]
    chinese = [chr(code) for code in (*range(0x3001, 0x3011), *range(0x4E00, 0x9FA6))]
    words = [*special, *latin, *(f"##{letter}" for letter in latin), *chinese]
    count = WORDS - UNSURE + made_up_lines.NUMBER["of"](UNSURE)
    words += [f"word{number}" for number in range(count - len(words))]
    if numbered:
        return json.dumps({word: number for number, word in enumerate(words)}).encode()
    return "".join(f"{word}\n" for word in words).encode()


def weights() -> bytes:
    """Return a dictionary of weights with an entry that no network has: scripts that look which of
    the entries fit find none, and some cannot do without any."""
    import numpy

    return pickle.dumps({_WEIGHT: numpy.zeros([1], "float32")}, protocol=2)


def is_weights(content: object) -> bool:
    """Tell whether what was loaded are such weights."""
    return isinstance(content, dict) and list(content) == [_WEIGHT]


def picture(mask: bool, size: tuple[int, int] = (WIDTH, HEIGHT)) -> bytes:
    """Return a picture, or one of class numbers."""
    from PIL import Image

    file = io.BytesIO()
    if mask:
        Image.new("L", size).save(file, "PNG")
    else:
        Image.new("RGB", size, (120, 120, 120)).save(file, "JPEG")
    return file.getvalue()


def pairs() -> bytes:
    """Return lines of a picture and a number, parted as most readers of lists expect it: by a
    space, a tab or any blank. A reader that takes the second word for a file gets one too."""
    rows = (f"made{number % NAMES}.jpg \t{number % CLASSES}\n" for number in range(LINES))
    return "".join(rows).encode()


def coco() -> bytes:
    """Return annotations of objects in the form of COCO."""
    images: list[object] = []
    annotations: list[object] = []
    for image in range(1, IMAGES + 1):
        images.append({"id": image, "file_name": f"made{image % NAMES}.jpg",
                       "width": WIDTH, "height": HEIGHT})  # fmt: skip
        for number in range(OBJECTS):
            left, top = 40.0 + 30 * number, 30.0 + 20 * number
            corners = [left, top, left + 100, top, left + 100, top + 100, left, top + 100]
            annotations.append({
                "id": len(annotations) + 1, "image_id": image, "iscrowd": 0, "area": 10000.0,
                "category_id": 1 + (image + number) % CATEGORIES,
                "bbox": [left, top, 100.0, 100.0], "segmentation": [corners],
            })  # fmt: skip
    categories = [{"id": number, "name": f"class{number}"} for number in range(1, CATEGORIES + 1)]
    return json.dumps(
        {"images": images, "annotations": annotations, "categories": categories}
    ).encode()


def voc() -> bytes:
    """Return annotations of one picture in the form of Pascal VOC."""
    box = "<bndbox><xmin>40</xmin><ymin>30</ymin><xmax>140</xmax><ymax>130</ymax></bndbox>"
    thing = f"<object><name>person</name><difficult>0</difficult>{box}</object>"
    size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>"
    return f"<annotation>{size}{thing}</annotation>".encode()


def archive(path: str) -> bytes:
    """Return an archive with one folder of its own name, in which weights lie."""
    stem = os.path.basename(path)
    for suffix in ARCHIVES:
        stem = stem[: -len(suffix)] if stem.lower().endswith(suffix) else stem
    name = path.lower()
    file = io.BytesIO()
    held = weights()
    if name.endswith(".zip"):
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr(f"{stem}/", b"")
            packed.writestr(f"{stem}/model.pdparams", held)
        return file.getvalue()
    with tarfile.open(fileobj=file, mode="w:gz" if name.endswith("gz") else "w") as tar:
        folder = tarfile.TarInfo(stem)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        entry = tarfile.TarInfo(f"{stem}/model.pdparams")
        entry.size = len(held)
        tar.addfile(entry, io.BytesIO(held))
    return file.getvalue()
