"""The end of a log, read for a glance."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.session.logs.tail import last_lines


def test_the_last_lines_are_clean_and_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\x1b[31m\n" % n for n in range(20_000)) + b"no end")
    assert last_lines(log, 3) == ["line 19998", "line 19999", "no end"]
    every = last_lines(log, 100_000)
    assert every[0].startswith("line "), "the half line at the beginning of what is read is left"
    assert len(every) < 20_000


def test_a_log_that_is_short_missing_or_unreadable(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(log, 3) == []
    log.write_text("a\nb\n")
    assert last_lines(log, 3) == ["a", "b"]
    assert last_lines(tmp_path, 3) == []
