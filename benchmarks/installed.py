"""Programs started as they are installed: Python has kept what it compiled of them."""

from __future__ import annotations

import compileall
import functools
import os
from pathlib import Path

import gpuconsole

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, and `more`, for a program as a user starts it.

    `pip install` compiles a package once. Where the environment forbids Python to keep what it
    compiles, an editable install is compiled at each start instead: a third of a second of
    processor time that no user waits for. So the package is compiled here, and the ban is not
    handed on.
    """
    _compile_package()
    kept = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    return kept | more


@functools.cache
def _compile_package() -> None:
    here = Path(__file__).parent
    compileall.compile_dir(Path(gpuconsole.__path__[0]), quiet=1)
    compileall.compile_dir(here, maxlevels=0, quiet=1)
