"""Calls for a card, as training scripts write them, where there is none."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from gpuconsole.preflight.tiers import probe_request
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

ASKED = """
import sys
sys.path.insert(0, sys.argv[1])
import paddle
from gpuconsole.preflight.probe.standins import devices_and_downloads
devices_and_downloads.install(paddle)
assert paddle.get_device() == "gpu:0"
net = paddle.nn.Linear(2, 2).to("cuda")
net.to(device="gpu:0")
data = paddle.to_tensor([[1.0, 2.0]], place="gpu").to("gpu:0").to("cuda").cuda()
net(data).sum().backward()
card = paddle.device.cuda.get_device_properties()
assert card.total_memory > 0 and paddle.device.cuda.get_device_capability()[0] >= 7
assert paddle.device.cuda.get_device_name(0)
paddle.set_device("cuda:0" if paddle.device.is_compiled_with_cuda() else "cpu")
assert paddle.device.get_device() == "gpu:0"
paddle.set_device("cpu")
assert paddle.get_device() == "cpu"
"""


def test_scripts_that_name_a_card_are_given_what_they_ask_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(probe_request.PROBE)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
