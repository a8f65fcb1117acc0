"""Foreign text: whatever a host sends, one bounded, printable line comes out."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.text import clean

UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
IGNORABLE = frozenset(
    chr(code)
    for first, last in (
        *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x2065, 0x2065), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0)),
        *((0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
    )
    for code in range(first, last + 1)
)
"""Default-ignorable of Unicode 16 beside the categories above (DerivedCoreProperties.txt)."""
HOSTILE = st.text(
    alphabet=st.one_of(
        st.sampled_from(
            "\x1b[]();?0123456789mHJK\x07\x9b\x9d\x90\\\r\n\t\x00\u202e\u200b\ud800é漢"
            "\U000e0041\U000e007f\U000e0101\ufe0f\u3164\u034f"
        ),
        st.characters(),
    )
)


@given(HOSTILE, st.integers(1, 300))
def test_nothing_that_moves_a_terminal_comes_through(text: str, limit: int) -> None:
    result = clean(text, limit)
    assert len(result) <= limit
    for character in result:
        assert unicodedata.category(character) not in UNSEEN
    assert not set(result) & IGNORABLE


@given(
    st.text(
        alphabet=st.characters(
            categories=("L", "M", "N", "P", "S", "Zs", "Co"), exclude_characters=IGNORABLE
        ),
        max_size=200,
    )
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert clean(text, 200) == text


def test_no_character_that_is_not_seen_comes_through() -> None:
    """All of Unicode, one after the other."""
    unseen = {chr(code) for code in range(sys.maxunicode + 1)
              if unicodedata.category(chr(code)) in UNSEEN} | IGNORABLE  # fmt: skip
    assert "".join(map(clean, sorted(unseen - set("\n\t")))) == ""


def test_words_hidden_in_tag_letters_are_gone() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "rm -rf")
    assert clean(f"train{hidden}.py") == "train.py"


def test_a_letter_is_not_joined_with_an_invisible_variant() -> None:
    assert clean("a\U000e0100\ufe0fb\u00adc\ufff9d") == "abcd"


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
