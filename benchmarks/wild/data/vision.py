"""Recipes for pictures and what is noted of them: classes, masks, boxes, words."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.wild.data.text import lines, write

SIZE = (320, 280)
"""Width and height of a picture where a recipe is not asked for others."""
DIFFERENT = 8
"""Pictures of a recipe that are files of their own; further ones are links to them."""


def pictures(
    folder: Path,
    *,
    count: int = 64,
    classes: int = 4,
    name: str = "class_{c}/{i}.jpg",
    size: Sequence[int] = SIZE,
    mode: str = "RGB",
    value: int = 1,
    left: int | None = None,
    kind: str | None = None,
) -> None:
    """Write pictures of one colour each; in a name `{i}` is the number and `{c}` the class.

    A mask (`mode` L) holds `value` everywhere, but `left` in its left half where that is given.
    `kind` is the format, as Pillow calls it, where the name does not say it.
    """
    from PIL import Image

    draw = random.Random(0)
    written: list[Path] = []
    for i in range(count):
        path = folder / name.format(i=i, c=i % classes)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if i < DIFFERENT:
            color = value if mode == "L" else tuple(draw.randint(0, 255) for _ in range(3))
            picture = Image.new(mode, (size[0], size[1]), color)
            if left is not None:
                picture.paste(left, (0, 0, size[0] // 2, size[1]))
            picture.save(path, kind)
            written.append(path)
        else:
            path.hardlink_to(written[i % DIFFERENT])


def image_list(
    folder: Path,
    *,
    lists: Sequence[str] = ("train_list.txt", "val_list.txt"),
    line: str = "{name} {c}",
    count: int = 64,
    classes: int = 4,
    size: Sequence[int] = SIZE,
) -> None:
    """Write pictures in class folders, and lists of them: name and class in a line."""
    name = "images/class_{c}/{i}.jpg"
    pictures(folder, count=count, classes=classes, name=name, size=size)
    for listed in lists:
        full = line.replace("{name}", name)
        lines(folder / listed, line=full, count=count, classes=classes)


def pairs(
    folder: Path,
    *,
    first: str = "images/{i}.jpg",
    second: str = "labels/{i}.png",
    lists: Sequence[str] = ("train.txt", "val.txt"),
    line: str = "",
    count: int = 32,
    size: Sequence[int] = SIZE,
    mode: str = "L",
) -> None:
    """Write pictures with a picture for each, a mask or a target, and lists of both."""
    pictures(folder, count=count, name=first, size=size)
    pictures(folder, count=count, name=second, size=size, mode=mode)
    for listed in lists:
        lines(folder / listed, line=line or f"{first} {second}", count=count)


def voc_segmentation(folder: Path, *, count: int = 64, augmented: bool = False) -> None:
    """Write PASCAL VOC's segmentation set (`JPEGImages`, `SegmentationClass`, `ImageSets`).

    `augmented` adds the masks of the larger set as PaddleSeg's tool writes them.
    """
    size = (500, 375)
    sets = [f"ImageSets/Segmentation/{part}.txt" for part in ("train", "val", "trainval", "aug")]
    pairs(
        folder, first="JPEGImages/{i}.jpg", second="SegmentationClass/{i}.png", line="{i}",
        lists=sets, count=count, size=size,
    )  # fmt: skip
    if augmented:
        name = "SegmentationClassAug/{i}.png"
        pictures(folder, count=count, name=name, size=size, mode="L")


def voc_detection(
    folder: Path, *, years: Sequence[str] = ("2007", "2012"), count: int = 64
) -> None:
    """Write PASCAL VOC's detection sets below `VOCdevkit`: pictures, a note of two boxes for each,
    and lists."""
    box = "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>"
    things = (("person", box.format(48, 30, 200, 300)), ("dog", box.format(220, 100, 420, 330)))
    told = "".join(
        f"<object><name>{name}</name><pose>Left</pose><truncated>0</truncated>"
        f"<difficult>0</difficult>{place}</object>"
        for name, place in things
    )
    size = "<size><width>500</width><height>375</height><depth>3</depth></size>"
    for year in years:
        root = folder / f"VOC{year}"
        pictures(root / "JPEGImages", count=count, name="{i:06d}.jpg", size=(500, 375))
        for i in range(count):
            name = f"<filename>{i:06d}.jpg</filename>"
            write(root / f"Annotations/{i:06d}.xml", f"<annotation>{name}{size}{told}</annotation>")
        for part in ("train", "val", "trainval", "test"):
            lines(root / f"ImageSets/Main/{part}.txt", line="{i:06d}", count=count)


def cityscapes(folder: Path, *, count: int = 64, size: Sequence[int] = (2048, 1024)) -> None:
    """Write Cityscapes: pictures in `leftImg8bit`, masks in `gtFine`, lists for both parts."""
    for part in ("train", "val"):
        first = f"leftImg8bit/{part}/a/{{i:03d}}_leftImg8bit.png"
        second = f"gtFine/{part}/a/{{i:03d}}_gtFine_labelTrainIds.png"
        number = count if part == "train" else 2
        pairs(folder, first=first, second=second, lists=[f"{part}.list"], line=f"{first},{second}",
              count=number, size=size)  # fmt: skip


def ade20k(folder: Path, *, count: int = 64) -> None:
    """Write ADE20K: `images` and `annotations`, each with a training and a validation part."""
    for part in ("training", "validation"):
        name = f"{part}/ADE_{part[:5]}_{{i:08d}}"
        pairs(folder, first=f"images/{name}.jpg", second=f"annotations/{name}.png", lists=(),
              count=count if part == "training" else 4, size=(640, 512))  # fmt: skip


def coco(
    folder: Path,
    *,
    parts: Sequence[str] = ("train2017", "val2017"),
    notes: str = "annotations/instances_{part}.json",
    images: str = "{part}",
    count: int = 128,
    classes: int = 80,
    boxes: int = 4,
    keypoints: int = 0,
    size: Sequence[int] = (640, 480),
) -> None:
    """Write a detection set as COCO's: pictures, and boxes with outlines (or keypoints) in JSON."""
    for part in parts:
        pictures(folder / images.format(part=part), count=count, name="{i:012d}.jpg", size=size)
        document = _coco_notes(count, classes, boxes, keypoints, size)
        path = folder / notes.format(part=part)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), "utf-8")


def _coco_notes(
    count: int, classes: int, boxes: int, keypoints: int, size: Sequence[int]
) -> dict[str, Any]:
    width, height = size[0] // 2, size[1] // 2
    found = []
    for number in range(count * boxes):
        x, y = 5 + number % 90, 5 + number % 70
        corners = [x, y, x + width, y, x + width, y + height, x, y + height]
        points = [value for k in range(keypoints) for value in (x + 2 * k, y + 2 * k, 2)]
        found.append({
            "id": number + 1, "image_id": number // boxes, "category_id": number % classes + 1,
            "bbox": [x, y, width, height], "area": width * height, "iscrowd": 0,
            "segmentation": [corners],
            **({"keypoints": points, "num_keypoints": keypoints} if keypoints else {}),
        })  # fmt: skip
    return {
        "images": [
            {"id": i, "file_name": f"{i:012d}.jpg", "width": size[0], "height": size[1]}
            for i in range(count)
        ],
        "annotations": found,
        "categories": [{"id": c + 1, "name": f"class{c}"} for c in range(classes)],
    }


def culane(folder: Path, *, count: int = 128) -> None:
    """Write CULane's lanes: pictures, each with its masks and the points of two lanes."""
    pictures(folder / "driver", count=count, name="{i}.jpg", size=(1640, 590))
    pictures(folder / "mask", count=count, name="{i}.png", size=(1640, 590), mode="L")
    heights = range(580, 280, -10)
    lanes = [" ".join(f"{x + (590 - y)} {y}" for y in heights) for x in (300, 1000)]
    for i in range(count):
        (folder / "driver" / f"{i}.lines.txt").write_text("\n".join(lanes) + "\n", "utf-8")
    for listed in ("list/train_gt.txt", "list/test.txt"):
        lines(folder / listed, line="/driver/{i}.jpg /mask/{i}.png 1 1 0 0", count=count)


def ocr_detection(
    folder: Path, *, label: str, images: str = "images", count: int = 64, words: int = 3
) -> None:
    """Write pictures of text, and a label file: a name, a tab, and the words' outlines in JSON."""
    pictures(folder / images, count=count, name="{i}.jpg", size=(640, 480))
    outlines = [
        {"transcription": f"word{w}", "points": [[20, y], [200, y], [200, y + 40], [20, y + 40]]}
        for w, y in enumerate(range(20, 20 + 100 * words, 100))
    ]
    written = [f"{images}/{i}.jpg\t{json.dumps(outlines)}" for i in range(count)]
    (folder / label).parent.mkdir(parents=True, exist_ok=True)
    (folder / label).write_text("\n".join(written) + "\n", "utf-8")


def notes(
    folder: Path, *, line: str, name: str = "{i}.txt", count: int = 32, lines_each: int = 3
) -> None:
    """Write a text file for each picture, of so many lines; `{k}` is a line's number."""
    for i in range(count):
        path = folder / name.format(i=i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line.format(i=i, k=k) + "\n" for k in range(lines_each)))


def mpii(folder: Path, *, parts: Sequence[str] = ("train", "valid"), count: int = 64) -> None:
    """Write MPII's poses: pictures, and joints of a person in each in JSON."""
    pictures(folder / "images", count=count, name="{i:09d}.jpg", size=(640, 480))
    joints = [[200.0 + 10 * k, 120.0 + 12 * k] for k in range(16)]
    records = [
        {"image": f"{i:09d}.jpg", "center": [320.0, 240.0], "scale": 1.5, "joints": joints,
         "joints_vis": [1] * 16}
        for i in range(count)
    ]  # fmt: skip
    (folder / "annot").mkdir()
    for part in parts:
        (folder / "annot" / f"{part}.json").write_text(json.dumps(records))


def person_reid(
    folder: Path, *, people: int = 8, each: int = 8, size: Sequence[int] = (64, 128)
) -> None:
    """Write people as Market-1501 does: the person's and the camera's number in each name."""
    for part in ("bounding_box_train", "bounding_box_test", "query"):
        name = f"{part}/{{c:04d}}_c{{i}}s1_{{i:06d}}_00.jpg"
        number = people * each if part.endswith("train") else people
        pictures(folder, count=number, classes=people, name=name, size=size)


def packed(
    file: Path,
    *,
    labels: Sequence[str],
    count: int = 64,
    size: Sequence[int] = SIZE,
) -> None:
    """Write pictures that lie one after another in a file (`.data`), with the place of each
    (`.header`: its key, where it begins, its length) and what is noted of it (`.label`).

    The notes follow a key and are taken from `labels` in turn; `{i}` is the picture's number.
    """
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (size[0], size[1]), (90, 120, 60)).save(content, "JPEG")
    one = content.getvalue()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.with_name(file.name + ".data").write_bytes(one * count)
    for kind, notes_of in (
        ("header", [f"{i * len(one)}\t{len(one)}" for i in range(count)]),
        ("label", [labels[i % len(labels)].format(i=i) for i in range(count)]),
    ):
        rows = [f"{i}\t{note}\n" for i, note in enumerate(notes_of)]
        write(file.with_name(f"{file.name}.{kind}"), "".join(rows))
