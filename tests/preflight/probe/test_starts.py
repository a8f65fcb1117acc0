"""Processes that run a script for the probe."""

from __future__ import annotations

import sys
from typing import Any

SAYS_FIRST = """
import os, sys, time
os.write(1, b'{"error": {"kind": "script"}}\\n')
os.close(1)
time.sleep(0.5)
sys.stderr.write("No folder given.")
"""


def test_what_a_process_printed_last_is_there_after_its_answer(part: Any) -> None:
    """Its answer and what it prints come by streams of their own."""
    start = part("runs.starts").Start({"mode": "meta"}, [sys.executable, "-c", SAYS_FIRST], {})
    try:
        answers, late = start.answers(lambda *_: None, None)
        assert (answers, late) == ([{"error": {"kind": "script"}}], False)
        assert start.tail == "No folder given."
    finally:
        start.end()
