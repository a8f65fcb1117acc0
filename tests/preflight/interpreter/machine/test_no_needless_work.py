"""What cannot change an answer is not followed: sides of conditions, long ways after it is lost."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.preflight import Analysis, analyse
from gpuconsole.preflight.interpreter.domain import syntax
from gpuconsole.preflight.interpreter.frontend import source
from gpuconsole.preflight.interpreter.machine.run_state.run import MAX_STEPS, STEPS_ON
from gpuconsole.preflight.tiers import static

TRAIN = """
import numpy as np
import h5py
import paddle
import paddle.nn as nn
import os
{first}
if os.environ.get("WIDE") == str(np.random.rand()):
    width = {wide}
else:
    width = 64
if os.environ.get("DEEP") == str(np.random.rand()):
    depth = 3
else:
    depth = 2
{then}
net = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(8):
    loss = net(paddle.zeros([8, width])).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
UNKNOWN = "size = h5py.File('a')['x'].shape[0]\nhead = nn.Linear(size, 8)"


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each time that a script is followed, its setting."""
    seen: list[object] = []
    follow = static.follow

    def counted(*args: object) -> object:
        seen.append(args[2])
        return follow(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(static, "follow", counted)
    return seen


def test_what_is_unknown_before_all_conditions_is_followed_once(
    scan: Callable[..., Analysis], followed: list[object]
) -> None:
    found = scan(TRAIN.format(first=UNKNOWN, then="", wide=128)).estimate()
    assert found.memory is None
    assert "h5py" in found.unknowns[0].reason
    assert len(followed) == 1


def test_what_is_unknown_outside_of_conditions_is_tried_on_one_side(
    scan: Callable[..., Analysis], followed: list[object]
) -> None:
    found = scan(TRAIN.format(first="", then=UNKNOWN, wide=128)).estimate()
    assert found.memory is None
    assert "h5py" in found.unknowns[0].reason
    assert len(followed) == 2


def test_a_side_that_is_unknown_leaves_the_other(
    scan: Callable[..., Analysis],
) -> None:
    wide = "h5py.File('a')['x'].shape[0]"
    found = scan(TRAIN.format(first="", then="", wide=wide)).estimate()
    assert found.memory is not None


def test_a_script_is_followed_a_little_further_than_its_memory_is_known(
    scan: Callable[..., Analysis],
) -> None:
    """Far enough to find its batch size and what else to ask, and not to the end of its budget."""
    long = "for one in range(10**5):\n    words = [str(k) for k in range(one % 50)]\n"
    turns = f"def turn():\n    {long.replace(chr(10), chr(10) + '    ')}\n" + "turn()\n" * 40
    found = scan(TRAIN.format(first=UNKNOWN, then=turns, wide=128))
    outcome = found.outcome()
    assert outcome.blocked
    assert "h5py" in outcome.unknowns[0].reason
    assert not any("budget" in one.reason for one in outcome.unknowns)
    assert outcome.steps < 2 * STEPS_ON < MAX_STEPS


def test_a_side_is_followed_no_further_than_its_memory_is_known(
    scan: Callable[..., Analysis], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of the script is said by the run that follows both sides."""
    seen: list[int] = []
    follow = static.follow

    def noted(*args: object) -> object:
        found = follow(*args)  # type: ignore[arg-type]
        seen.append(found.steps)
        return found

    monkeypatch.setattr(static, "follow", noted)
    long = "for one in range(400):\n    words = [str(k) for k in range(one % 50)]\n"
    found = scan(TRAIN.format(first="", then=f"{UNKNOWN}\n{long}", wide=128)).estimate()
    assert found.memory is None
    whole, side = seen
    assert side < whole // 4


def test_a_file_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many modules import it."""
    count = 20
    (tmp_path / "shared.py").write_text("width = 64\n")
    for one in range(count):
        (tmp_path / f"m{one}.py").write_text("import h5py\nfrom shared import width\n")
    script = tmp_path / "train.py"
    first = "\n".join(f"import m{one}" for one in range(count))
    script.write_text(TRAIN.format(first=first, then="", wide=64))
    asked: list[str] = []
    led: list[Path] = []
    isfile, within = os.path.isfile, source.within

    def noted(name: str) -> bool:
        asked.append(name)
        return isfile(name)

    def followed(root: Path, path: Path) -> Path | None:
        led.append(path)
        return within(root, path)

    monkeypatch.setattr(source.os.path, "isfile", noted)
    monkeypatch.setattr(source, "within", followed)
    analyse(script, project=tmp_path)
    assert asked.count(str(tmp_path / "shared.py")) == 1
    assert led.count(tmp_path) == 1
    assert len(led) == len(set(led))


def test_a_project_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many modules it has, and however often the script is followed."""
    count = 150
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "__init__.py").write_text(
        "".join(f"from .m{one} import build{one}\n" for one in range(count))
    )
    for one in range(count):
        text = f"import paddle.nn as nn\ndef build{one}(): return nn.Linear(8, {one + 1})\n"
        (tmp_path / "zoo" / f"m{one}.py").write_text(text)
    script = tmp_path / "train.py"
    script.write_text(TRAIN.format(first="from zoo import build3", then="build3()", wide=128))
    parsed: list[str] = []
    tree = source._tree

    def counted(text: bytes | str, name: str) -> ast.Module:
        parsed.append(name)
        return tree(text, name)

    monkeypatch.setattr(source, "_tree", counted)
    assert analyse(script, project=tmp_path).estimate().memory is not None
    mine = [name for name in parsed if name.startswith(str(tmp_path))]
    assert len(mine) == len(set(mine)) == count + 2


def test_a_walk_gives_every_node() -> None:
    tree = ast.parse(Path(source.__file__).read_text())
    assert {id(one) for one in syntax.nodes([tree])} == {id(one) for one in ast.walk(tree)}


@pytest.mark.parametrize(
    ("body", "generator"),
    [("yield 1", True), ("return [1 for _ in (yield 2)]", True), ("return 1", False),
     ("def g():\n        yield 1\n    return g", False), ("return lambda: (yield)", False)],
)  # fmt: skip
def test_only_what_a_function_yields_itself_makes_it_a_generator(
    body: str, generator: bool
) -> None:
    function = ast.parse(f"def f():\n    {body}\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert syntax.yields(function.body) is generator
