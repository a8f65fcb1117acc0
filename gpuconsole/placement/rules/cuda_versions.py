"""Versions of CUDA and of NVIDIA's driver, and which runs which.

The table is `gpuconsole/data/cuda-drivers.csv`, which names its sources.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

Version = tuple[int, ...]


def version(text: str) -> Version:
    """Return a version's numbers; () where the text is none."""
    match = re.match(r"\d{1,6}(?:\.\d{1,6}){0,3}", text.strip())
    return () if match is None else tuple(int(part) for part in match[0].split("."))


def text(numbers: Version) -> str:
    """Return a version as it is written; drivers with two digits: 450.80.02."""
    head, *rest = numbers
    if head < 100:
        return ".".join(map(str, numbers))
    return ".".join([str(head), *(f"{part:02d}" for part in rest)])


@cache
def drivers() -> Mapping[Version, Version]:
    """Return the first driver of each toolkit, or of each major version of toolkits."""
    lines = (resources.files("gpuconsole") / "data" / "cuda-drivers.csv").read_text("utf-8")
    table = csv.DictReader(line for line in lines.splitlines() if not line.startswith("#"))
    return {version(row["cuda"]): version(row["driver"]) for row in table}


def first_driver(cuda: Version) -> Version | None:
    """Return the first driver under which a toolkit runs; None where the table does not say."""
    return drivers().get(cuda[:1]) or drivers().get(cuda[:2])


def runs(wanted: Version, driver: Version, runtime: Version) -> bool:
    """Tell whether a driver that offers the CUDA version `runtime` runs a toolkit; one of which
    nothing is known may."""
    if runtime and runtime[:2] >= wanted[:2]:
        return True
    first = first_driver(wanted)
    if driver and first is not None:
        return driver >= first
    # A major version that is not in the table: only the host's own word counts.
    return not runtime or runtime[0] >= wanted[0]
