"""The console over the real session and the simulated lab: the main road, by keys alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.session.factory import DemoOptions, open_session
from tests.tui.console import SIZES, opened

SCRIPT = """\
import paddle

net = paddle.nn.Linear({width}, 10)
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
batch_size = 256
for step in range(20):
    loss = net(paddle.randn([batch_size, {width}])).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    print(f"step={{step + 1}}/20")
"""


@pytest.mark.parametrize("size", SIZES)
async def test_submit_watch_and_find_the_result(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(width=784))
    monkeypatch.chdir(tmp_path)
    demo = DemoOptions(hosts=6, speed=40.0)
    async with (
        open_session(None, tmp_path / "state", demo=demo) as session,
        opened(session, size) as console,
    ):
        await console.shows("SIMULATED", "A100-SXM4-40GB", "Ascend 910")
        await console.press("4")
        await console.type("train.py")
        await console.shows("✓ FITS" if size[0] == 120 else "✓ fits")
        await console.press("ctrl+j")
        await console.shows("Queue > train")
        await console.until(lambda: session.job("train").state.ended)
        assert session.job("train").state.value == "succeeded"
        await console.shows("succeeded", "step=", "SIMULATED")
        await console.press("2")
        await console.shows("1 job", "train")


async def test_what_will_not_fit_is_not_queued_without_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "huge.py").write_text(SCRIPT.format(width=2_000_000_000))
    monkeypatch.chdir(tmp_path)
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions()) as session,
        opened(session) as console,
    ):
        await console.press("4")
        await console.type("huge.py")
        await console.shows("✗ WILL NOT FIT")
        await console.press("ctrl+j")
        await console.shows("Submit it anyway?")
        await console.press("escape")
        assert session.jobs() == ()
