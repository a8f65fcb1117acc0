"""Answers for programs: clean, finite, and never too long."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.errors import RefusedError
from gpuconsole.mcp.answers import MOST_LETTERS, MOST_TEXT, answer, sentence
from gpuconsole.mcp.server import bounded_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for name, each in value.items() for text in (name, *texts(each))]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


@given(st.dictionaries(st.text(), VALUES))
def test_any_document_becomes_clean_and_strict_json(document: dict[str, Any]) -> None:
    found = answer(document)
    assert len(json.dumps(found, ensure_ascii=False, allow_nan=False)) <= MOST_LETTERS
    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp")
    assert not {unicodedata.category(letter) for letter in "".join(texts(found))} & set(unseen)


def test_a_short_answer_stays_as_it_is() -> None:
    assert answer({"a": [1, 2.5, None, True], "b": {"c": "d"}}) == {
        "a": [1, 2.5, None, True],
        "b": {"c": "d"},
    }


def test_terminal_escapes_are_taken_out() -> None:
    found = answer({"name": "\x1b]0;owned\x07tr\x1b[31main\u202e", "lines": ["a\x1b[2Jb"]})
    assert found == {"name": "train", "lines": ["ab"]}


def test_long_lists_are_cut_and_what_is_missing_is_counted() -> None:
    found = answer({"jobs": [{"name": "x" * 300} for _ in range(1000)], "count": 1000})
    assert found["count"] == 1000
    assert len(found["jobs"]) + found["left_out"]["jobs"] == 1000
    assert found["jobs"][0] == {"name": "x" * 300}
    assert len(json.dumps(found)) <= MOST_LETTERS


def test_lists_in_lists_and_wide_mappings_are_cut_too() -> None:
    nested = {"hosts": [{"devices": ["y" * 900] * 50} for _ in range(50)]}
    assert len(json.dumps(answer(nested))) <= MOST_LETTERS
    wide = answer({"labels": {f"label{n}": "z" * 500 for n in range(9000)}})
    assert wide["left_out"]["labels"] > 0
    assert len(json.dumps(wide)) <= MOST_LETTERS


def test_a_text_has_an_end() -> None:
    assert len(answer({"text": "a" * 10**6})["text"]) == MOST_TEXT


def test_an_error_says_where_and_the_next_step_without_escapes() -> None:
    error = RefusedError("It will not fit", "a100\x1b[31m-01 has 8 GiB.", "Try a batch of 4.")
    assert sentence(error) == "It will not fit: a100-01 has 8 GiB.\nTry a batch of 4."


async def lines_of(*chunks: bytes) -> list[str]:
    reader = asyncio.StreamReader(limit=16)
    for chunk in chunks:
        reader.feed_data(chunk)
    reader.feed_eof()
    return [line async for line in bounded_lines(reader)]


async def test_a_line_that_is_too_long_is_no_message_and_the_next_one_is() -> None:
    assert await lines_of(b'{"a":1}\n', b'{"b":2}\n') == ['{"a":1}\n', '{"b":2}\n']
    first, second = await lines_of(b"x" * 100 + b"\n", b'{"b":2}\n')
    assert first.startswith("{")
    assert "x" not in first
    assert second == '{"b":2}\n'
    assert await lines_of(b"x" * 100) == []
    assert await lines_of(b'{"c":3}') == ['{"c":3}']
