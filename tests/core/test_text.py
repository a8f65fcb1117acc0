"""Foreign text: whatever a host sends, one bounded, printable line comes out."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.text import clean

HOSTILE = st.text(
    alphabet=st.one_of(
        st.sampled_from(
            "\x1b[]();?0123456789mHJK\x07\x9b\x9d\x90\\\r\n\t\x00\u202e\u200b\ud800é漢"
        ),
        st.characters(),
    )
)


@given(HOSTILE, st.integers(1, 300))
def test_nothing_that_moves_a_terminal_comes_through(text: str, limit: int) -> None:
    result = clean(text, limit)
    assert len(result) <= limit
    for character in result:
        assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
    assert not set(result) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "Zs")), max_size=200))
def test_harmless_text_is_left_alone(text: str) -> None:
    assert clean(text, 200) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b2Jgone", "gone"),
        ("\x1b]0;title\x07shell", "shell"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\dcs", "dcs"),
        ("\x1bc", ""),
        ("\x1b", ""),
        ("\x1b[31", ""),
        ("10 %\r50 %\r100 %", "100 %"),
        ("done\r\n", "done"),
        ("a\nb\tc", "a b    c"),
        ("[bold]kept[/bold]", "[bold]kept[/bold]"),
        ("", ""),
    ],
)
def test_escapes_go_and_words_stay(text: str, plain: str) -> None:
    assert clean(text) == plain


def test_a_huge_line_is_cut_with_a_mark() -> None:
    result = clean("x" * 10_000_000, 80)
    assert result == "x" * 79 + "…"


def test_a_huge_line_of_escapes_is_cut_too() -> None:
    assert len(clean("\x1b[31m" * 2_000_000 + "end", 80)) <= 80
