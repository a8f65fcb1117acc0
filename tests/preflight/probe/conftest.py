"""The probe's modules, as tests get them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

PACKAGE = "gpuconsole.preflight.probe"


@pytest.fixture
def part() -> Iterator[Any]:
    """Give what returns a module of the probe by its name there. Each test has modules of its own:
    they keep what they noted and replaced."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(PACKAGE)}
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    for name in list(sys.modules):
        if name.startswith(PACKAGE):
            del sys.modules[name]
    sys.modules.update(before)
