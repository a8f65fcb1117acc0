"""Recordings of measured scripts, kept in files."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gpuconsole.core.places import MEASURED_NAME
from gpuconsole.errors import JournalError
from gpuconsole.state import measured
from gpuconsole.state.measured import MOST_FILES, MeasuredScripts, key_of


def file_of(state: Path, key: str) -> Path:
    return state / MEASURED_NAME / f"{key}.json.gz"


def test_what_was_kept_is_read_again_and_only_under_its_own_name(tmp_path: Path) -> None:
    kept = MeasuredScripts(tmp_path)
    document = {"runs": [1, 2], "mode": "traced", "name": "größe"}
    kept.put("one-traced", json.dumps(document).encode())
    assert MeasuredScripts(tmp_path).get("one-traced") == document
    assert kept.get("one-meta") is None
    kept.put("one-traced", b'{"runs": []}')
    assert kept.get("one-traced") == {"runs": []}
    assert [file.name for file in (tmp_path / MEASURED_NAME).iterdir()] == ["one-traced.json.gz"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        gzip.compress(b'{"runs": 1}')[:-9],
        gzip.compress(b'{"runs": 1}')[:12] + b"\xff" * 20,
        gzip.compress(b"{"),
        gzip.compress(b"\xff\xfe"),
        gzip.compress(b"[1]"),
        gzip.compress(b"[" * 100_000),
    ],
    ids=["empty", "plain", "cut", "garbled", "half", "no text", "a list", "deep"],
)
def test_a_damaged_file_is_no_recording(tmp_path: Path, content: bytes) -> None:
    kept = MeasuredScripts(tmp_path)
    kept.put("one-traced", b'{"runs": []}')
    file_of(tmp_path, "one-traced").write_bytes(content)
    assert kept.get("one-traced") is None


def test_a_file_that_unpacks_to_too_much_is_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = MeasuredScripts(tmp_path)
    kept.put("one-traced", b'{"text": "' + b"x" * 2000 + b'"}')
    monkeypatch.setattr(measured, "MAX_BYTES", 1000)
    assert kept.get("one-traced") is None


def test_the_oldest_goes_when_there_are_too_many(tmp_path: Path) -> None:
    kept = MeasuredScripts(tmp_path)
    for number in range(MOST_FILES):
        kept.put(f"{number}-traced", b'{"number": %d}' % number)
        # Written within one tick of the clock: what is older has to be said.
        os.utime(file_of(tmp_path, f"{number}-traced"), (1000 + number, 1000 + number))
    kept.put("new-traced", b'{"number": "new"}')
    assert kept.get("0-traced") is None
    assert kept.get("1-traced") == {"number": 1}
    assert kept.get("new-traced") == {"number": "new"}
    assert len(list((tmp_path / MEASURED_NAME).iterdir())) == MOST_FILES


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / MEASURED_NAME).write_text("in the way")
    kept = MeasuredScripts(tmp_path)
    with pytest.raises(JournalError, match="is not a folder"):
        kept.put("one-traced", b"{}")
    assert kept.get("one-traced") is None


def test_a_key_tells_script_arguments_and_tier_apart() -> None:
    keys = {
        key_of("a", ["--x", "1"], "traced"),
        key_of("a", ["--x", "1"], "meta"),
        key_of("a", ["--x 1"], "traced"),
        key_of("b", ["--x", "1"], "traced"),
        key_of("a", ["\udcff"], "traced"),
    }
    assert len(keys) == 5
    assert key_of("a", ["--x", "1"], "traced") in keys
    assert all(set(key) <= set("0123456789abcdef-tracedmeta") for key in keys)
