"""Whose an error is that ended a measured script: no Paddle is needed to tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuconsole.preflight.meta.state import rightly

ROOT = Path("/project")
TIER = Path("/tier/meta")
LIBRARY = Path("/site-packages/paddle")
CALLING = "def run(call):\n    return call()\n"
HANDLING = """def run(call):
    try:
        call()
    except ValueError:
        raise KeyError(1)
"""


@pytest.fixture
def blame(part: Any) -> Any:
    return part("blame")


@pytest.fixture
def meta() -> Any:
    class Tensor:
        pass

    state = SimpleNamespace(Unsupported=type("Unsupported", (BaseException,), {}),
                            STATE=SimpleNamespace(tensor=Tensor))  # fmt: skip
    script = SimpleNamespace(answers=SimpleNamespace(doubts=lambda: []))
    return SimpleNamespace(__path__=[str(TIER)], state=state, script=script)


def raised(error: BaseException, *files: Path, code: str = CALLING) -> BaseException:
    """Raise an error below calls of functions of some files, the outermost first."""

    def fail() -> None:
        raise error

    fail.__code__ = fail.__code__.replace(co_filename=str(files[-1]))
    call: Callable[[], Any] = fail
    for file in reversed(files[:-1]):
        names: dict[str, Any] = {}
        exec(compile(code, str(file), "exec"), names)
        call = _bound(names["run"], call)
    try:
        call()
    except BaseException as found:
        return found
    raise AssertionError("nothing was raised")


def _bound(run: Any, call: Any) -> Callable[[], Any]:
    return lambda: run(call)


SCRIPT, OPERATOR, LAYER = ROOT / "train.py", TIER / "dispatch.py", LIBRARY / "nn.py"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ((SCRIPT,), "script"),
        ((SCRIPT, LAYER), "script"),
        ((SCRIPT, LAYER, OPERATOR), "unsupported"),
        ((SCRIPT, OPERATOR, LAYER), "unclear"),
        ((SCRIPT, OPERATOR, SCRIPT), "script"),
        ((SCRIPT, OPERATOR, SCRIPT, LAYER), "script"),
    ],
)
def test_the_script_is_blamed_for_what_arises_in_it(
    blame: Any, meta: Any, files: tuple[Path, ...], kind: str
) -> None:
    for error in (ValueError("shapes"), KeyError("a"), RuntimeError("no")):
        assert blame.failure(raised(error, *files), meta, ROOT)[0] == kind


def test_what_paddle_raises_too_is_the_scripts(blame: Any, meta: Any) -> None:
    found = raised(rightly(ValueError("shapes")), SCRIPT, LAYER, OPERATOR)
    assert blame.failure(found, meta, ROOT) == ("script", "ValueError: shapes")


def test_an_error_that_is_met_on_the_way_from_one_of_the_tier_is_not_the_scripts(
    blame: Any, meta: Any
) -> None:
    found = raised(ValueError("inner"), SCRIPT, OPERATOR, code=HANDLING)
    assert isinstance(found, KeyError)
    kind, words = blame.failure(found, meta, ROOT)
    assert kind == "unsupported"
    assert "not a fault of the script" in words


def test_what_a_tensor_lacks_is_not_the_scripts_fault(blame: Any, meta: Any) -> None:
    lacking = AttributeError("no such part", name="part", obj=meta.state.STATE.tensor())
    assert blame.failure(raised(lacking, SCRIPT), meta, ROOT)[0] == "unsupported"
    assert blame.failure(raised(AttributeError("x", obj=1), SCRIPT), meta, ROOT)[0] == "script"


def test_after_something_was_made_up_nobody_can_tell(blame: Any, part: Any, meta: Any) -> None:
    found = raised(AssertionError("no progress"), SCRIPT)
    assert blame.failure(found, meta, ROOT)[0] == "script"
    doubt = "Data that only a real run has was asked for at train.py:3."
    meta.script.answers.doubts = lambda: [doubt]
    kind, words = blame.failure(found, meta, ROOT)
    assert kind == "unclear"
    assert "train.py:3" in words
    assert blame.doubted("The script ended itself: 1", meta)[0] == "unclear"
    part("notes").note("Data made up: a.npy is not here.")
    assert "a.npy" in blame.failure(found, None, ROOT)[1]
