"""Every room's errors and messages against the catalogue of Chinese: not the screens' alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.test_language import ROOT, missing, modules, trees, written

BUILT_IN = frozenset(
    f"{name}Error"
    for name in ("Value", "Key", "Type", "Runtime", "OS", "Assertion", "Attribute", "Index", "Name",
                 "NotImplemented", "Import", "Syntax", "System", "PydanticCustom", "FrozenInstance")
)  # fmt: skip
"""Errors for programs: what a person reads of one is said where it is caught."""
UNTRANSLATED = frozenset({"NVLink", "python"})
"""Names."""


def called(node: ast.Call) -> str:
    """The name of what is called, without what it belongs to."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def reported(path: Path, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Every text of a module that is raised, made a message or put together to sentences."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        given: list[ast.expr] = []
        if name == "msg":
            given = [node]
        elif name == "sentences" or (name.endswith("Error") and name not in BUILT_IN):
            given = node.args
        for each in given:
            for text in written(each):
                yield text, f"{path.relative_to(ROOT)}:{node.lineno}"


ROOMS = sorted({path.relative_to(ROOT).parts[0] for path in modules()})


@pytest.mark.parametrize("room", ROOMS)
def test_whatever_a_room_raises_or_says_is_in_the_catalogue(room: str) -> None:
    """A text with a value in it is a message: an f-string has lost what a catalogue looks for."""
    found = [
        text
        for path, tree in trees().items()
        if path.relative_to(ROOT).parts[0] == room
        for text in reported(path, tree)
    ]
    # A template that is put together is looked for when it is said.
    whole = [(text, place) for text, place in found if text.replace("{}", "").strip(" .")]
    assert not missing(whole, UNTRANSLATED)
