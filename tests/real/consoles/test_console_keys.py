"""The whole road by keys: the console in a real terminal, over a real host, engine and Paddle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from tests.real.rig import terminal
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import Desk
from tests.real.rig.terminal import Terminal
from tests.real.services.test_road import TRAIN

pytestmark = pytest.mark.skipif(bool(terminal.why_not()), reason=terminal.why_not() or "-")


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=["wide", "narrow"])
def test_a_script_goes_from_the_form_to_its_result(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk")
    script = desk.script(TRAIN)
    monkeypatch.chdir(tmp_path)
    with Terminal(tmp_path, desk.command(), size) as console:
        console.shows(host.name, "A100")
        console.press("4")
        console.shows("submit", "script")
        console.type(str(script))
        console.until(lambda text: "fits" in text.lower() and "estimating" not in text)
        console.press("C-s")
        console.shows("Queue > train")
        console.shows("succeeded", "step=20/20")
        console.press("F")
        # The toast that says so goes by itself, on a busy machine between two looks at the screen.
        console.until(lambda _: any(map(_whole, tmp_path.glob("results/*/result.json"))))
        found = next(tmp_path.glob("results/*/result.json"))
        assert json.loads(found.read_text())["steps"] == 20

        # The queue and the map have seen it too, and leaving tells no error.
        console.press("2")
        console.shows("train", "succeeded")
        console.press("1")
        console.shows(host.name)
        console.press("q")
        assert console.ended() == 0
    with desk.journal() as journal:
        (job,) = journal.jobs()
    assert (job.state, job.id, len(job.attempts)) == (
        JobState.SUCCEEDED, found.parent.name, 1,
    )  # fmt: skip


def _whole(path: Path) -> bool:
    """Return whether a result has been written to its end."""
    return path.read_text("utf-8").rstrip().endswith("}")
