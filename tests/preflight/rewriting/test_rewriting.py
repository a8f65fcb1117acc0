"""Changes put into scripts: made where the shape is certain, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpuconsole import preflight
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.script_edits import (
    Edit,
    EditKind,
    apply_edits,
    diff_of,
    edited_texts,
    of_batch,
    whole_diff_of,
    with_edits,
)
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight.rewriting import rewrite
from gpuconsole.preflight.suggestion_edits import Change, applied
from tests.preflight.rewriting.loops import BLOCKS, ENCODER, FIT, LOOPS, MINIMIZE, TUTORIAL

KINDS: tuple[EditKind, ...] = ("accumulate", "amp", "recompute")
PLAIN = """\
import paddle

net = paddle.nn.Linear(64, 4)
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
for epoch in range(2):
    for x, y in loader:
        loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text)
    return path


def changed(path: Path, kind: EditKind, steps: int = 4) -> str:
    """Return the text of a script with a change put in."""
    made = rewrite(kind, [path], steps)
    assert made.edits, (made.why, made.why_line)
    return apply_edits(path.read_text(), made.edits, str(path))


def test_gradients_are_accumulated(tmp_path: Path) -> None:
    assert changed(script(tmp_path, PLAIN), "accumulate") == PLAIN.replace(
        "for x, y in loader:", "for micro_step, (x, y) in enumerate(loader):"
    ).replace("loss.backward()", "(loss / 4).backward()").replace(
        "        optimizer.step()\n        optimizer.clear_grad()\n",
        "        if (micro_step + 1) % 4 == 0:\n"
        "            optimizer.step()\n            optimizer.clear_grad()\n",
    )


def test_gradients_that_are_cleared_first_are_so_before_the_first_batch(tmp_path: Path) -> None:
    text = PLAIN.replace("        optimizer.clear_grad()\n", "").replace(
        "        loss = ", "        optimizer.clear_grad()\n        loss = "
    )
    assert changed(script(tmp_path, text), "accumulate").splitlines()[5:] == [
        "    for micro_step, (x, y) in enumerate(loader):",
        "        if micro_step % 4 == 0:",
        "            optimizer.clear_grad()",
        "        loss = paddle.nn.functional.cross_entropy(net(x), y)",
        "        (loss / 4).backward()",
        "        if (micro_step + 1) % 4 == 0:",
        "            optimizer.step()",
    ]


def test_the_counter_of_a_loop_is_used_from_where_it_begins(tmp_path: Path) -> None:
    head = "for step, (x, y) in enumerate(loader{}):"
    for start, condition in (
        ("", "(step + 1) % 4"),
        (", 1", "step % 4"),
        (", start=0", "(step + "),
    ):
        text = PLAIN.replace("for x, y in loader:", head.format(start))
        assert f"if {condition}" in changed(script(tmp_path, text), "accumulate")


def test_precision_is_mixed_around_forward_pass_and_loss(tmp_path: Path) -> None:
    assert changed(script(tmp_path, PLAIN), "amp").splitlines()[4:] == [
        "scaler = paddle.amp.GradScaler()",
        "for epoch in range(2):",
        "    for x, y in loader:",
        "        with paddle.amp.auto_cast():",
        "            loss = paddle.nn.functional.cross_entropy(net(x), y)",
        "        scaled = scaler.scale(loss)",
        "        scaled.backward()",
        "        scaler.step(optimizer)",
        "        scaler.update()",
        "        optimizer.clear_grad()",
    ]


def test_minimize_is_that_of_the_scaler(tmp_path: Path) -> None:
    text = changed(script(tmp_path, MINIMIZE), "amp")
    assert "        scaler.minimize(opt, scaled)\n        net.clear_gradients()\n" in text


def test_blocks_are_recomputed_with_all_that_they_are_given(tmp_path: Path) -> None:
    for text, call in ((BLOCKS, "block, x"), (ENCODER, "layer, hidden, mask")):
        wanted = f" = paddle.distributed.fleet.utils.recompute({call})\n"
        assert wanted in changed(script(tmp_path, text), "recompute")


def test_a_model_is_told_by_its_own_arguments(tmp_path: Path) -> None:
    path = script(tmp_path, FIT)
    assert ", verbose=0, accumulate_grad_batches=4)" in changed(path, "accumulate")
    assert 'paddle.nn.CrossEntropyLoss(), amp_configs="O1",' in changed(path, "amp")


def test_the_name_of_paddle_is_that_of_the_module(tmp_path: Path) -> None:
    text = PLAIN.replace("import paddle", "import paddle as pd").replace("= paddle", "= pd")
    assert "with pd.amp.auto_cast():" in changed(script(tmp_path, text), "amp")


@pytest.mark.parametrize("name", LOOPS)
def test_changes_can_be_made_one_after_the_other(tmp_path: Path, name: str) -> None:
    """In either order the copy is Python, has each change once, and the file stays as it was."""
    path = script(tmp_path, LOOPS[name])
    for order in (KINDS, KINDS[::-1]):
        task = Task("x", str(path))
        made = []
        for kind in order:
            analysis = preflight.analyse(path, texts=edited_texts(task.edits))
            batch = task.batch_size or analysis.outcome(None).batch
            try:
                task = applied(task, preflight.change_of(analysis, kind, 4, batch))
                made.append(kind)
            except RefusedError:
                assert kind == "recompute"
                assert name not in ("blocks", "encoder")
        (text,) = edited_texts(task.edits).values()
        ast.parse(text)
        assert text.count("GradScaler") + text.count("amp_configs") == 1
        assert text.count(" % 4 == 0:") + text.count("accumulate_grad_batches=4") == 1
        assert text.count("utils.recompute(") == ("recompute" in made)
    assert path.read_text() == LOOPS[name]


DOUBTS = {
    "two-losses": (
        KINDS[:2], "loss.backward()\n", "loss.backward()\n        loss.backward()\n",
        "more than one backward pass",
    ),
    "while": (KINDS[:2], "for epoch in range(2):", "while True:", "is inside a while loop"),
    "two-optimizers": (
        KINDS[:2], "optimizer.step()", "optimizer.step()\n        other.step()",
        "which object is the optimizer is not plain",
    ),
    "clip-by-hand": (
        ("amp",), "optimizer.step()",
        "paddle.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n        optimizer.step()",
        "clipped by hand",
    ),
    "something-between": (
        KINDS[:2], "optimizer.step()", "penalize(net)\n        optimizer.step()",
        "comes between backward and step",
    ),
    "never-cleared": (
        KINDS[:2], "        optimizer.clear_grad()\n", "", "where gradients are cleared",
    ),
    "breaks": (
        ("accumulate",), "optimizer.step()",
        "optimizer.step()\n        if stop:\n            break", "leaves some out",
    ),
    "sum": (
        ("accumulate",), "(net(x), y)", "(net(x), y, reduction='sum')", "may be a sum",
    ),
    "fixed-number-of-batches": (
        ("accumulate",), "for x, y in loader:", "for x, y in list(loader):",
        "no loader by name",
    ),
    "list-of-batches": (
        ("accumulate",), "for epoch", "loader = [make() for _ in range(9)]\nfor epoch",
        "does not follow their size",
    ),
    "condition": (
        ("amp",), "        loss = paddle", "        if flip:\n            x = f(x)\n"
        "        loss = paddle", "depends on conditions",
    ),
    "one-line": (
        KINDS[:2], "optimizer.step()\n        optimizer", "optimizer.step(); optimizer",
        "two statements stand on one line",
    ),
    "name-taken": (("amp",), "net = ", "scaler = 3\nnet = ", "the name scaler is taken"),
    "used-already": (("amp",), "for epoch", "paddle.amp.auto_cast\nfor epoch", "already"),
    "no-loop": (KINDS[:2], "loss.backward()", "train(loss)", "no training loop"),
    "from-import": (("amp",), "import paddle\n", "import paddle\npaddle = f()\n", "by name"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTS)
def test_any_doubt_leaves_the_script_as_it_is(tmp_path: Path, name: str) -> None:
    kinds, old, new, why = DOUBTS[name]
    assert old in PLAIN
    path = script(tmp_path, PLAIN.replace(old, new))
    ast.parse(path.read_text())
    for kind in kinds:
        found = rewrite(kind, [path], 4)
        assert found.edits == ()
        assert why in found.why


BLOCK_DOUBTS = {
    "input-without-gradient": ("x = self.stem(x)", "x = x * 2", "may need no gradient"),
    "frozen": ("model = Net()", "model = Net()\n    model.stop_gradient = True", "switched off"),
    "cut": ("x = self.stem(x)", "x = self.stem(x)\n        x.detach()", "switched off"),
    "parallel": ("model = Net()", "model = paddle.DataParallel(Net())", "among processes"),
    "keyword": ("block(x)", "block(x=x)", "no plain loop over blocks"),
    "two-values": ("x = block(x)", "x, y = block(x)", "no plain loop over blocks"),
    "no-container": ("nn.LayerList([", "list([", "no plain loop over blocks"),
    "dropout-first": ("self.stem = nn.Conv2D(3, width, 3, padding=1)", "self.stem = nn.Dropout()",
                      "may need no gradient"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCK_DOUBTS)
def test_blocks_are_left_where_they_might_not_train(tmp_path: Path, name: str) -> None:
    old, new, why = BLOCK_DOUBTS[name]
    assert old in BLOCKS
    found = rewrite("recompute", [script(tmp_path, BLOCKS.replace(old, new))])
    assert found.edits == ()
    assert why in found.why


def test_a_scaler_is_not_made_anew_for_each_epoch(tmp_path: Path) -> None:
    """A function that trains for one epoch is changed only where it is called once."""
    lines = PLAIN.splitlines(keepends=True)
    function = "def train(loader):\n" + "".join(lines[5:])
    head = "".join(lines[:4])
    once, often = (
        head + function + "train(loader)\n",
        (head + function + "for epoch in range(2):\n    train(loader)\n"),
    )
    assert "    scaler = paddle.amp.GradScaler()\n    for x" in changed(
        script(tmp_path, once), "amp"
    )
    assert "scaler must outlive" in rewrite("amp", [script(tmp_path, often)]).why


def test_the_loop_may_stand_in_a_module_of_the_project(tmp_path: Path) -> None:
    path = script(tmp_path, "from loops import run\nrun()\n")
    loop = "".join(f"    {line}" for line in PLAIN.splitlines(keepends=True)[4:])
    (tmp_path / "loops.py").write_text(f"import paddle\ndef run():\n{loop}")
    made = rewrite("accumulate", [path, tmp_path / "loops.py"], 2)
    assert {edit.file for edit in made.edits} == {str(tmp_path / "loops.py")}


def test_an_edit_is_for_the_file_as_it_was(tmp_path: Path) -> None:
    path = script(tmp_path, PLAIN)
    edits = rewrite("accumulate", [path], 4).edits
    assert list(edited_texts(edits)) == [path]
    path.write_text(f"{PLAIN}# a remark\n")
    with pytest.raises(UsageError, match=r"no longer the file") as refused:
        edited_texts(edits)
    assert refused.value.hint == "Run preflight again."
    with pytest.raises(UsageError):
        preflight.report(Task("x", str(path), edits=edits), ())


def test_a_diff_has_signs_and_line_numbers(tmp_path: Path) -> None:
    path = script(tmp_path, PLAIN)
    edits = rewrite("accumulate", [path], 4).edits
    assert diff_of(edits) == (
        f"--- {path}",
        f"+++ {path} (shipped copy)",
        "@@ -6 +6 @@",
        "-    for x, y in loader:",
        "+    for micro_step, (x, y) in enumerate(loader):",
        "@@ -8,3 +8,4 @@",
        "-        loss.backward()",
        "-        optimizer.step()",
        "-        optimizer.clear_grad()",
        "+        (loss / 4).backward()",
        "+        if (micro_step + 1) % 4 == 0:",
        "+            optimizer.step()",
        "+            optimizer.clear_grad()",
    )
    assert [line[:1] for line in whole_diff_of(edits)[2:]] == list("@   -+ ---++++")


def test_a_batch_size_put_in_again_takes_the_place_of_the_former() -> None:
    first = Edit("t.py", 3, "batch = 64", "batch = 32")
    loop = Edit("t.py", 9, "a", "b\nc", "accumulate")
    again = Edit("t.py", 3, "batch = 32", "batch = 16")
    assert with_edits((first,), (again,)) == (Edit("t.py", 3, "batch = 64", "batch = 16"),)
    assert with_edits((first, loop), (again,)) == (first, loop, again)
    amp = Edit("t.py", 1, "x", "y", "amp")
    assert of_batch((amp, first, loop)) == (first, loop)
    assert of_batch((amp,)) == ()


def test_a_batch_that_has_no_equal_parts_is_refused(tmp_path: Path) -> None:
    analysis = preflight.analyse(script(tmp_path, TUTORIAL))
    with pytest.raises(UsageError, match="64 has no 3 equal parts"):
        preflight.change_of(analysis, "accumulate", 3, 64)
    change = preflight.change_of(analysis, "accumulate", 4, 64)
    assert change.batch == 16
    assert change.args is None
    assert isinstance(change, Change)
    assert [edit.kind for edit in change.edits] == ["batch-size", "accumulate", "accumulate"]


def test_the_edited_copy_is_estimated(tmp_path: Path) -> None:
    """By its own text: the loop steps at every fourth batch, blocks are recomputed."""
    path = script(tmp_path, BLOCKS)
    plain = preflight.analyse(path)
    before = plain.estimate().memory
    task = applied(Task("x", str(path)), preflight.change_of(plain, "recompute", 1, 64))
    after = preflight.report(task, ()).estimate.memory
    assert before is not None
    assert after is not None
    assert after.activations_mib < 0.6 * before.activations_mib


def test_a_deep_expression_is_doubted_too(tmp_path: Path) -> None:
    deep = f"    (loss{' + 1' * 5000}).backward()\n"
    path = script(tmp_path, PLAIN.replace("        loss.backward()\n", f"    {deep}"))
    for kind in KINDS:
        found = rewrite(kind, [path])
        assert found.edits == ()
        assert found.why


def test_blocks_that_are_in_no_plain_loop_leave_all_as_they_are(tmp_path: Path) -> None:
    """The saving that is shown is that of all of them."""
    more = BLOCKS.replace(
        "        self.head = ",
        "        self.tail = nn.LayerList([Block(width) for _ in range(2)])\n        self.head = ",
    ).replace("        return self.head(", "        x = self.tail[1](self.tail[0](x))\n"
              "        return self.head(")  # fmt: skip
    path = script(tmp_path, more)
    task = Task("x", str(path), batch_size=32)
    cards = (preflight.Card("card", "", "gpu", 10.0, exact=True),)
    (one,) = (one for one in preflight.report(task, cards).suggestions if one.value == "blocks")
    assert one.edits == ()
    assert "not all repeated blocks are in plain loops" in one.by_hand
    whole = preflight.report(Task("x", str(script(tmp_path, BLOCKS)), batch_size=32), cards)
    assert any(one.value == "blocks" and one.edits for one in whole.suggestions)
