"""Environments of `gym` for scripts that were written for its versions before 0.26.

Until then `reset()` gave an observation alone and `step()` four values. Which of both a script
means is read from how its code takes what `step()` gives.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from ..notes import note
from .missing_files import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_FILES = 200
"""Files beside the one that makes an environment that are read."""
TOLD = ("gym: environments give observations and four values of a step, as before 0.26: the script "
        "takes them so.")  # fmt: skip


def install(root: str) -> None:
    """Give code below `root` the environments that it was written for."""
    when_imported("gym", lambda gym: older(gym, root))


def older(gym: Any, root: str) -> None:
    """Let a `gym` of 0.26 or later make environments of older versions, for code that takes them
    so."""
    numpy: Any = importlib.import_module("numpy")
    if "bool8" not in vars(numpy):
        # Its own checks of what a step gives ask for it.
        numpy.bool8 = numpy.bool_
    if _version(gym) < (0, 26):
        return
    own = gym.make
    inside = os.path.join(os.path.abspath(root), "")
    kind = _wrapper(gym)

    def make(*args: object, **kwargs: object) -> Any:
        made = own(*args, **kwargs)
        asking = os.path.abspath(sys._getframe(1).f_code.co_filename)
        if not asking.startswith(inside) or taken(asking) != 4:
            return made
        note(TOLD)
        return kind(made)

    gym.make = make


def _version(gym: object) -> tuple[object, ...]:
    parts = str(getattr(gym, "__version__", "0")).split(".")
    return tuple(int(one) if one.isdigit() else 0 for one in parts[:2])


def _wrapper(gym: Any) -> Callable[..., object]:
    class Older(gym.Wrapper):  # type: ignore[misc]
        """An environment whose methods give what they gave before 0.26."""

        def reset(self, **options: object) -> Any:
            """Begin again; return the observation."""
            return self.env.reset(**options)[0]

        def step(self, action: object) -> Any:
            """Act; return observation, reward, whether it is over, and what else is known."""
            seen, reward, over, cut, known = self.env.step(action)
            return seen, reward, bool(over or cut), known

        def seed(self, seed: object = None) -> list[object]:
            """Begin again with a seed."""
            self.env.reset(seed=seed)
            return [seed]

    return Older


def taken(file: str) -> Any:
    """Return into how many values the code in a file's folder takes what `step()` gives: 4, 5, or 0
    where it is not said, or both are."""
    folder = os.path.dirname(file)
    others = sorted(one for one in os.listdir(folder) if one.endswith(".py"))[:MOST_FILES]
    for files in ([file], [os.path.join(folder, one) for one in others]):
        found = {many for one in files for many in _unpacked(one)} & {4, 5}
        if len(found) == 1:
            return found.pop()
    return 0


def _unpacked(file: str) -> Any:
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
        tree = ast.parse(text) if ".step(" in text else None
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "step":
            yield len(node.targets[0].elts)
