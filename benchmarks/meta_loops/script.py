"""A drawn loop as a script, for tiers that read text: the draws stand in it as numbers."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.meta_loops import habits, loops, networks

T = TypeVar("T")
_DRAW = "Draw = random.Random"
REPLAY = '''
class Draw:
    """Gives again what was drawn."""

    def __init__(self, drawn):
        self.drawn = list(drawn)

    def random(self):
        return self.drawn.pop(0)

    def randint(self, low, high):
        return self.drawn.pop(0)

    def choice(self, items):
        return items[self.drawn.pop(0)]

    def sample(self, items, count):
        return [items[at] for at in self.drawn.pop(0)]
'''
MAIN = """
import paddle

BATCH_SIZE = {samples}
{run}(Draw({drawn!r}), paddle, lambda: None, BATCH_SIZE)
"""


def text(drawn: Sequence[Any], samples: int = 0, kind: str = "loops") -> str:
    """Return the script that runs the loop of a kind with these draws, in batches of `samples`; of
    as many as are drawn for 0."""
    modules = (networks, loops, habits) if kind == "habits" else (networks, loops)
    parts = [_without_imports(Path(module.__file__ or "")) for module in modules]
    run = "habitual" if kind == "habits" else "run"
    head = "from collections.abc import Callable\nfrom dataclasses import dataclass\n"
    head += "from typing import Any\nimport copy\n"
    main = MAIN.format(run=run, drawn=list(drawn), samples=samples)
    return "\n".join([head, REPLAY, *parts, main])


def _without_imports(path: Path) -> str:
    """Return a module's text without its imports and without the name `Draw` that it defines."""
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [
        node
        for node in tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom) and ast.unparse(node) != _DRAW
    ]
    return ast.unparse(tree)


class Recorded(random.Random):
    """Draws, and notes each draw as a number."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.source = random.Random(seed)
        self.drawn: list[Any] = []

    def random(self) -> float:
        """Return a fraction."""
        self.drawn.append(self.source.random())
        return float(self.drawn[-1])

    def randint(self, a: int, b: int) -> int:
        """Return a whole number."""
        self.drawn.append(self.source.randint(a, b))
        return int(self.drawn[-1])

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        """Return an item."""
        at = self.source.choice(range(len(seq)))
        self.drawn.append(at)
        return seq[at]

    def sample(self, population: Sequence[T], k: int) -> list[T]:  # type: ignore[override]
        """Return several items."""
        places = self.source.sample(range(len(population)), k)
        self.drawn.append(places)
        return [population[at] for at in places]
