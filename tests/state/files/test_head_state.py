"""What a head knows of itself survives it, and is never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.errors import JournalError
from gpuconsole.state.files.head_state import StandingFile


def test_it_survives_and_keeps_the_heads_id(tmp_path: Path) -> None:
    first = StandingFile(tmp_path)
    assert not first.path.exists()
    first.change(leads=True, epoch=4, followed=True)
    again = StandingFile(tmp_path).present
    assert again == first.present
    assert (again.leads, again.epoch, again.followed, again.in_step) == (True, 4, True, False)
    assert first.path.stat().st_mode & 0o077 == 0


def test_two_heads_have_two_ids(tmp_path: Path) -> None:
    assert StandingFile(tmp_path).present.head != StandingFile(tmp_path).present.head


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"head": "a"}', "nonsense"])
def test_one_that_cannot_be_read_is_no_head_that_leads(tmp_path: Path, text: str) -> None:
    (tmp_path / "head.json").write_text(text)
    with pytest.raises(JournalError, match="cannot be read"):
        StandingFile(tmp_path)
