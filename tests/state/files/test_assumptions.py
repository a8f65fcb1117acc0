"""Answers remembered for a script, in a file that anybody may have damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuconsole.errors import JournalError
from gpuconsole.state import Assumptions
from gpuconsole.state.files.assumptions import FILE, MAX_SCRIPTS, changed, decode, encode


def test_answers_come_back_and_the_newest_wins(tmp_path: Path) -> None:
    store = Assumptions(tmp_path / "state")
    script = tmp_path / "train.py"
    assert store.of(script) == {}
    store.remember(script, {"width": "3", "len(vocab)": "30000"})
    assert store.remember(script, {"width": "4"}) == {"width": "4", "len(vocab)": "30000"}
    again = Assumptions(tmp_path / "state")
    assert again.of(tmp_path / "x" / ".." / "train.py") == {"width": "4", "len(vocab)": "30000"}
    assert again.of(tmp_path / "other.py") == {}
    assert again.remember(script, {"width": ""}) == {"len(vocab)": "30000"}
    again.forget(script)
    assert store.of(script) == {}


def test_the_script_answered_longest_ago_goes_first() -> None:
    known: dict[str, dict[str, str]] = {}
    for number in range(MAX_SCRIPTS + 2):
        known = changed(known, f"/{number}.py", {"n": "1"})
        if number == 1:
            known = changed(known, "/0.py", {"n": "2"})
    assert len(known) == MAX_SCRIPTS
    assert "/0.py" not in known
    assert "/1.py" not in known
    assert "/2.py" in known


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": 3}', '{"a": {"b": 3}}', "[" * 100_000])
def test_a_damaged_file_says_nothing_and_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    store = Assumptions(tmp_path)
    assert store.of("train.py") == {}
    store.remember("train.py", {"n": "1"})
    assert store.of("train.py") == {"n": "1"}
    assert decode(encode({"a": {"b": "c"}})) == {"a": {"b": "c"}}


def test_only_its_user_may_read_it_and_no_draft_stays(tmp_path: Path) -> None:
    Assumptions(tmp_path).remember("train.py", {"n": "1"})
    assert os.listdir(tmp_path) == [FILE]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError):
        Assumptions(tmp_path / "file").remember("train.py", {"n": "1"})
    assert Assumptions(tmp_path / "file").of("train.py") == {}


def test_a_path_that_is_no_text_keeps_no_other_from_being_kept(tmp_path: Path) -> None:
    store = Assumptions(tmp_path)
    store.remember("caf\udce9.py", {"n": "1"})
    store.remember("train.py", {"n": "2"})
    assert Assumptions(tmp_path).of("train.py") == {"n": "2"}


def test_what_was_read_is_the_readers_own(tmp_path: Path) -> None:
    store = Assumptions(tmp_path)
    store.remember("train.py", {"n": "1"})
    store.of("train.py")["n"] = "2"
    assert store.of("train.py") == {"n": "1"}
