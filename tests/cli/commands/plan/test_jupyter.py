"""What a notebook needs is said before `gpuconsole jupyter` queues its session."""

from __future__ import annotations

import json
from pathlib import Path

from gpuconsole.cli.commands.plan.jupyter import need_of
from gpuconsole.session.factory import DemoOptions, open_session

TRAINS = """
import paddle

net = paddle.nn.Linear(64, 64)
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(3):
    loss = net(paddle.rand([8, 64])).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
UNKNOWN = TRAINS.replace("[8, 64]", "[int(input()), 64]")


def book(folder: Path, name: str, source: str) -> Path:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [],
            "execution_count": None, "source": source}  # fmt: skip
    path = folder / name
    path.write_text(
        json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    return path


async def test_a_notebooks_need_is_said_or_that_it_is_not_known(tmp_path: Path) -> None:
    session = open_session(None, tmp_path / "state", demo=DemoOptions(), dispatch=False)
    async with session:
        known = await need_of(session, book(tmp_path, "known.ipynb", TRAINS))
        assert known.startswith("known.ipynb needs up to ")
        assert "MiB on a device." in known
        unknown = await need_of(session, book(tmp_path, "open.ipynb", UNKNOWN))
        assert unknown.startswith("What open.ipynb needs is not known: ")
        broken = tmp_path / "broken.ipynb"
        broken.write_text("{")
        assert (await need_of(session, broken)).startswith("What broken.ipynb needs is not known")
