"""The spellings of a script's own options, read from where it declares them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import UsageError
from gpuconsole.preflight.interpreter.frontend import source

_DECLARING = frozenset({"add_argument", "option", "Option"})
"""What declares an option, in argparse, click and typer."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that one script declares itself; those of modules it imports are not known."""

    script: str
    declared: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = ()
    """The spellings of each, as written, and its names."""

    @classmethod
    def of(cls, script: Path) -> Options:
        """Read a script; one that cannot be read declares nothing."""
        try:
            tree = source.parse(script) if script.suffix == ".py" else None
        except UsageError:
            tree = None
        return cls(script.name, () if tree is None else tuple(_declared(tree)))

    def doubts(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return a sentence for each of `names` that is no option of the script; none where it
        declares no option at all, for then it may read its arguments in another way."""
        return tuple(
            f"{self.script} declares no option --{name}; it may refuse to start with it."
            for name in names
            if self.declared and not self.flags(name)
        )

    def flags(self, name: str) -> tuple[str, ...]:
        """Return the spellings of the option of a name, `lr` or `learning-rate`, the one that
        argparse would take first; () where none is declared."""
        wanted = _plain(name)
        for flags, names in self.declared:
            if wanted in names:
                return flags
        return ()


def _declared(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Give flags and names of each option."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        what = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if what not in _DECLARING:
            continue
        words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        flags = tuple(word for word in words if isinstance(word, str) and word.startswith("-"))
        if flags:
            yield flags, frozenset({*map(_plain, flags), *_dest(node)})


def _dest(node: ast.Call) -> Iterator[str]:
    for keyword in node.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            yield _plain(str(keyword.value.value))


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
