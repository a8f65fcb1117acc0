"""What the tests of commands share: a script, a lab, and how a command is run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuconsole.core.jobs import Job
from gpuconsole.state import Journal
from tests.waiting import DEADLINE_S

SCRIPT = """
import paddle
from paddle.io import DataLoader, Dataset


class Samples(Dataset):
    def __getitem__(self, index):
        return paddle.randn([784]), paddle.to_tensor(1)

    def __len__(self):
        return 640


net = paddle.nn.Sequential(
    paddle.nn.Linear(784, 256), paddle.nn.ReLU(), paddle.nn.Linear(256, 10)
)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for images, labels in DataLoader(Samples(), batch_size=64):
    loss = paddle.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    adam.step()
    adam.clear_grad()
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]
Lab = tuple[str, ...]
"""Options that name an inventory and a state folder."""


def jobs_of(tmp_path: Path) -> tuple[Job, ...]:
    """Return the jobs of the lab below a folder."""
    journal = Journal(tmp_path / "state", clock=lambda: 0.0, read_only=True)
    try:
        return journal.jobs()
    finally:
        journal.close()


def in_process(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own, which imports what it needs alone; it must not fail."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE_S,
        check=True,
    )  # fmt: skip
