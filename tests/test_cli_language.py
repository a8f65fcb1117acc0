"""The command line in Chinese: its texts against the catalogue, and what commands print."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tui.test_language import ROOT, normal, texts, trees, written

SAYING = frozenset({"say", "tell", "note", "said", "text", "_hanging", "msg", "confirm", "print"})
"""What is called with a text that a person reads as its first argument."""
LISTING = frozenset({"table", "sentences"})
"""What is called with such texts alone; so are errors."""
UNTRANSLATED = frozenset(
    {
        # Names, units, and what is typed.
        "P50", "P95", "id", "ID", "GPUS", "CUDA", "Paddle", "OOM", "MiB", "FLOPS",
    }
)  # fmt: skip


def printed() -> Iterator[tuple[str, str]]:
    """Every text in the code of the commands that a person reads, and where."""
    for path, tree in trees().items():
        if not path.is_relative_to(ROOT / "cli"):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else (
                called.id if isinstance(called, ast.Name) else ""
            )  # fmt: skip
            given: list[ast.expr] = []
            if name in SAYING:
                given = node.args[:1]
            elif name in LISTING or name.endswith("Error"):
                given = node.args
            for each in given:
                for text in written(each):
                    yield text, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_whatever_the_commands_say_is_in_the_catalogue() -> None:
    known = {normal(text) for text in texts()}
    missing = {}
    for text, place in printed():
        wanted = normal(text)
        if not re.search("[A-Za-z]{2}", wanted.replace("{}", "")) or wanted in UNTRANSLATED:
            continue
        whole = all(normal(line) in known for line in wanted.split("\n"))
        parts = re.split(r"(?<=[.?!]) (?=\S)", wanted)
        if not whole and not all(part in known for part in parts):
            missing[text] = place
    assert not missing
