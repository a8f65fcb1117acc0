"""Patterns that are compiled late match as any do."""

from __future__ import annotations

import re

import pytest

from gpuconsole.core.training import log
from gpuconsole.core.util import lazy_pattern as module
from gpuconsole.core.util.lazy_pattern import lazy_pattern

LATE = {name: value for name, value in vars(log).items() if type(value) is module._LazyPattern}


def test_it_does_what_a_pattern_does() -> None:
    late, plain = lazy_pattern(r"(\d+) ?b", re.IGNORECASE), re.compile(r"(\d+) ?b", re.IGNORECASE)
    for text in ("12 B and 3b", "none", ""):
        assert late.findall(text) == plain.findall(text)
        assert late.sub("x", text) == plain.sub("x", text)
        assert bool(late.fullmatch(text)) == bool(plain.fullmatch(text))
        assert [match[1] for match in late.finditer(text)] == plain.findall(text)
    assert (late.pattern, late.flags) == (plain.pattern, plain.flags)


def test_it_is_compiled_once_and_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compiling = re.compile

    def compile_seen(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return compiling(text, flags)

    monkeypatch.setattr(re, "compile", compile_seen)
    late = lazy_pattern("a+")
    assert compiled == []
    assert late.search("caat")
    assert late.search("b") is None
    assert late.match("ab")
    assert compiled == ["a+"]


def test_a_wrong_pattern_is_noticed_at_its_use() -> None:
    late = lazy_pattern("(")
    with pytest.raises(re.error):
        late.search("")


@pytest.mark.parametrize("name", LATE)
def test_patterns_of_logs_can_be_compiled(name: str) -> None:
    assert isinstance(LATE[name].search(""), (re.Match, type(None)))


def test_no_pattern_of_logs_is_compiled_before_a_log_is_read() -> None:
    assert len(LATE) > 10
