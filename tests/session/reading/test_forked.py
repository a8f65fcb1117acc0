"""A reader that is a copy of the process that asks, as a command starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ASKED = """
import json, os, sys
from gpuconsole.session.reading import forked, process
from gpuconsole.session.reading.reader import Reader
from gpuconsole.session.reading.process import Limits
from gpuconsole.session.reading.questions import Estimating
from gpuconsole.core.jobs import Task
os.environ["SECRET"] = "1"
held = open(os.devnull)
{before}
question = Estimating(Task("x", script=sys.argv[1]), ())
with Reader(Limits(), copied=True) as reader:
    report = reader.ask(question)
    child = reader._child._process
    of = "/proc/%d/" % child.pid
    found = {{
        "kind": type(child).__name__,
        "tier": report.estimate.tier,
        "folder": os.readlink(of + "cwd"),
        "files": len(os.listdir(of + "fd")),
        "session": os.getsid(child.pid) == child.pid,
        "limit": "Max file size             0" in open(of + "limits").read(),
    }}
found["ended"] = child.poll() is not None
print(json.dumps(found))
"""
SCRIPT = """
import paddle
net = paddle.nn.Linear(8, 8)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for _ in range(3):
    net(paddle.rand([4, 8])).mean().backward()
    opt.step()
    opt.clear_grad()
"""


def asked(tmp_path: Path, before: str = "") -> dict[str, object]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-c", ASKED.format(before=before), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
def test_a_copy_answers_and_shares_nothing_with_the_command(tmp_path: Path) -> None:
    found = asked(tmp_path)
    assert found["kind"] == "Forked"
    assert found["tier"] == "static"
    assert found["session"]
    assert found["limit"]
    assert found["ended"]
    # It has as many files open as a process of its own: none of the command.
    assert found["files"] == asked(tmp_path, "import asyncio")["files"]


@pytest.mark.parametrize(
    "before",
    [
        "import asyncio",
        "import threading; stop = threading.Event(); "
        "threading.Thread(target=stop.wait, daemon=True).start()",
    ],
)
def test_a_process_with_an_event_loop_or_threads_is_not_copied(tmp_path: Path, before: str) -> None:
    found = asked(tmp_path, before)
    assert found["tier"] == "static"
    assert found["kind"] == "Popen"
