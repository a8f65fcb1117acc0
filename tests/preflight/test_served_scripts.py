"""Scripts that serve: what they need is known where the network runs before the server begins."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from gpuconsole.preflight.tiers.static import analyse

EXAMPLES = Path(str(resources.files("gpuconsole"))) / "data" / "examples"
WARM = """    with paddle.no_grad():
        digits.model(paddle.zeros([args.batch_size, 1, 28, 28]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("mnist_cnn.py", "serve_mnist.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text("utf-8"))
    return tmp_path


def test_a_net_that_runs_before_the_server_begins_is_known(project: Path) -> None:
    memory = analyse(project / "serve_mnist.py").estimate(None).memory
    assert memory is not None
    trained = analyse(project / "mnist_cnn.py").estimate(None).memory
    assert trained is not None
    # Neither gradients nor moments of an optimizer: less than training takes.
    assert memory.optimizer_mib == 0.0
    assert memory.tensors_peak_mib < trained.tensors_peak_mib


def test_one_that_runs_in_requests_alone_is_unknown(project: Path) -> None:
    script = project / "serve_mnist.py"
    text = script.read_text("utf-8")
    assert WARM in text
    script.write_text(text.replace(WARM, ""))
    assert analyse(script).estimate(None).memory is None


def test_what_a_client_reads_stays_unknown(tmp_path: Path) -> None:
    script = tmp_path / "read.py"
    script.write_text(
        "import http.client, paddle\n"
        "size = http.client.HTTPConnection('a').getresponse().length\n"
        "paddle.nn.Linear(size, 4)(paddle.rand([2, size])).sum().backward()\n"
    )
    assert analyse(script).estimate(None).memory is None
