"""What is public stays as callers know it, is documented, and costs nothing before it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gpuconsole
from tests.scripts import script
from tests.waiting import DEADLINE_S

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(import .*?)```", PAGE.split("<!-- reference -->")[0], re.DOTALL)
SCRIPT = """
import paddle

net = paddle.nn.Linear(784, 10)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(40):
    loss = paddle.nn.functional.cross_entropy(
        net(paddle.rand([64, 784])), paddle.randint(0, 10, [64])
    )
    loss.backward()
    adam.step()
    adam.clear_grad()
"""


def apipage() -> ModuleType:
    return script(DOCS / "apipage.py")


def test_calls_and_errors_are_what_was_promised() -> None:
    """A change here is a change for every caller: note it with `python docs/apipage.py`."""
    page = apipage()
    calls, fields = page.shapes()
    promised = page.promised()
    records = {field.split(".")[0] for field in fields}
    assert [line for line in promised if line.split(".")[0] not in records] == calls


def test_fields_that_were_promised_are_there() -> None:
    page = apipage()
    _, fields = page.shapes()
    records = {field.split(".")[0] for field in fields}
    promised = {line for line in page.promised() if line.split(".")[0] in records}
    assert promised
    assert not promised - set(fields)


@pytest.mark.parametrize(
    ("blocking", "session"), [("BlockingSession", "Session"), ("BlockingImages", "Imaging")]
)
def test_a_session_without_await_has_the_same_methods(blocking: str, session: str) -> None:
    calls, _ = apipage().shapes()

    def shapes(kind: str) -> set[str]:
        own = (call.split(".", 1)[1] for call in calls if call.startswith(f"{kind}."))
        return {
            one.replace("async ", "")
            .replace("AsyncIterator", "Iterator")
            .replace("BlockingImages", "Imaging")
            for one in own
        }

    own = {"def close() -> None", "closed: bool"}
    assert shapes(blocking) - own == shapes(session)
    assert shapes(session)


def test_it_is_written_from_the_asynchronous_one() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS.parent / "tools" / "blocking_api.py"), "--check"], check=False
    )
    assert done.returncode == 0, "run: python tools/blocking_api.py"


def test_the_page_is_what_the_code_says() -> None:
    assert apipage().page(PAGE) == PAGE, "run: python docs/generate.py"


def test_every_public_name_is_had_and_no_other() -> None:
    for name in gpuconsole.__all__:
        assert getattr(gpuconsole, name) is not None
        assert name in dir(gpuconsole)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gpuconsole.nothing  # noqa: B018


def test_no_two_public_classes_have_one_name() -> None:
    own = {gpuconsole.Session, gpuconsole.BlockingSession}
    assert gpuconsole.LabSession is gpuconsole.Session
    public = (getattr(gpuconsole, name) for name in gpuconsole.__all__)
    named = {thing for thing in public if isinstance(thing, type)}
    assert own <= named
    assert len({kind.__name__ for kind in named}) == len(named)


@pytest.mark.parametrize(
    "probe",
    [
        "import sys; before = set(sys.modules); import gpuconsole\n"
        "print([name for name in set(sys.modules) - before if name.startswith('gpuconsole.')"
        " or name in ('asyncio', 'asyncssh', 'textual', 'docker', 'pydantic', 'click', 'rich')])",
        "import sys, gpuconsole; gpuconsole.open_session; gpuconsole.Report\n"
        "print([m for m in ('textual', 'asyncssh', 'docker', 'rich', 'IPython') "
        "if m in sys.modules])",
    ],
    ids=["nothing", "no screen"],
)
def test_importing_costs(probe: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True, text=True, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_page_run(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    exec(compile(example, "api.md", "exec"), {})
    assert capsys.readouterr().out


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 6
