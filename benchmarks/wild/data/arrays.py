"""Recipes for arrays: HDF5, NumPy, pickles, MATLAB, points in text; and settings that name data."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.wild.data.text import lines


def hdf5(file: Path, *, groups: Mapping[str, Mapping[str, Any]]) -> None:
    """Write HDF5: a group of arrays numbered from 0 for each name (`count`, `shape`, `dtype`), or
    without a count an array of that name."""
    import h5py

    file.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(file, "w") as written:
        for name, spec in groups.items():
            numbers = [f"{name}/{i}" for i in range(spec["count"])] if "count" in spec else [name]
            for number in numbers:
                # What is not written is read as the value that fills it, and takes no room.
                written.create_dataset(
                    number.lstrip("/"), spec["shape"], spec.get("dtype", "uint8"), fillvalue=1
                )


def matlab(file: Path, *, arrays: Mapping[str, Sequence[int]]) -> None:
    """Write a file of MATLAB with arrays of numbers between 0 and 1, each of a shape, by name."""
    import numpy as np
    from scipy.io import savemat

    file.parent.mkdir(parents=True, exist_ok=True)
    made = np.random.default_rng(0)
    savemat(file, {name: made.random(shape) for name, shape in arrays.items()})


def numpy_files(
    folder: Path,
    *,
    name: str,
    count: int = 1,
    shape: Sequence[int],
    dtype: str = "float32",
    value: float = 1,
) -> None:
    """Write arrays of one value in `.npy`; in a name `{i}` is the number.

    They are alike: all but the first are links to it.
    """
    import numpy as np

    first = folder / name.format(i=0)
    for i in range(count):
        path = folder / name.format(i=i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if i == 0:
            np.save(path, np.full(shape, value, dtype))
        else:
            path.hardlink_to(first)


def numpy_object(file: Path, *, content: Any) -> None:
    """Write a `.npy` that holds one object, its content described as that of `pickled`."""
    import numpy as np

    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, np.array(_made(content, 0), dtype=object), allow_pickle=True)


def numpy_archives(
    folder: Path,
    *,
    name: str,
    count: int,
    arrays: Mapping[str, Sequence[int]],
    dtypes: Mapping[str, str] | None = None,
) -> None:
    """Write archives (`.npz`) of arrays of ones, each by its name and shape; float32 where `dtypes`
    does not say another. They are alike: all but the first are links to it."""
    import numpy as np

    known = dtypes or {}
    ones: dict[str, Any] = {
        key: np.ones(shape, known.get(key, "float32")) for key, shape in arrays.items()
    }
    first = folder / name.format(i=0)
    for i in range(count):
        path = folder / name.format(i=i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if i == 0:
            np.savez_compressed(path, **ones)
        else:
            path.hardlink_to(first)


def cifar(file: Path, *, count: int = 512, classes: int = 10) -> None:
    """Write CIFAR's archive of pickled batches, pictures in rows and their classes: that of
    CIFAR-10, or that of CIFAR-100 where there are more than ten classes."""
    import numpy as np

    file.parent.mkdir(parents=True, exist_ok=True)
    labels = [i % classes for i in range(count)]
    folder, parts, key = "cifar-10-batches-py", [f"data_batch_{i}" for i in range(1, 6)], b"labels"
    if classes > 10:
        folder, parts, key = "cifar-100-python", ["train"], b"fine_labels"
    batch = pickle.dumps({b"data": np.ones((count, 3072), "uint8"), key: labels}, 2)
    with tarfile.open(file, "w:gz") as archive:
        for part in (*parts, "test_batch" if classes <= 10 else "test"):
            about = tarfile.TarInfo(f"{folder}/{part}")
            about.size = len(batch)
            archive.addfile(about, io.BytesIO(batch))


class _Python2(pickle._Pickler):
    """Pickles bytes as Python 2 pickled its texts: who reads them chooses what they become."""

    write: Callable[[bytes], object]
    memoize: Callable[[object], None]
    dispatch: ClassVar[dict[type, Callable[..., None]]] = dict(pickle._Pickler.dispatch)

    def save_bytes(self, content: bytes) -> None:
        """Write bytes as a text of Python 2."""
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(content)

    dispatch[bytes] = save_bytes


def cifar_unpacked(folder: Path, *, count: int = 256, classes: int = 10) -> None:
    """Write CIFAR-10's batches as they lie in its archive, pickled by Python 2."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    labels = [i % classes for i in range(count)]
    for part in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        with (folder / part).open("wb") as file:
            batch = {b"data": np.ones((count, 3072), "uint8"), b"labels": labels}
            _Python2(file, 2).dump(batch)


def mnist(folder: Path, *, count: int = 600, tests: int = 100, classes: int = 10) -> None:
    """Write MNIST's four files: pictures of 28 x 28 grey values and their classes, packed (IDX).

    Paddle reads a hundred at a time: other numbers it refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part, number in (("train", count), ("t10k", tests)):
        pictures = struct.pack(">IIII", 2051, number, 28, 28) + bytes(number * 28 * 28)
        labels = struct.pack(">II", 2049, number) + bytes(i % classes for i in range(number))
        for name, content in (("images-idx3", pictures), ("labels-idx1", labels)):
            path = folder / f"{part}-{name}-ubyte.gz"
            path.write_bytes(gzip.compress(content, mtime=0))


def pickled(file: Path, *, content: Any, protocol: int = 2) -> None:
    """Write a pickle of lists and texts as they are, and of arrays and pictures as described.

    `{"array": SHAPE, "dtype": …}` is an array of ones, `{"picture": [WIDTH, HEIGHT]}` a picture,
    `{"repeat": CONTENT, "count": N}` a list of so many, with `{"number": CLASSES}` in it the number
    of the turn modulo that many, and `{"tuple": […]}` a tuple. A mapping of so many is
    `{"pairs": [KEY, VALUE], "count": N}`, a table of pandas `{"table": {NAME: [FIRST, STEP]},
    "rows": N}`. In texts `{i}` is the number of the turn.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(_made(content, 0), protocol))


def json_file(file: Path, *, content: Any) -> None:
    """Write a JSON file of one line, its content described as that of `pickled`; packed where the
    name ends with `.gz`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_made(content, 0), ensure_ascii=False).encode() + b"\n"
    file.write_bytes(gzip.compress(text, mtime=0) if file.suffix == ".gz" else text)


def _made(content: Any, turn: int) -> Any:
    if isinstance(content, list):
        return [_made(one, turn) for one in content]
    if isinstance(content, str):
        return content.replace("{i}", str(turn))
    if not isinstance(content, Mapping):
        return content
    if "array" in content:
        import numpy as np

        return np.ones(content["array"], content.get("dtype", "float32"))
    if "picture" in content:
        from PIL import Image

        return Image.new("RGB", tuple(content["picture"]), (90, 90, 90))
    if "table" in content:
        import pandas

        table = content["table"].items()
        rows = [
            {name: first + i * step for name, (first, step) in table}
            for i in range(content["rows"])
        ]
        return pandas.DataFrame(rows)
    if "repeat" in content:
        return [_made(content["repeat"], one) for one in range(content["count"])]
    if "pairs" in content:
        return dict(_made(content["pairs"], one) for one in range(content["count"]))
    if "number" in content:
        return turn % content["number"]
    if "tuple" in content:
        return tuple(_made(content["tuple"], turn))
    return {name: _made(one, turn) for name, one in content.items()}


def modelnet(folder: Path, *, classes: int = 40, each: int = 2, points: int = 1200) -> None:
    """Write ModelNet40 as point clouds with normals in text, with its lists of shapes."""
    import numpy as np

    names = [f"shape{c}" for c in range(classes)]
    shapes = [f"{name}_{i:04d}" for name in names for i in range(1, each + 1)]
    cloud = np.random.default_rng(0).normal(size=(points, 6)).round(3)
    text = "\n".join(",".join(map(str, row)) for row in cloud.tolist()) + "\n"
    for shape in shapes:
        path = folder / shape.rpartition("_")[0] / f"{shape}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lines(folder / "modelnet40_shape_names.txt", line="shape{i}", count=classes)
    for part in ("train", "test"):
        (folder / f"modelnet40_{part}.txt").write_text("\n".join(shapes) + "\n")


def planetoid(folder: Path, *, name: str, nodes: int = 3327, features: int = 3703) -> None:
    """Write a citation graph as Planetoid does: sparse features, neighbours, and test nodes."""
    import numpy as np
    import scipy.sparse as sparse

    folder.mkdir(parents=True, exist_ok=True)
    tested = nodes // 3
    ones = sparse.random(nodes, features, 0.01, "csr", np.float32, np.random.default_rng(0))
    parts = {
        "x": ones[:120], "allx": ones[: nodes - tested], "tx": ones[nodes - tested :],
        "graph": {i: [(i + 1) % nodes, (i + 7) % nodes] for i in range(nodes)},
    }  # fmt: skip
    for part, content in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(content, 2))
    index = [str(i) for i in range(nodes - tested, nodes)]
    (folder / f"ind.{name}.test.index").write_text("\n".join(index) + "\n")


def edited(file: Path, *, changes: Sequence[Sequence[str]]) -> None:
    """Change settings as the README tells users to: each text (old, new) wherever it stands.

    Raises ValueError where a text is not there.
    """
    text = file.read_text("utf-8")
    for old, new in changes:
        if old not in text:
            raise ValueError(f"{old!r} is not in {file}")
        text = text.replace(old, new)
    # The file may be a hard link to that of the clone.
    file.unlink()
    file.write_text(text, "utf-8")


def interactions(
    file: Path,
    *,
    line: str,
    users: int = 60,
    items: int = 80,
    each: int = 20,
    head: Sequence[str] = (),
) -> None:
    """Write what users did with items, user by user; in a line `{u}` is the user's number, `{v}`
    the item's, both from 1, and `{t}` a time."""
    written = [
        line.format(u=u + 1, v=(7 * u + 3 * k) % items + 1, t=978_300_000 + 60 * k)
        for u in range(users)
        for k in range(each)
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*head, *written]) + "\n")
