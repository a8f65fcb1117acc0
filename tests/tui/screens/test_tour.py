"""The README's tour, key by key: what a newcomer with `make demo` finds without a manual."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.simulated_lab import jobs as demo_jobs
from gpuconsole.simulated_lab.jobs import submit_demo_jobs
from tests.tui.console import SIZES, Driven, opened

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| (`[^|]*) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


def tour(page: str = "README.md", heading: str = "## Two minutes\n") -> list[tuple[str, ...]]:
    """The keys of each row of a page's tour, as they are written there."""
    text = (ROOT / page).read_text("utf-8")
    section = text.partition(heading)[2].partition("\n## ")[0]
    return [tuple(re.findall(r"`([^`]+)`", keys)) for keys in ROW.findall(section)]


async def walk(console: Driven, words: tuple[str, ...]) -> None:
    """Press a row of the tour: names of keys, and words that are typed."""
    for word in words:
        if word in ("enter", "esc", "down", "/") or len(word) == 1:
            await console.press({"esc": "escape", "/": "slash"}.get(word, word))
        else:
            await console.type(word)


FOUND: tuple[tuple[str, ...], ...] = (
    (r"1 x 24 GiB  \d places?   ◆ \S+ gpu \d", "◆■|■◆|█◆|◆ free"),
    (r"rtx3090-01  rack:r2", r"▸ +1~ RTX 3090.* chen"),
    (r"why is eight-cards queued\?", r"8 devices could do it"),
    (r"WILL NOT FIT|will not fit", r"[Bb]atch size"),
    (r"Queue > runs-out", r"Out of memory on GPU 0"),
)
"""What is on the screen after each row, as patterns: which devices are free changes."""


def test_the_readme_tells_a_tour() -> None:
    rows = tour()
    assert len(rows) == len(FOUND)
    assert all(rows)


@pytest.mark.parametrize("size", SIZES)
async def test_a_newcomer_finds_by_keys_alone(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions()) as session,
        # What the lab's jobs report would lie over what the tour shows.
        opened(session, size, toasts=False) as console,
    ):
        await submit_demo_jobs(session.queue)
        await console.until(lambda: any(job.state is JobState.OOM for job in session.jobs()))
        for words, expected in zip(tour(), FOUND, strict=True):
            await walk(console, words)
            for one in expected:
                await console.until(
                    lambda one=one: re.search(one, console.text), f"`{one}` after {words}"
                )


MORE: tuple[tuple[str, ...], ...] = (
    (r"digits\[1\]", r"digits\[2\]", r"healthy"),
    (r"shell .* running", r"B session"),
    (r"sweep\[lr=0.3\]|lr=0.3|0\.3", r"loss"),
)
"""What is on the screen after each row of the demo's second tour."""


async def test_service_shell_and_sweep_are_found_by_keys_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    # Steps take their time however fast the lab's time is.
    monkeypatch.setattr(demo_jobs, "SWEEP_STEPS", 300)
    rows = tour("docs/index.md", "## The demo\n")
    assert len(rows) == len(MORE)
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions(speed=4.0)) as session,
        opened(session, (120, 36), toasts=False) as console,
    ):
        await submit_demo_jobs(session.queue)
        await console.until(
            lambda: sum(job.is_healthy for job in session.jobs()) == 2, "two healthy replicas"
        )
        await console.until(lambda: session.job("shell").state is JobState.RUNNING)
        await console.until(lambda: session.job("sweep[lr=0.3]").state.ended, "a curve")
        for words, expected in zip(rows, MORE, strict=True):
            await walk(console, words)
            for one in expected:
                await console.until(
                    lambda one=one: re.search(one, console.text), f"`{one}` after {words}"
                )
