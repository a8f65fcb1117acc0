"""Environments of `gym` for scripts that were written for its versions before 0.26.

Until then `reset()` returned an observation alone and `step()` four values. Which of both a script
means is read from how its code unpacks `step()`.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from typing import TYPE_CHECKING

from ..notes import note
from .missing_files import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

MOST_FILES = 200
"""Files beside the one that makes an environment that are read."""
TOLD = ("gym: environments give observations and four values of a step, as before 0.26: the script "
        "takes them so.")  # fmt: skip


def install(root: str) -> None:
    """Give code below `root` the environments that it was written for."""
    when_imported("gym", lambda gym: older(gym, root))


def older(gym: ModuleType, root: str) -> None:
    """Let a `gym` of 0.26 or later make environments of older versions, for code that takes them
    so."""
    numpy = importlib.import_module("numpy")
    if "bool8" not in vars(numpy):
        # Its own checks of what a step returns ask for it.
        setattr(numpy, "bool8", numpy.bool_)  # noqa: B010
    if _version(gym) < (0, 26):
        return
    own = gym.make
    inside = os.path.join(os.path.abspath(root), "")
    kind = _wrapper(gym)

    def make(*args: object, **kwargs: object) -> object:
        environment = own(*args, **kwargs)
        asking = os.path.abspath(sys._getframe(1).f_code.co_filename)
        if not asking.startswith(inside) or taken(asking) != 4:
            return environment
        note(TOLD)
        return kind(environment)

    setattr(gym, "make", make)  # noqa: B010


def _version(gym: ModuleType) -> tuple[int, ...]:
    parts = str(getattr(gym, "__version__", "0")).split(".")
    return tuple(int(part) if part.isdigit() else 0 for part in parts[:2])


def _wrapper(gym: ModuleType) -> Callable[[object], object]:
    wrapper: type = gym.Wrapper

    class Older(wrapper):  # type: ignore[misc]
        """An environment with methods that return what they returned before 0.26."""

        def reset(self, **options: object) -> object:
            """Begin again; return the observation."""
            return self.env.reset(**options)[0]

        def step(self, action: object) -> tuple[object, object, bool, object]:
            """Act; return observation, reward, whether it is over, and what else is known."""
            seen, reward, over, cut, info = self.env.step(action)
            return seen, reward, bool(over or cut), info

        def seed(self, seed: object = None) -> list[object]:
            """Begin again with a seed."""
            self.env.reset(seed=seed)
            return [seed]

    return Older


def taken(file: str) -> int:
    """Return into how many values the code in a file's folder unpacks `step()`: 4, 5, or 0
    where it is not said, or both are."""
    folder = os.path.dirname(file)
    others = sorted(name for name in os.listdir(folder) if name.endswith(".py"))[:MOST_FILES]
    for files in ([file], [os.path.join(folder, name) for name in others]):
        counts = {many for path in files for many in _unpacked(path)} & {4, 5}
        if len(counts) == 1:
            return counts.pop()
    return 0


def _unpacked(file: str) -> Iterator[int]:
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
