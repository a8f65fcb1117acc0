"""The console in a terminal while things go wrong behind it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.rig import terminal
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import Desk, wait_until
from tests.real.rig.terminal import Terminal

pytestmark = pytest.mark.real

LINES = 400_000
FLOOD = f"""
for number in range({LINES}):
    print("flood", number, "x" * 40)
"""
GROWTH_MIB = 128
"""What a console with the log on its screen may need for it: an index of where lines begin."""


@pytest.mark.fault(
    "A job floods its log while its log is on the screen",
    "Keys are answered, the last line is reached, memory is bounded",
)
def test_a_flooded_log_on_the_screen_leaves_the_keys_alive(
    docker_lab: Lab, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    reason = terminal.why_not()
    if reason:
        pytest.skip(reason)
    docker_lab.add().start_engine()
    desk = Desk(docker_lab, tmp_path / "desk")
    submit = desk.command("submit", "--force", str(desk.script(FLOOD)))
    job_id = subprocess.check_output(submit, text=True).split()[0]
    folder = tmp_path / "terminal"
    folder.mkdir()
    with Terminal(folder, desk.command(), (120, 36)) as screen, desk.journal() as journal:
        screen.shows("lab-01")
        before = screen.peak_mib()
        screen.press("2")
        screen.shows("train")
        screen.press("Enter")
        screen.shows("flood")
        screen.press("1")
        screen.shows("lab-01")
        screen.press("2")
        screen.shows("train")
        screen.press("Enter")

        def ended() -> bool:
            job = journal.job(job_id)
            return job is not None and job.state.ended

        wait_until(ended, what="the job's end")
        screen.press("End")
        screen.shows(f"flood {LINES - 1}")
        grown = screen.peak_mib() - before
        assert grown < GROWTH_MIB
        screen.press("q")
    record_property("figure", f"{LINES:,} lines, {grown:.0f} MiB more")
