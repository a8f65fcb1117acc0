"""Scalars of VisualDL's record files (`vdlrecords.*.log`), read without VisualDL.

A file is a row of records, each with its length before it: eight bytes, the least first. A record
is a protobuf message `Record` of VisualDL 2 (`visualdl/proto/record.proto`): field 1 of it repeats
`Value`, of which `id` (1) is the step, `tag` (2) the name, `value` (4) a scalar and `tag_value`
(14) one of several scalars below a common tag. All else is passed over. Files come from scripts:
nothing in them is trusted, and what cannot be read ends the reading of its file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gpuconsole.core.text import clean
from gpuconsole.core.training.curves import MOST_CURVES, Curve, Curves, Point
from gpuconsole.core.training.log import LONGEST_NAME, VALIDATION

RECORD_FILES = "vdlrecords"
"""What the name of a record file has in it; VisualDL itself looks for that."""
LARGEST_SCALAR = 4096
"""Bytes of a record that may hold a scalar: longer ones are images, histograms and the like."""
LAST_STEP = 2**53
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ID, _TAG, _VALUE, _TAG_VALUE = 1, 2, 4, 14
_LENGTH = struct.Struct("<Q")
_FLOAT = struct.Struct("<f")
_EVALUATION = ("eval", "evaluation", "val", "valid", "validation", "dev")
_TRAINING = ("train", "training")
_PLAIN = re.compile(r"[^a-z0-9_.@]+")
Field = tuple[int, int | bytes]


class Scalar(NamedTuple):
    """A value that a script has written."""

    tag: str
    step: int
    value: float


def scalars(data: bytes) -> Iterator[Scalar]:
    """Yield the scalars of a record file, as far as it can be read: it may still grow."""
    at = 0
    while at + _LENGTH.size <= len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if size > len(data) - at:
            return
        if size <= LARGEST_SCALAR:
            try:
                yield from _of_record(data[at : at + size])
            except ValueError:
                return
        at += size


def metric_of(tag: str) -> str:
    """Return the metric of a tag, as logs' metrics are called: `train/loss` is `loss`, `eval/acc`
    is `val_acc`; "" for a tag without a letter or digit."""
    parts = [_PLAIN.sub("_", part.lower()).strip("_") for part in clean(tag, 200).split("/")]
    parts = [part for part in parts if part]
    of = parts.pop(0) if len(parts) > 1 and parts[0] in (*_EVALUATION, *_TRAINING) else ""
    name = "_".join(parts)
    for word in _EVALUATION:
        if name.startswith(f"{word}_"):
            name, of = name.removeprefix(f"{word}_"), word
    name = name.removeprefix("train_")
    if name in ("learning_rate", "lr"):
        return "lr"
    return (VALIDATION + name if of in _EVALUATION and name else name)[:LONGEST_NAME]


def curves_of(files: Mapping[str, bytes]) -> Curves:
    """Return the curves of a run's record files, by their paths, over its steps.

    Of several values at one step the last written counts. A folder is a run to VisualDL: a metric
    that two of them have is distinguished by the name of the second's folder.
    """
    merged = Curves()
    merged.axis = "step"
    for name, points in _values(files).items():
        curve = merged.curves[name] = Curve(name)
        for step in sorted(points):
            curve.add(Point(float(step), points[step]))
    return merged


def reports_of(files: Mapping[str, bytes]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the steps of a run's record files, the least first, with the metrics of each."""
    values = _values(files)
    for step in sorted({step for points in values.values() for step in points}):
        yield step, {name: points[step] for name, points in values.items() if step in points}


def with_records(log: Curves, records: Curves) -> Curves:
    """Return the curves of a log with those of record files: of a metric that both have, the log's.

    A log that counts epochs alone has no steps to plot with: then the records' curves are taken.
    """
    if not records:
        return log
    if log.axis != "step" or not log:
        return records
    merged = Curves()
    merged.axis, merged.at, merged.epoch = log.axis, log.at, log.epoch
    for curve in (*log.curves.values(), *records.curves.values()):
        if len(merged.curves) < MOST_CURVES:
            merged.curves.setdefault(curve.name, replace(curve))
    return merged


def _values(files: Mapping[str, bytes]) -> dict[str, dict[int, float]]:
    """Return the values of each metric by their steps."""
    values: dict[str, dict[int, float]] = {}
    owners: dict[str, str] = {}
    for path in sorted(files):
        folder = path.rpartition("/")[0]
        for scalar in scalars(files[path]):
            name = metric_of(scalar.tag)
            if name and owners.setdefault(name, folder) != folder:
                name = metric_of(f"{folder.rpartition('/')[2]} {scalar.tag}")
            if name and (name in values or len(values) < MOST_CURVES):
                values.setdefault(name, {})[scalar.step] = scalar.value
    return values


def _of_record(data: bytes) -> Iterator[Scalar]:
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            scalar = _scalar(value)
            if scalar is not None:
                yield scalar


def _scalar(data: bytes) -> Scalar | None:
    """Return the scalar that a `Value` is; None for another kind."""
    step, tag, scalar_bytes = 0, b"", None
    for number, value in _fields(data):
        if number == _ID and isinstance(value, int):
            step = value
        elif number == _TAG and isinstance(value, bytes):
            tag = value
        elif number == _VALUE and isinstance(value, bytes) and len(value) == _FLOAT.size:
            scalar_bytes = value
        elif number == _TAG_VALUE and isinstance(value, bytes):
            own = dict(_fields(value))
            below, scalar = own.get(1, b""), own.get(2)
            if isinstance(scalar, bytes) and len(scalar) == _FLOAT.size:
                scalar_bytes = scalar
                tag += b"/" + below if isinstance(below, bytes) and below else b""
    if scalar_bytes is None or not 0 <= step <= LAST_STEP:
        return None
    return Scalar(tag.decode("utf-8", "replace"), step, _FLOAT.unpack(scalar_bytes)[0])


def _fields(data: bytes) -> Iterator[Field]:
    """Yield a message's fields: numbers as int, all else as bytes. ValueError where it is none."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"unknown kind of field {kind}")
        if size > len(data) - at:
            raise ValueError("a field is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of up to 64 bits and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise ValueError("a number is cut off")
