"""Words that users should not have to translate: in sentences of the program and in help texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTEAD = {
    "anew": "again",
    "unasked": "automatically",
    "whoever": "the user, the operators",
    "worn": "active",
    "in force": "active",
    "at hand": "available",
    "lets go": "releases",
    "mended": "fixed, corrected",
    "nobody": "no process, no user",
    "told": "reported, shown; `unknown` for what cannot be told",
    "who is hit": "affected",
    "frames have stopped": "it stopped sending data",
}
"""What is not written, and what stands in its place."""
GONE_FROM_PAGES = ("comes here", "put a letter at every place")
_FOUND = re.compile(rf"\b({'|'.join(INSTEAD)})\b", re.IGNORECASE)
_GONE = re.compile(rf"\b({'|'.join((*INSTEAD, *GONE_FROM_PAGES))})\b", re.IGNORECASE)
ROOMS = sorted(path.name for path in (ROOT / "gpuconsole").iterdir() if path.is_dir())


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """Give the texts of a module that are more than a name, with their lines; no docstrings."""
    tree = ast.parse(source)
    alone = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and not _is_help(tree, node)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in alone else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and " " in text:
            yield node.lineno, text


def _is_help(tree: ast.Module, text: ast.Expr) -> bool:
    """Tell whether a text is the docstring of a command: its help."""
    return any(
        isinstance(node, ast.FunctionDef) and node.body[0] is text and node.decorator_list
        for node in tree.body
    )


@pytest.mark.parametrize("room", ROOMS)
def test_what_users_read_has_no_word_that_went(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: `{found[0]}`, write {INSTEAD[found[0].lower()]}"
        for path in sorted((ROOT / "gpuconsole" / room).rglob("*.py"))
        for line, text in sentences(path.read_text(encoding="utf-8"))
        for found in _FOUND.finditer(text)
    ]
    assert not wrong


PAGES = sorted({*ROOT.glob("docs/*.md"), ROOT / "README.md"} - {ROOT / "docs/api.md"})
"""The pages; of the reference of the API the docstrings are held by nothing yet."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_no_word_that_went(page: Path) -> None:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    assert [(number, found[0]) for number, line in lines for found in _GONE.finditer(line)] == []


def test_texts_are_kept_apart_from_docstrings() -> None:
    source = (
        'def f():\n    """Begin anew."""\n    say("begun anew")\n\n\n'
        '@command\ndef g():\n    """Do it anew."""\n'
    )
    assert {text for _, text in sentences(source)} == {"begun anew", "Do it anew."}
