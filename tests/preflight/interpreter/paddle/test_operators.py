"""Operators: hand-worked bytes, shapes that cannot be, and what must be said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources

import pytest

from gpuconsole.preflight import Analysis
from gpuconsole.preflight.interpreter.machine.run_state.modes import Amp
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops.table import count, rules
from tests.real.preflight.operator_rig import Case, Moment, in_interpreter, script

KIB = 1024


def follow(expr: str, inputs: str, *, backend: str = "cpu") -> tuple[list[Moment], Run]:
    return in_interpreter(script(Case("", expr, inputs), 8), backend)


def fault_of(expr: str, inputs: str) -> tuple[str, tuple[tuple[int, ...], ...]]:
    _, run = follow(expr, inputs)
    assert run.findings.faults, f"{expr} was taken as it is"
    first = next(iter(run.findings.faults.values()))
    return first.message, first.shapes


# -- the table


def test_every_row_can_be_read_and_names_its_source() -> None:
    text = resources.files("gpuconsole").joinpath("data/paddle-3.3.1-ops.json").read_text("utf-8")
    table = json.loads(text)
    assert table["paddle"] == "3.3.1"
    assert "tools/operator_table.py" in table["source"]
    words = {"x", "y", "z", "out", "second"}
    for name, rule in rules().items():
        assert set(rule.save) <= words, name
        assert rule.grad in ("new", "inplace", "saved", "fill"), name
        assert rule.amp in ("", "half", "full", "always", "keep"), name
    for name in ("linear", "flash_attn"):
        assert table["ops"][name]["source"]


def test_amounts_go_by_shapes() -> None:
    run = Run(Setting("cpu"))
    x, out = run.tensor((2, 3, 5)), run.tensor((2, 3))
    amounts = {"x": 30, "out": 6, "row": 6, "channel": 3, "instance": 6, "call": 1, "group": 4}
    for what, number in amounts.items():
        assert count(((8, what),), (x,), out, 4) == 8 * number


def test_cpu_temporaries_are_not_a_cards() -> None:
    inputs = "x=f(N,8,64)"
    on_cpu, _ = follow("F.layer_norm(x, [64])", inputs)
    on_card, _ = follow("F.layer_norm(x, [64])", inputs, backend="gpu")
    # Two more tensors of the output's size, and one figure a row.
    assert on_cpu[2].peak - on_card[2].peak == 2 * 16 * KIB + 64 * 4
    assert on_cpu[1] == on_card[1]


# -- bytes by hand, [8, 8, 64] floats being 16 KiB


@pytest.mark.parametrize(
    ("expr", "inputs", "held"),
    [
        ("F.relu(x)", "x=f(N,8,64)", 16 * KIB),
        ("F.dropout(x, 0.5)", "x=f(N,8,64)", 16 * KIB + 4 * KIB),
        ("x.transpose([0, 2, 1])", "x=f(N,8,64)", 0),
        ("x.transpose([0, 2, 1]).reshape([8, -1])", "x=f(N,8,64)", 16 * KIB),
        ("x[:, 2:4]", "x=f(N,8,64)", 0),
        ("x[i]", "x=f(N,8,64) i=i(4,<8)", 8 * KIB),
        ("paddle.topk(x, 2)[0]", "x=f(N,8,64)", 64 * 2 * 12),
        ("paddle.sort(x)", "x=f(N,8,64)", 16 * KIB + 32 * KIB),
        ("F.softmax_with_cross_entropy(x, i)", "x=f(N,64) i=i(N,1,<64)", 8 * 64 * 4 + 8 * 4),
        ("x.astype('float32')", "x=f(N,8,64)", 0),
        ("paddle.cast(x, 'float32')", "x=f(N,8,64)", 16 * KIB),
        ("paddle.einsum('bij,bjk->bik', x, z)", "x=f(N,8,64) z=f(N,64,8)", 2 * KIB),
        # These keep the copy of a view, 8 KiB for a half; a product by matmul keeps the view.
        ("paddle.bmm(z, x[:, :, :32])", "x=f(N,8,64) z=f(N,8,8)", 8 * KIB + 8 * KIB),
        ("paddle.matmul(z, x[:, :, :32])", "x=f(N,8,64) z=f(N,8,8)", 8 * KIB),
        ("F.gelu(x[:, :, :32])", "x=f(N,8,64)", 8 * KIB + 8 * KIB),
        ("paddle.logsumexp(x[:, :, :32], -1)", "x=f(N,8,64)", 256 + 8 * KIB),
    ],
)  # fmt: skip
def test_bytes_held_after_forward(expr: str, inputs: str, held: int) -> None:
    moments, run = follow(expr, inputs)
    assert not run.findings.unknowns
    assert moments[1].live - moments[0].live == held


def test_a_spectral_norm_works_on_copies_of_the_weight_and_on_its_vectors() -> None:
    (_, forward, backward, *_), run = follow("nn.SpectralNorm([16, 64], 0, 2)(x)", "x=f(16,64)")
    assert not run.findings.unknowns
    weight, vectors = 4 * KIB, (16 + 64) * 4
    # The layer's own vectors live on the way forward; backward hold x, y and their gradients.
    assert forward.peak == 2 * weight + vectors + (2 * weight + vectors)
    assert backward.peak == 4 * weight + (5 * weight + vectors)


def test_flash_attention_takes_no_square_on_a_card() -> None:
    text = script(
        Case("", "F.scaled_dot_product_attention(q, k, v)",
             "q=f(N,512,2,16) k=f(N,512,2,16) v=f(N,512,2,16)"), 8,
    )  # fmt: skip
    half = text.replace("mark()\nq =", "paddle.set_default_dtype('float16')\nmark()\nq =", 1)
    half = half.replace("paddle.rand([N, 512, 2, 16])", "paddle.rand([N, 512, 2, 16]).half()")
    square = 8 * 2 * 512 * 512 * 2
    moments, run = in_interpreter(half, "gpu")
    assert not run.findings.unknowns
    assert moments[1].peak - moments[0].live < square
    on_cpu, _ = in_interpreter(text, "cpu")
    assert on_cpu[1].peak - on_cpu[0].live > square


def test_mixed_precision_goes_by_paddles_lists() -> None:
    run = Run(Setting("gpu"))
    run.mode.amp = Amp("O1")
    x, w = run.tensor((4, 8)), run.tensor((8, 4))
    product = ops.matmul(run, x, w)
    assert product.dtype == "float16"
    assert ops.unary(run, "softmax", product).dtype == "float32"
    assert ops.unary(run, "relu", product).dtype == "float16"
    image = run.tensor((1, 2, 3, 3), "float16")
    for level in ("O1", "O2"):
        run.mode.amp = Amp(level)
        assert ops.apply(run, "bilinear_interp", (image,), (1, 2, 6, 6)).dtype == "float32"


def test_operators_count_the_bytes_that_they_move() -> None:
    run = Run(Setting("gpu"))
    x = run.tensor((4, 8))
    ops.unary(run, "relu", x)
    assert run.tape.bytes == 2 * 4 * 8 * 4


# -- shapes that cannot be


@pytest.mark.parametrize(
    ("expr", "inputs", "words"),
    [
        ("x + z", "x=f(N,8) z=f(N,7)", "broadcast"),
        ("x @ z", "x=f(N,8) z=f(7,4)", "matmul"),
        ("paddle.bmm(x, z)", "x=f(N,8) z=f(8,4)", "three dimensions"),
        ("paddle.concat([x, z], axis=1)", "x=f(N,8) z=f(7,4)", "concat"),
        ("paddle.stack([x, z])", "x=f(N,8) z=f(N,7)", "stack"),
        ("x.reshape([3, -1])", "x=f(N,8)", "reshape"),
        ("x.transpose([0, 0, 1])", "x=f(N,8,4)", "transpose"),
        ("x.expand([9, 8])", "x=f(N,8)", "expand"),
        ("paddle.split(x, 3, axis=1)", "x=f(N,8)", "split"),
        ("x.sum(axis=2)", "x=f(N,8)", "axis"),
        ("x[:, 8]", "x=f(N,8)", "index 8"),
        ("x[0, 0, 0]", "x=f(N,8)", "too many"),
        ("F.conv2d(x, w)", "x=f(N,3,8,8) w=l(4,2,3,3)", "input channels"),
        ("F.conv2d(x, w)", "x=f(N,3,2,2) w=l(4,3,3,3)", "does not fit"),
        ("F.conv2d(x, w)", "x=f(N,3,8) w=l(4,3,3,3)", "dimensions"),
        ("F.max_pool2d(x, 12, 1)", "x=f(N,3,8,8)", "window"),
        ("F.layer_norm(x, [7])", "x=f(N,8)", "layer_norm"),
        ("F.group_norm(x, 3)", "x=f(N,8,4,4)", "groups"),
        ("F.pixel_shuffle(x, 3)", "x=f(N,8,4,4)", "pixel_shuffle"),
        ("F.grid_sample(x, g)", "x=f(N,3,8,8) g=f(N,4,4,3)", "grid"),
        ("F.embedding(x, w)", "x=f(N,8) w=l(30,4)", "whole numbers"),
        ("F.one_hot(x, 4)", "x=f(N,8)", "whole numbers"),
        ("paddle.gather(x, z)", "x=f(N,8) z=c(4)", "whole numbers"),
        ("F.cross_entropy(x, i)", "x=f(N,8) i=i(N,2,<8)", "labels"),
        ("F.cross_entropy(x, z)", "x=f(N,8) z=c(N)", "class numbers"),
        ("F.cross_entropy(x, z, soft_label=True)", "x=f(N,8) z=c(N,7)", "soft labels"),
        ("F.nll_loss(x, i)", "x=f(N,8) i=i(N,1,1,<8)", "nll_loss"),
        ("F.binary_cross_entropy(x, z)", "x=f(N,8) z=c(N)", "loss"),
        ("F.linear(x, w)", "x=f(N,8) w=l(7,4)", "input features"),
        ("paddle.einsum('ij,jk->ik', x, z)", "x=f(N,8) z=f(7,4)", "einsum"),
        ("paddle.where(m, x, z)", "x=f(N,8) z=f(N,7) m=b(N,8)", "where"),
        ("F.scaled_dot_product_attention(x, z, z)", "x=f(N,4,2,8) z=f(N,4,2,6)", "attention"),
        ("paddle.topk(x, 9)", "x=f(N,8)", "topk"),
    ],
)  # fmt: skip
def test_a_shape_that_cannot_be_is_a_fault(expr: str, inputs: str, words: str) -> None:
    message, shapes = fault_of(expr, inputs)
    assert words in message
    assert shapes


def test_putting_the_wrong_shape_into_a_slice_is_a_fault() -> None:
    case = Case("", "put(x * 1.0, z)", "x=f(N,8) z=f(N,3)", "y",
                "def put(t, v):\n    t[:, :2] = v\n    return t")  # fmt: skip
    _, run = in_interpreter(script(case, 8))
    assert next(iter(run.findings.faults.values())).shapes == ((8, 3), (8, 2))


# -- what is not modelled


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("paddle.linalg.svd(x, full_matrices=True)", "full matrices"),
        ("F.hsigmoid_loss(x, x)", "hsigmoid_loss"),
        ("x[x > 0.5]", "mask"),
        ("paddle.nonzero(x)", "depends on data"),
        ("x.frobnicate()", "frobnicate"),
    ],
)
def test_what_is_not_modelled_is_named(expr: str, words: str) -> None:
    _, run = follow(expr, "x=f(N,8)")
    assert any(words in one.reason for one in run.findings.unknowns.values())


def test_a_step_tells_the_bytes_that_it_moves(
    scan: Callable[..., Analysis], training: Callable[..., str]
) -> None:
    net = "import paddle.nn as nn\nNet = lambda: nn.Linear(64, 10)"
    text = training(net)
    small, large = scan(text).estimate(8), scan(text).estimate(80)
    assert 0 < small.bytes_per_step < large.bytes_per_step


# -- how many elements a mask picks


def test_what_a_mask_picks_is_at_most_all_of_it() -> None:
    inputs = "x=f(N,64); m=b(N,64)"
    _, run = follow("paddle.masked_select(x, m).mean()", inputs)
    assert not run.findings.faults
    assert run.findings.blocking is None
    assert "variable-shape" in run.findings.flags
    _, half = follow("paddle.reshape(paddle.masked_select(x, m), [N, 32])", inputs)
    assert not half.findings.faults
    assert half.findings.blocking is None
    _, other = follow("paddle.reshape(paddle.masked_select(x, m), [N, 65])", inputs)
    assert not other.findings.faults, "a mask may not pick more, but the script is not accused"


def test_a_label_that_the_model_of_a_function_lacks_is_left_out() -> None:
    _, run = follow("paddle.flatten(x, 1, -1, name='flat')", "x=f(N,8,8)")
    assert run.findings.blocking is None
    assert not run.findings.unknowns
