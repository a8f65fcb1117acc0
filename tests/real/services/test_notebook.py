"""The magics in a real Jupyter kernel, whose own event loop runs, and in IPython on a terminal.

Jobs go to the simulated lab's pool `dev`, whose hosts never go away.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.real.rig import kernel
from tests.real.rig.kernel import Kernel
from tests.real.rig.patience import PATIENCE_S

SCRIPT = """
import paddle

net = paddle.nn.Sequential(
    paddle.nn.Linear(784, 256), paddle.nn.ReLU(), paddle.nn.Linear(256, 10)
)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(100):
    loss = paddle.nn.functional.cross_entropy(
        net(paddle.rand([64, 784])), paddle.randint(0, 10, [64])
    )
    loss.backward()
    adam.step()
    adam.clear_grad()
"""
HOSTILE = "</pre><script>alert(1)</script>"


@pytest.fixture(scope="module")
def kernels_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the kernels of this module away from the settings of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        for name in ("GPUCONSOLE_INVENTORY", "PYTHONWARNINGS"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def demo(kernels_home: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Give a kernel on the simulated lab, where a second is forty."""
    if reason := kernel.why_not():
        pytest.skip(reason)
    with Kernel(tmp_path_factory.mktemp("work")) as running:
        opened = running.run("%gpuconsole open --demo --speed 40")
        assert opened.status == "ok", opened.error
        assert "SIMULATED" in opened.plain
        assert "a100-01" in opened.html
        yield running


class Elements(HTMLParser):
    """Counts the elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)


def test_a_cell_is_estimated_and_never_run(demo: Kernel) -> None:
    shown = demo.run(f"%%gpuconsole --batch-size 64\n{SCRIPT}\nopen('ran', 'w')\n")
    assert shown.status == "ok", shown.error
    assert "FITS" in shown.plain
    assert "SIMULATED" in shown.plain
    assert "parameters" in shown.html
    assert "<table" in shown.html
    assert "a100-01" in shown.html
    assert demo.run("import os; print(os.path.exists('ran'))").stdout == "False\n"


def test_what_cannot_be_told_names_the_cells_own_line_and_what_would_settle_it(
    demo: Kernel,
) -> None:
    source = SCRIPT.replace("import paddle\n", "import paddle\nfrom ours import width\n")
    source = source.replace("256", "width")
    shown = demo.run(f"%%gpuconsole\n{source}")
    assert shown.status == "ok"
    assert "UNKNOWN" in shown.plain
    # The magic's own line is the first, as the notebook numbers them.
    assert "cell.py:4" in shown.html
    assert "--assume" in shown.html
    answered = demo.run(f"%%gpuconsole --assume width=128\n{source}")
    assert "needs about" in answered.plain


def test_a_script_that_is_wrong_says_where(demo: Kernel) -> None:
    wrong = SCRIPT.replace("Linear(256, 10)", "Linear(200, 10)")
    shown = demo.run(f"%%gpuconsole\n{wrong}")
    assert "WILL FAIL" in shown.plain
    assert "[64, 256]" in shown.html
    refused = demo.run(f"%%gpuconsole --submit\n{wrong}")
    assert refused.status == "error"
    assert "Traceback" not in "".join(refused.error)


def test_a_job_is_queued_and_followed_to_its_end_and_looked_at(demo: Kernel) -> None:
    ran = demo.run(f"%%gpuconsole --submit --label pool=dev --name mine -- --steps 60\n{SCRIPT}")
    assert ran.status == "ok", ran.error
    assert "succeeded" in ran.html
    assert "step=60/60" in ran.html
    assert ran.updates, "the page changes while the job goes on"
    assert len(ran.pages) == 2, "the answer, and one place for the job"
    listed = demo.run("%gpuconsole jobs")
    assert "mine" in listed.html
    why = demo.run("%gpuconsole why mine")
    assert "succeeded" in why.plain
    log = demo.run("%gpuconsole logs mine -n 2")
    assert log.stdout.splitlines()[-1] == "done; results written"
    fetched = demo.run("%gpuconsole fetch mine --to results")
    assert fetched.status == "ok", fetched.error
    assert demo.run("import os; print(len(os.listdir('results')))").stdout == "1\n"


def test_tab_completes_words_and_jobs(demo: Kernel) -> None:
    assert set(demo.complete("%gpuconsole wh")) == {"why"}
    assert "--cancel-on-interrupt" in demo.complete("%%gpuconsole --canc")
    queued = demo.run(f"%%gpuconsole --submit --no-follow --name tabbed -- --steps 40\n{SCRIPT}")
    assert queued.status == "ok", queued.error
    assert demo.complete("%gpuconsole why tabb") == ["tabbed"]
    assert demo.complete("%gpuconsole logs ") != []


def test_a_file_is_named_on_the_line(demo: Kernel) -> None:
    written = demo.run(f"%%writefile train.py\n{SCRIPT}")
    assert written.status == "ok"
    assert "FITS" in demo.run("%gpuconsole preflight train.py").plain
    assert "FITS" in demo.run("%%gpuconsole train.py\n ").plain
    ran = demo.run("%gpuconsole submit train.py --label pool=dev --no-follow -- --steps 40")
    assert ran.status == "ok", ran.error
    assert demo.run("%gpuconsole follow train").status == "ok"
    both = demo.run(f"%%gpuconsole train.py\n{SCRIPT}")
    assert both.status == "error"
    assert "%gpuconsole preflight train.py" in "".join(both.error)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("%%gpuconsole --bogus\nx = 1", "No such option"),
        ("%%gpuconsole --batch-size many\nx = 1", "--batch-size"),
        ("%%gpuconsole 'unbalanced\nx = 1", "No closing quotation"),
        ("%%gpuconsole\nimport paddle\n!ls\n", "cell.py:3"),
        ("%gpuconsole bogus", "No such command"),
        ("%gpuconsole why nobody", "no job 'nobody'"),
        ("%gpuconsole preflight nowhere.py", "nowhere.py"),
        ("%gpuconsole open --inventory nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_a_mistake_is_told_in_words_and_ends_the_cell(
    demo: Kernel, source: str, words: str
) -> None:
    shown = demo.run(source)
    assert shown.status == "error", "a run of all cells stops here"
    said = "\n".join(shown.error)
    assert words in said
    assert "Traceback" not in said + shown.stdout + shown.stderr
    assert "File " not in said
    assert 1 <= len(shown.error) <= 3


def test_foreign_words_draw_nothing(demo: Kernel) -> None:
    queued = demo.run(f"%%gpuconsole --submit --no-follow --name '{HOSTILE}'\n{SCRIPT}")
    assert queued.status == "ok", queued.error
    listed = demo.run("%gpuconsole jobs")
    assert "script" not in Elements(listed.html).names
    assert "&lt;script&gt;" in listed.html


def test_the_cells_of_the_page_run(kernels_home: None, tmp_path: Path) -> None:
    if reason := kernel.why_not():
        pytest.skip(reason)
    page = (Path(__file__).parents[3] / "docs" / "notebook.md").read_text(encoding="utf-8")
    cells = re.findall(r"```ipython\n(.*?)\n```", page, re.DOTALL)
    assert len(cells) == 10
    with Kernel(tmp_path) as running:
        for source in cells:
            done = running.run(source)
            assert done.status == "ok", (source, done.error)
            assert done.error == []
    assert list(tmp_path.glob("results/*/summary.json"))


def test_an_interrupt_ends_the_following_and_not_the_job(demo: Kernel) -> None:
    def steps(cell: kernel.Cell) -> bool:
        return "step=" in cell.html

    stopped = demo.run(
        f"%%gpuconsole --submit --label pool=dev --name long -- --steps 4000\n{SCRIPT}",
        interrupt_when=steps,
    )
    assert stopped.status == "error"
    assert "only the following ended" in "".join(stopped.error)
    assert "running" in demo.run("%gpuconsole jobs long").plain
    ended = demo.run("%gpuconsole follow long --cancel-on-interrupt", interrupt_when=steps)
    assert "was cancelled" in "".join(ended.error)
    assert "cancelled" in demo.run("%gpuconsole jobs long").plain


def test_the_api_is_awaited_in_a_cell(demo: Kernel) -> None:
    shown = demo.run(
        "import gpuconsole\n"
        "async with gpuconsole.open_session(demo=True) as lab:\n"
        "    print(len((await lab.status()).hosts), lab.simulated)\n"
    )
    assert shown.stdout == "6 True\n", shown.error
    blocking = demo.run(
        "with gpuconsole.open_blocking(demo=True) as lab:\n    print(len(lab.status().hosts))\n"
    )
    assert blocking.stdout == "6\n", blocking.error


def test_without_a_lab_common_cards_answer_and_nothing_can_be_queued(
    kernels_home: None, tmp_path: Path
) -> None:
    if reason := kernel.why_not():
        pytest.skip(reason)
    with Kernel(tmp_path) as running:
        shown = running.run(f"%%gpuconsole\n{SCRIPT}")
        assert shown.status == "ok", shown.error
        assert "A100-SXM4-40GB" in shown.html
        assert "SIMULATED" not in shown.plain
        refused = running.run(f"%%gpuconsole --submit\n{SCRIPT}")
        assert refused.status == "error"
        assert "%gpuconsole open --demo" in "".join(refused.error)
        assert running.run("%unload_ext gpuconsole").status == "ok"
        assert "not found" in running.run("%gpuconsole status").stderr


def test_ipython_on_a_terminal_prints_text(kernels_home: None, tmp_path: Path) -> None:
    if reason := kernel.why_not():
        pytest.skip(reason)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    program = (
        "%load_ext gpuconsole\n%gpuconsole open --demo --speed 40\n"
        "%gpuconsole submit train.py --label pool=dev -- --steps 40\n%gpuconsole why nobody\n"
    )
    (tmp_path / "session.ipy").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--quick", "--colors=nocolor", "session.ipy"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, "COLUMNS": "120"},
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "FITS" in done.stdout, said
    assert "step=40/40" in done.stdout
    assert "No such job" in said
    assert "Traceback" not in said
    assert "<div" not in said
