"""Measures the shape of the source tree, and holds it against what it was: it may only get better.

    python tools/house.py [--check] [--write] [--list NAME]

Prints a figure a line: its name, its value, what was recorded in `tools/house.json`, and the goal.
`--check` exits 1 where a figure is worse than recorded, and lists the places. `--write` records
figures that got better. `--list` prints every place that a figure counts.

Functions are measured without their docstrings. Complexity is McCabe's, as ruff counts it. Import
cycles are those of run time, lazy imports among them. Words are those of `WORDS` in comments,
docstrings and pages, and of `NAMES` where they are bound as names.
"""

from __future__ import annotations

import argparse
import ast
import gc
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_suffix(".json")
PRODUCT = "gpuconsole"
NOT_OURS = ("data", "fixtures", "scripts", "__pycache__")
"""Folders of scripts and of source models, which are read and not part of the program."""
TREES = (PRODUCT, "tests", "benchmarks", "tools", "docs")

MODULES_IN_FOLDER = 20
LINES_IN_MODULE = 800
LINES_IN_FUNCTION = 50
COMPLEXITY = 15
LINES_ON_THEIR_OWN = 60
"""A module of fewer lines belongs to its importer, if it has but one."""

WORDS = (
    "nobody", "whoever", "whose", "stands", "anew", "at hand", "lets go", "gives", "mended", "worn",
    "unasked", "in force", "told", "likely", "crowds", "whys", "prospects", "foreseeing", "outlook",
    "falling", "reel", "bench", "frames have stopped", "who is hit",
)  # fmt: skip
"""What comments, docstrings and pages say no more; plain words stand for them."""
NAMES = frozenset({"one", "kept", "made", "found", "told", "known"})
"""Names of variables that say nothing of what they hold."""
_WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)
_NAME = re.compile(rf"\b({'|'.join(sorted(NAMES))})\b")


@dataclass(frozen=True)
class Figure:
    """A figure of the tree: how many, where, and what it should come to."""

    value: int
    places: tuple[str, ...]
    goal: int | None


@dataclass(frozen=True)
class Module:
    """A module: its path below the root, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """Return its number of lines."""
        return self.text.count("\n")


def main(argv: list[str] | None = None) -> int:
    """Print the figures; return 1 with `--check` where one is worse than recorded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", choices=sorted(FIGURES), dest="listed")
    options = parser.parse_args(argv)
    # Trees of a thousand modules are kept to the end: a collector would walk over them in vain.
    gc.disable()
    if options.listed:
        print(*FIGURES[options.listed]().places, sep="\n")
        return 0
    figures = {name: measure() for name, measure in FIGURES.items()}
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    print(table(figures, recorded))
    if options.write:
        RECORD.write_text(json.dumps(lowered(figures, recorded), indent=2) + "\n", "utf-8")
    worse = grown(figures, recorded)
    if options.check and worse:
        for name in worse:
            print(f"\n{name}: {figures[name].value}, recorded {recorded[name]}", file=sys.stderr)
            print(*(f"  {place}" for place in figures[name].places), sep="\n", file=sys.stderr)
        return 1
    return 0


def table(figures: Mapping[str, Figure], recorded: Mapping[str, int]) -> str:
    """Return the figures as lines: name, value, recorded, goal."""
    rows = [("", "now", "recorded", "goal")]
    for name, figure in figures.items():
        goal = "" if figure.goal is None else str(figure.goal)
        rows.append((name, str(figure.value), str(recorded.get(name, "")), goal))
    return "\n".join(f"{a:30}{b:>9}{c:>10}{d:>8}".rstrip() for a, b, c, d in rows)


def grown(figures: Mapping[str, Figure], recorded: Mapping[str, int]) -> list[str]:
    """Return the names of figures that have a record and are worse than it."""
    return [name for name, figure in figures.items() if figure.value > recorded.get(name, 1 << 62)]


def lowered(figures: Mapping[str, Figure], recorded: Mapping[str, int]) -> dict[str, int]:
    """Return what is to be recorded: of each figure the better value; lines are not recorded."""
    return {
        name: min(figure.value, recorded.get(name, figure.value))
        for name, figure in figures.items()
        if figure.goal is not None
    }


@cache
def modules(tree: str = PRODUCT) -> tuple[Module, ...]:
    """Return the modules of a tree below the root."""
    return tuple(_read(ROOT, ROOT / tree))


def _read(root: Path, folder: Path) -> Iterator[Module]:
    for path in _paths(root, folder):
        text = path.read_text("utf-8")
        yield Module(str(path.relative_to(root)), text, ast.parse(text))


def _paths(root: Path, folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        if not set(NOT_OURS) & set(path.relative_to(root).parts):
            yield path


def _unread(tree: str) -> Iterator[Module]:
    """Yield the modules of a tree without their contents, for figures that need only paths."""
    for path in _paths(ROOT, ROOT / tree):
        yield Module(str(path.relative_to(ROOT)), "", ast.Module([], []))


def folders_too_full(found: Iterable[Module]) -> list[str]:
    """Return the folders with more modules than there should be, `__init__.py` not counted."""
    count = Counter(
        str(Path(module.path).parent) for module in found if not module.path.endswith("__init__.py")
    )
    return [f"{folder}: {n}" for folder, n in sorted(count.items()) if n > MODULES_IN_FOLDER]


def long_modules(found: Iterable[Module]) -> list[str]:
    """Return the modules with more lines than there should be."""
    return [f"{one.path}: {one.lines}" for one in found if one.lines > LINES_IN_MODULE]


def long_functions(found: Iterable[Module]) -> list[str]:
    """Return the functions with more lines than there should be, docstrings not counted."""
    places = []
    for module in found:
        for node in ast.walk(module.tree) if module.lines > LINES_IN_FUNCTION else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = _length(node)
                if lines > LINES_IN_FUNCTION:
                    places.append(f"{module.path}:{node.lineno} {node.name}: {lines}")
    return places


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def complex_functions() -> list[str]:
    """Return the functions of the product that are more complex than they should be."""
    options = ("--select", "C901", "--config", f"lint.mccabe.max-complexity={COMPLEXITY}")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *options, "--output-format", "json", PRODUCT],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [
        f"{Path(item['filename']).relative_to(ROOT)}:{item['location']['row']} {item['message']}"
        for item in json.loads(done.stdout)
    ]


@cache
def _imports() -> Mapping[str, frozenset[str]]:
    graph = grimp.build_graph(PRODUCT, exclude_type_checking_imports=True, cache_dir=None)
    # The package itself names what is public, and imports it when it is used.
    return {
        name: frozenset(graph.find_modules_directly_imported_by(name))
        for name in graph.modules
        if name != PRODUCT
    }


def cycles(imports: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other in a circle, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(set(imports[name]) & set(imports)):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            circle = stack[at:]
            del stack[at:]
            if len(circle) > 1:
                circles.append(sorted(circle))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10 * len(imports) + 1000))
    try:
        for name in sorted(imports):
            if name not in order:
                visit(name)
    finally:
        sys.setrecursionlimit(limit)
    return circles


def small_and_lonely(found: Iterable[Module], imports: Mapping[str, Collection[str]]) -> list[str]:
    """Return the short modules that one other module alone imports."""
    users = Counter(other for others in imports.values() for other in others)
    return [
        f"{module.path}: {module.lines}"
        for module in found
        if module.lines < LINES_ON_THEIR_OWN
        and not module.path.endswith("__init__.py")
        and users[module.path.removesuffix(".py").replace("/", ".")] == 1
    ]


def any_types(found: Iterable[Module]) -> list[str]:
    """Return every use of `Any`."""
    return [
        f"{module.path}:{node.lineno}"
        for module in found
        if "Any" in module.text
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and node.id == "Any"
    ]


def bad_words(module: Module) -> Iterator[str]:
    """Yield the places of words in comments and docstrings, and of names, that went."""
    if _WORD.search(module.text):
        for line, text in [*_comments(module.text), *_docstrings(module.tree)]:
            for match in _WORD.finditer(text):
                yield f"{module.path}:{line} {match[0]}"
    for node in ast.walk(module.tree) if _NAME.search(module.text) else ():
        if isinstance(node, ast.arg) and node.arg in NAMES:
            yield f"{module.path}:{node.lineno} {node.arg}"
        elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Store):
            yield f"{module.path}:{node.lineno} {node.id}"


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text


def bad_words_of_pages(pages: Iterable[Path]) -> Iterator[str]:
    """Yield the places of words that went in pages of the documentation."""
    for page in pages:
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            for match in _WORD.finditer(line):
                yield f"{page.relative_to(ROOT)}:{number} {match[0]}"


def _figure(places: Iterable[str], goal: int) -> Figure:
    listed = tuple(places)
    return Figure(len(listed), listed, goal)


def _cycles() -> Figure:
    return _figure((" ".join(circle) for circle in cycles(_imports())), 0)


def _words() -> Figure:
    pages = sorted({*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"})
    code = (place for module in modules() for place in bad_words(module))
    return _figure((*code, *bad_words_of_pages(pages)), 0)


def _lines() -> Figure:
    return Figure(sum(module.lines for module in modules()), (), None)


FIGURES: dict[str, Callable[[], Figure]] = {
    "lines of the product": _lines,
    "modules of the product": lambda: Figure(len(modules()), (), None),
    "folders over 20 modules": lambda: _figure(
        (place for tree in TREES for place in folders_too_full(_unread(tree))), 0
    ),
    "modules over 800 lines": lambda: _figure(long_modules(modules()), 0),
    "functions over 50 lines": lambda: _figure(long_functions(modules()), 0),
    "functions over complexity 15": lambda: _figure(complex_functions(), 0),
    "import cycles": _cycles,
    "uses of Any": lambda: _figure(any_types(modules()), 300),
    "words that went": _words,
    "small modules of one importer": lambda: _figure(small_and_lonely(modules(), _imports()), 0),
}
"""Every figure by its name, in the order in which they are printed."""


if __name__ == "__main__":
    sys.exit(main())
