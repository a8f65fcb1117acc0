"""What is asked of a function's body is looked through once, and is right each time."""

from __future__ import annotations

import ast

import pytest

from gpuconsole.preflight.interpreter.domain import syntax


def body(text: str) -> list[ast.stmt]:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.body


@pytest.mark.parametrize(
    ("text", "yields", "names"),
    [
        ("def f():\n x = a + b", False, {"x", "a", "b"}),
        ("def f():\n 'words'\n yield a", True, {"a"}),
        ("def f():\n def g():\n  yield b\n return g", False, {"b", "g"}),
        ("def f():\n if a:\n  x = yield", True, {"a", "x"}),
        ("def f():\n return [a for a in (yield b)]", True, {"a", "b"}),
        ("def f():\n yield", True, set()),
    ],
)
def test_a_body_is_asked(text: str, yields: bool, names: set[str]) -> None:
    asked = body(text)
    for _ in range(2):
        assert syntax.yields(asked) is yields
        assert syntax.names(asked) == names


def test_a_body_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = body("def f():\n yield a")
    expression = ast.parse("lambda: a + b", mode="eval").body
    assert isinstance(expression, ast.Lambda)
    # As the interpreter makes it: a statement of its own each time.
    first, again = [ast.Expr(expression.body)], [ast.Expr(expression.body)]
    assert syntax.yields(asked)
    assert syntax.names(first) == {"a", "b"}
    monkeypatch.setattr(syntax, "_extend", None)
    assert syntax.yields(asked)
    assert syntax.names(again) == {"a", "b"}


def test_a_longer_body_with_the_same_beginning_is_another() -> None:
    whole = body("def f():\n x = a\n yield b")
    assert not syntax.yields(whole[:1])
    assert syntax.yields(whole)
    assert syntax.names(whole[:1]) == {"x", "a"}
    assert syntax.names(whole) == {"x", "a", "b"}


def test_statements_are_found_in_all_blocks() -> None:
    text = """
import a
def f():
    class C:
        import b
async def g():
    async with x:
        import c
for i in range(3):
    import d
else:
    import e
while n:
    if n:
        import g
    elif m:
        import h
    else:
        import i
try:
    import j
except OSError:
    import k
else:
    import l
finally:
    import m
match n:
    case 1:
        import n
lambda: [x for x in y if (lambda: z)]
"""
    found = syntax.statements(ast.parse(text).body)
    names = {node.names[0].name for node in found if isinstance(node, ast.Import)}
    assert names == set("abcdeghijklmn")


def test_every_kind_of_statement_has_its_blocks() -> None:
    holders = {
        kind
        for kind in vars(ast).values()
        if isinstance(kind, type) and "body" in getattr(kind, "_fields", ())
    }
    expressions = {ast.Lambda, ast.IfExp}
    roots = {ast.Module, ast.Interactive, ast.Expression}
    assert holders - expressions - roots == {
        kind for kind, fields in syntax._BLOCKS.items() if fields
    } - {ast.Match}
