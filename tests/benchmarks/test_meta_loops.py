"""Drawn loops as scripts."""

from __future__ import annotations

import ast
import random

from benchmarks.chances import half_of
from benchmarks.meta_loops.__main__ import seeds_of
from benchmarks.meta_loops.script import Recorded, text


def test_recorded_draws_are_those_of_the_seed() -> None:
    plain, recorded = random.Random(5), Recorded(5)
    for _ in range(20):
        assert recorded.random() == plain.random()
        assert recorded.randint(1, 6) == plain.randint(1, 6)
        assert recorded.choice("abcdefg") == plain.choice("abcdefg")
        assert recorded.sample(range(9), 3) == plain.sample(range(9), 3)
    assert len(recorded.drawn) == 80


def test_a_script_gives_the_draws_again() -> None:
    recorded = Recorded(3)
    wanted = [recorded.choice("abc"), recorded.random(), recorded.randint(2, 9),
              recorded.sample("wxyz", 2)]  # fmt: skip
    tree = ast.parse(text(recorded.drawn))
    replay = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Draw")
    names: dict[str, type] = {}
    exec(compile(ast.Module([replay], []), "replay", "exec"), names)
    draw = names["Draw"](recorded.drawn)
    assert [draw.choice("abc"), draw.random(), draw.randint(2, 9), draw.sample("wxyz", 2)] == wanted


def test_a_script_needs_nothing_but_paddle() -> None:
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text([0])))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"collections.abc", "dataclasses", "typing", "copy", "paddle",
                        "paddle.distributed.fleet.utils"}  # fmt: skip


def test_seeds_are_a_span_or_a_list() -> None:
    assert seeds_of("3:6") == [3, 4, 5]
    assert seeds_of("9,2") == [9, 2]


def test_halves_are_about_even() -> None:
    first = sum(half_of(f"loop {seed}") for seed in range(400))
    assert 150 < first < 250
