"""The answer of a measurement, line by line, as it comes out of a process nobody trusts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuconsole.errors import NotHereError, RefusedError, ScriptFailedError
from gpuconsole.session.estimate.measurement_run import _answer, followed, with_facts
from gpuconsole.session.reading.recordings import parsed

Told = list[tuple[float, str]]


async def given(*lines: bytes) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def answer(*lines: bytes | dict[str, Any]) -> tuple[dict[str, Any], Told]:
    reported: Told = []
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    found = await _answer(given(*raw), lambda share, stage: reported.append((share, stage)))
    return parsed(found), reported


async def refusal(*lines: bytes | dict[str, Any]) -> RefusedError:
    with pytest.raises(RefusedError) as error:
        await answer(*lines)
    return error.value


async def test_progress_is_told_until_the_document_comes() -> None:
    found, reported = await answer(
        {"progress": 0.25, "stage": "batch 2, loading Paddle"},
        b"Epoch 1: loss 0.3",
        b'"a text"',
        b"[1, 2]",
        b'{"loss": 0.3}',
        {"progress": 0.5, "stage": "batch 4"},
        {"document": {"mode": "traced"}},
        {"error": {"message": "too late"}},
    )
    assert found == {"mode": "traced"}
    assert reported == [(0.25, "batch 2, loading Paddle"), (0.5, "batch 4"), (1.0, "measured")]


@pytest.mark.parametrize(
    ("said", "share"),
    [
        (b"NaN", 0.0), (b"Infinity", 1.0), (b"-1", 0.0), (b"7", 1.0), (b"1" * 400, 1.0),
        (b'"half"', 0.0), (b"null", 0.0), (b"[1]", 0.0),
    ],
)  # fmt: skip
async def test_a_share_is_between_nothing_and_all(said: bytes, share: float) -> None:
    _, reported = await answer(b'{"progress": ' + said + b"}", {"document": {}})
    assert reported[0] == (share, "")


async def test_what_is_told_is_cleaned_and_short() -> None:
    _, reported = await answer(
        {"progress": 0.1, "stage": "\x1b]0;title\x07\x1b[2Jred\u202e" + "x" * 500}, {"document": {}}
    )
    stage = reported[0][1]
    assert stage.startswith("redx")
    assert len(stage) <= 80


async def test_an_error_is_said_with_its_place_and_the_last_words() -> None:
    error = await refusal(
        {"error": {"message": "ValueError: no\x1b[31m such file", "file": "train.py", "line": 7,
                   "output": "first\nreading data\x1b[2J\n\n"}}
    )  # fmt: skip
    assert error.message == "train.py:7: ValueError: no such file"
    assert error.hint == "It said last: reading data"


@pytest.mark.parametrize("kind", ["paddle", "library", "data", "script", ["data"], None])
async def test_what_a_place_lacks_is_told_from_what_the_script_does(kind: object) -> None:
    error = await refusal({"error": {"kind": kind, "message": "no"}})
    assert isinstance(error, NotHereError) is (kind in ("paddle", "library", "data"))


@pytest.mark.parametrize(
    "error",
    [
        {},
        {"file": "train.py"},
        {"message": None, "output": 5},
        {"message": ["a"], "line": {}},
        {"file": {"a": [1]}, "message": {}, "line": "7"},
    ],
)
async def test_an_error_of_any_form_is_still_a_refusal(error: dict[str, Any]) -> None:
    assert (await refusal({"error": error})).title == "The script cannot be measured"


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"error": "text"}', b'{"error": ' + b"[" * 10_000,
     b'{"progress": {}, "stage": {}}', b'{"progress": ' + b"[" * 400 + b"]" * 400 + b"}",
     b"9" * 5000, b'{"progress": "' + b"x" * 2**19 + b'"}'],
)  # fmt: skip
async def test_hostile_lines_are_passed_over(line: bytes) -> None:
    found, _ = await answer(line, {"document": {"runs": []}})
    assert found == {"runs": []}


@pytest.mark.parametrize("narrow", [True, False])
async def test_memory_that_a_busy_place_lacks_another_may_have(narrow: bool) -> None:
    said = b'{"error":{"kind":"memory","message":"killed"}}'
    with pytest.raises(RefusedError) as error:
        await followed(given(said), lambda share, stage: None, narrow=narrow)
    assert isinstance(error.value, NotHereError) is narrow


async def test_an_end_without_an_answer_repeats_the_last_words() -> None:
    error = await refusal(b"Traceback", b"\x1b[31mKilled\x1b[0m", b"   \x00")
    assert error.title == "The measurement broke off"
    assert "Killed" in error.message
    assert "\x1b" not in error.message
    assert (await refusal()).message == "It ended without an answer."


@pytest.mark.parametrize(
    "said",
    [b"5", b"", b"{", b"[]", b"[" * 100_000, b"{} {}", b'{"a":' * 50_000, b"\xff", b"9" * 5000,
     b'{}, "error": {}'],
)  # fmt: skip
async def test_a_document_that_is_none_is_refused_where_scripts_are_read(said: bytes) -> None:
    raw = await _answer(given(b'{"document":' + said + b"}"), lambda share, stage: None)
    assert raw == said
    with pytest.raises(RefusedError, match="is no recording"):
        parsed(raw)


async def test_what_is_long_is_not_parsed_beside_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse, sizes = json.loads, []

    def counted(text: bytes) -> Any:
        sizes.append(len(text))
        return parse(text)

    monkeypatch.setattr("gpuconsole.session.estimate.measurement_run.json.loads", counted)
    long = b'{"document": {"runs": [' + b"1," * 2**20 + b"1]}}"
    chatter = b'{"progress": 0.5, "stage": "' + b"x" * 2**20 + b'"}'
    reported: Told = []
    lines = given(b'{"progress": 0.1}', chatter, b"[" * 2**20, long)
    raw = await _answer(lines, lambda share, stage: reported.append((share, stage)))
    assert raw == long[len(b'{"document": ') : -1]
    assert sizes == [len(b'{"progress": 0.1}')]
    assert reported == [(0.1, ""), (1.0, "measured")]


def test_facts_of_a_device_win_over_what_the_script_says() -> None:
    document = with_facts(b'{"card": "A100", "runs": []}', {"card": "V100", "driver": "535"})
    assert parsed(document) == {"card": "V100", "driver": "535", "runs": []}
    with pytest.raises(RefusedError):
        parsed(with_facts(b"", {"card": "V100"}))


async def test_a_log_is_left_as_soon_as_it_has_answered() -> None:
    left: list[str] = []

    async def log() -> AsyncIterator[bytes]:
        try:
            yield b'{"document":{}}\n'
            yield b"more"
        finally:
            left.append("left")

    assert await followed(log(), lambda share, stage: None) == b"{}"
    assert left == ["left"]


async def test_an_error_of_the_script_itself_has_its_place() -> None:
    said = {"kind": "script", "message": "no", "file": "/x/train.py", "line": 7}
    error = await refusal({"error": said})
    assert isinstance(error, ScriptFailedError)
    assert (error.file, error.line) == ("/x/train.py", 7)
    for other in ("unclear", "unsupported", "data"):
        assert not isinstance(await refusal({"error": {**said, "kind": other}}), ScriptFailedError)
