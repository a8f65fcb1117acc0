"""What is left out of a module's source, and that the agent loses nothing by it."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

import pynvml

from gpuconsole.remote import agent
from gpuconsole.remote.polling.source_pruning import pruned_program


def pruned(source: str, users: str) -> str:
    return pruned_program(source, users, "<pruned>")[0]


SOURCE = '''"""A module."""
import functools
LIMIT = 3

def used():
    # A comment.
# One that begins at the margin.
    return helper() + LIMIT

def helper(
):
    return Value.number

class Value:
    number = 4

class Unused(Value):
    pass

@functools.lru_cache
def also_unused():
    return used()

TABLE = {"of": "in_a_table"}

def in_a_table():
    return 5
if LIMIT:
    def inner():
        return 6
'''


def run(source: str) -> ModuleType:
    module = ModuleType("pruned")
    with mock.patch.dict(sys.modules, pruned=module):
        exec(compile(source, "<pruned>", "exec"), module.__dict__)
    return module


def test_what_is_reached_stays_and_works() -> None:
    module = run(pruned(SOURCE, "module.used()"))
    assert module.used() == 7
    assert module.in_a_table() == 5
    assert module.inner() == 6


def test_what_no_user_reaches_is_left_out() -> None:
    module = run(pruned(SOURCE, "module.used()"))
    assert not hasattr(module, "Unused")
    assert not hasattr(module, "also_unused")


CONSTANTS = """from string import capwords
from os import path
MODE_ON = 1
MODE_OFF = 2  # Off.
FIRST = MODE_OFF
KIND_A = 1 << 24
KIND_B = 0x2
UNUSED = "text"
SIDE = print("an effect")
(a, b) = 1, 2
def kinds():
    return [capwords(x) for x in globals() if x.startswith("KIND_")]
def first():
    return FIRST
"""


def test_constants_and_imports_that_no_user_reaches_are_left_out() -> None:
    cut = pruned(CONSTANTS, "first")
    assert run(cut).first() == 2
    left_out = ("capwords", "path", "MODE_ON", "KIND_A", "UNUSED", "kinds")
    assert not [name for name in left_out if name in cut]
    assert 'SIDE = print("an effect")' in cut, "what does something stays"
    assert "(a, b)" in cut


def test_the_beginning_of_a_name_stands_for_all_constants_that_begin_so() -> None:
    module = run(pruned(CONSTANTS, "kinds"))
    assert module.kinds() == ["Kind_a", "Kind_b"]
    assert not hasattr(module, "MODE_ON")


def test_a_name_in_a_string_counts() -> None:
    assert hasattr(run(pruned(SOURCE, 'getattr(module, "Unused")')), "Unused")


def test_a_source_that_cannot_be_cut_is_sent_whole() -> None:
    source = (
        'def used():\n    return """\nat the margin\n"""\n\ndef other():\n    return """\nx\n"""\n'
    )
    assert pruned(source, "used") == source


def agent_texts() -> list[str]:
    return [file.read_text("utf-8") for file in Path(agent.__path__[0]).glob("*.py")]


def test_the_agent_finds_in_the_cut_module_all_that_it_finds_in_the_whole() -> None:
    whole = inspect.getsource(pynvml)
    cut = run(pruned(whole, "".join(agent_texts())))
    names = set(re.findall(r"\w+", " ".join(agent_texts())))
    there = {name for name in names if hasattr(pynvml, name) and not name.startswith("__")}
    assert "nvmlDeviceGetComputeRunningProcesses_v3" in there
    assert not [name for name in there if not hasattr(cut, name)]
    assert len(dir(cut)) < len(dir(pynvml)) * 0.5
    errors = {name for name in dir(pynvml) if name.startswith("NVMLError")}
    assert errors <= set(dir(cut)), "made from the names of constants as the module is imported"


def test_the_agent_writes_names_of_the_driver_library_whole() -> None:
    """One that is put together while it runs would be missing in the cut module."""
    strings = [
        node.value
        for text in agent_texts()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = [text for text in strings if re.match(r"nvml\S*$", text)]
    assert len(named) > 20
    assert not [name for name in named if not hasattr(pynvml, name)]
