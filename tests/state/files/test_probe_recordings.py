"""Recordings of measured scripts, kept in files."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gpuconsole.core.util.user_dirs import MEASURED_NAME
from gpuconsole.errors import JournalError
from gpuconsole.state.files import probe_recordings
from gpuconsole.state.files.probe_recordings import MOST_FILES, MeasuredScripts, key_of


def file_of(state: Path, key: str) -> Path:
    (found,) = (state / MEASURED_NAME).glob(f"{key}.*.json.gz")
    return found


def put(kept: MeasuredScripts, key: str, document: bytes, place: str = "") -> None:
    kept.put(key, place, {}, document)


def test_what_was_kept_is_read_again_and_only_under_its_own_name(tmp_path: Path) -> None:
    kept = MeasuredScripts(tmp_path)
    document = {"runs": [1, 2], "mode": "traced", "name": "größe"}
    put(kept, "one-traced", json.dumps(document).encode())
    assert MeasuredScripts(tmp_path).get("one-traced") == document
    assert kept.get("one-meta") is None
    put(kept, "one-traced", b'{"runs": []}')
    assert kept.get("one-traced") == {"runs": []}
    assert list((tmp_path / MEASURED_NAME).iterdir()) == [file_of(tmp_path, "one-traced")]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        # As it was stored before inputs were.
        gzip.compress(b'{"runs": 1}'),
        gzip.compress(b'[]\n{"runs": 1}'),
        gzip.compress(b'{}\n{"runs": 1}')[:-9],
        gzip.compress(b'{}\n{"runs": 1}')[:12] + b"\xff" * 20,
        gzip.compress(b"{}\n{"),
        gzip.compress(b"{}\n\xff\xfe"),
        gzip.compress(b"{}\n[1]"),
        gzip.compress(b"{}\n" + b"[" * 100_000),
    ],
    ids=[
        "empty",
        "plain",
        "former",
        "no inputs",
        "cut",
        "garbled",
        "half",
        "no text",
        "a list",
        "deep",
    ],
)
def test_a_damaged_file_is_no_recording(tmp_path: Path, content: bytes) -> None:
    kept = MeasuredScripts(tmp_path)
    put(kept, "one-traced", b'{"runs": []}')
    file_of(tmp_path, "one-traced").write_bytes(content)
    assert kept.get("one-traced") is None


def test_a_file_that_unpacks_to_too_much_is_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = MeasuredScripts(tmp_path)
    put(kept, "one-traced", b'{"text": "' + b"x" * 2000 + b'"}')
    monkeypatch.setattr(probe_recordings, "MAX_BYTES", 1000)
    assert kept.get("one-traced") is None


def test_the_oldest_goes_when_there_are_too_many(tmp_path: Path) -> None:
    kept = MeasuredScripts(tmp_path)
    for number in range(MOST_FILES):
        put(kept, f"{number}-traced", b'{"number": %d}' % number)
        # Written within one tick of the clock: what is older has to be said.
        os.utime(file_of(tmp_path, f"{number}-traced"), (1000 + number, 1000 + number))
    put(kept, "new-traced", b'{"number": "new"}')
    assert kept.get("0-traced") is None
    assert kept.get("1-traced") == {"number": 1}
    assert kept.get("new-traced") == {"number": "new"}
    assert len(list((tmp_path / MEASURED_NAME).iterdir())) == MOST_FILES


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / MEASURED_NAME).write_text("in the way")
    kept = MeasuredScripts(tmp_path)
    with pytest.raises(JournalError, match="is not a folder"):
        put(kept, "one-traced", b"{}")
    assert kept.get("one-traced") is None


def test_the_newest_of_all_places_counts_whose_inputs_hold(tmp_path: Path) -> None:
    kept = MeasuredScripts(tmp_path)
    for number, place in enumerate(("", "paddle:3", "paddle:2")):
        kept.put("one-traced", place, {"place": place}, b'{"number": %d}' % number)
        newest = max((tmp_path / MEASURED_NAME).iterdir(), key=lambda one: one.stat().st_ctime_ns)
        os.utime(newest, (1000 + number, 1000 + number))
    assert kept.get("one-traced") == {"number": 2}
    assert kept.get("one-traced", lambda made: made["place"] != "paddle:2") == {"number": 1}
    assert kept.get("one-traced", lambda made: made["place"] == "") == {"number": 0}
    assert kept.get("one-traced", lambda made: False) is None
    kept.put("one-traced", "", {"place": ""}, b'{"number": 4}')
    assert len(list((tmp_path / MEASURED_NAME).iterdir())) == 3


def test_a_key_tells_script_settings_and_tier_apart() -> None:
    keys = {
        key_of("a", {"args": ["--x", "1"]}, "traced"),
        key_of("a", {"args": ["--x", "1"]}, "meta"),
        key_of("a", {"args": ["--x 1"]}, "traced"),
        key_of("a", {"env": ["--x", "1"]}, "traced"),
        key_of("b", {"args": ["--x", "1"]}, "traced"),
        key_of("a", {"args": ["\udcff"]}, "traced"),
    }
    assert len(keys) == 6
    assert key_of("a", {"args": ["--x", "1"]}, "traced") in keys
    assert all(set(key) <= set("0123456789abcdef-tracedmeta") for key in keys)
