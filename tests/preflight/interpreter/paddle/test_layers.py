"""Layers as scripts use them: names, containers, hooks, copies, freezing, conversion."""

from __future__ import annotations

import ast
import gc
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gpuconsole.preflight.interpreter.domain.values import Scope, Unknown
from gpuconsole.preflight.interpreter.libraries.registry import library
from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from tests.real.preflight.operator_rig import Case, in_interpreter, script

HEAD = """
import copy
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
"""


def follow(text: str) -> tuple[dict[str, Any], Run]:
    """Run a script's text and return its names."""
    run = Run(Setting("cpu"))
    machine = Interpreter(run, Path("case.py"), Path(), library(run))
    scope = Scope(None, "module")
    gc.disable()
    try:
        tree = ast.parse(HEAD + dedent(text))
        machine.imports.run_module(tree, "case.py", scope, {"__name__": "__main__"})
    finally:
        gc.enable()
    return scope.names, run


def known(text: str) -> dict[str, Any]:
    """Run a text in which nothing may be unknown or wrong."""
    names, run = follow(text)
    assert [one.reason for one in run.findings.unknowns.values()] == []
    assert [one.message for one in run.findings.faults.values()] == []
    return names


def test_containers() -> None:
    names = known("""
    body = nn.Sequential(("fc", nn.Linear(8, 8)), ("act", nn.ReLU()), ("out", nn.Linear(8, 2)))
    named, last, head, length = body["fc"], body[-1], body[:2], len(body)
    body[2] = nn.Linear(8, 5)
    wide = body(paddle.rand([3, 8])).shape
    several = nn.LayerList([nn.Linear(4, 4)])
    several.append(nn.Linear(4, 3))
    several.extend([nn.Linear(4, 2)])
    several.insert(0, nn.Linear(4, 9))
    shapes = [one.weight.shape for one in several]
    table = nn.LayerDict({"a": nn.Linear(2, 2)})
    table["b"] = nn.ReLU()
    keys, there = list(table.keys()), "b" in table
    held = nn.ParameterList([paddle.create_parameter([2, 3], "float32") for _ in range(2)])
    count = len(held.parameters())
    """)
    assert names["named"] is not names["last"]
    assert (names["length"], len(names["head"].children())) == (3, 2)
    assert names["wide"] == [3, 5]
    assert [one[1] for one in names["shapes"]] == [9, 4, 3, 2]
    assert (names["keys"], names["there"], names["count"]) == (["a", "b"], True, 2)


def test_what_a_layer_tells() -> None:
    names = known("""
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)
            self.norm = nn.BatchNorm1D(3)
            self.scale = self.create_parameter([3])
            self.none = self.create_parameter([3], attr=False)
            self.register_buffer("steps", paddle.zeros([1]))
            self.add_sublayer(name="extra", sublayer=nn.Identity())
        def forward(self, x):
            return self.extra(self.norm(self.fc(x))) * self.scale + self.steps

    net = Net()
    own = [name for name, _ in net.named_parameters()]
    layers = [name for name, _ in net.named_sublayers()]
    state = sorted(net.state_dict())
    shape = net(paddle.rand([2, 4])).shape
    nothing = net.none is None
    modes = [net.training, net.eval().norm.training, net.train().norm.training]
    """)
    assert names["own"] == [
        "scale", "fc.weight", "fc.bias", "norm.weight", "norm.bias", "norm._mean", "norm._variance",
    ]  # fmt: skip
    assert names["layers"] == ["fc", "norm", "extra"]
    assert "steps" in names["state"]
    assert (names["shape"], names["nothing"]) == ([2, 3], True)
    assert names["modes"] == [True, False, True]


def test_pooling_layers_tell_their_arguments_as_in_paddle() -> None:
    names = known("""
    wide, line = nn.MaxPool2D(3, padding=1), nn.AvgPool1D(2, 4)
    told = [wide.ksize, wide.stride, wide.padding, line.kernel_size, line.stride, line.padding]
    """)
    assert names["told"] == [3, None, 1, 2, 4, 0]


def test_parameters_are_made_by_the_function_of_static_graphs_too() -> None:
    names = known("""
    from paddle.static import create_parameter
    scale = create_parameter(shape=[3, 4], dtype="float32",
                             default_initializer=nn.initializer.Normal(mean=0.0, std=0.1))
    shape, trained = scale.shape, not scale.stop_gradient
    """)
    assert (names["shape"], names["trained"]) == ([3, 4], True)


def test_hooks_are_called_until_they_are_removed() -> None:
    names = known("""
    seen = []
    fc = nn.Linear(4, 3)
    before = fc.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2,))
    after = fc.register_forward_post_hook(lambda layer, inputs, out: seen.append(out.shape))
    fc(paddle.rand([2, 4]))
    after.remove()
    fc(paddle.rand([5, 4]))
    """)
    assert names["seen"] == [[2, 3]]


def test_copies_have_weights_of_their_own_and_keep_what_is_shared() -> None:
    names = known("""
    class Tied(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = self.a
            self.w = self.a.weight
    net = Tied()
    twin = copy.deepcopy(net)
    """)
    net, twin = names["net"], names["twin"]
    assert len(net.parameters()) == len(twin.parameters()) == 2
    assert twin.attrs["a"] is twin.attrs["b"]
    assert twin.attrs["w"] is twin.attrs["a"].attrs["weight"]
    assert twin.attrs["w"].storage is not net.attrs["w"].storage


def test_isinstance_tells_layers_apart() -> None:
    names = known("""
    net = nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.Conv1D(3, 4, 3), nn.LSTM(4, 4))
    kinds = [[isinstance(one, kind) for kind in (nn.Conv2D, nn.BatchNorm2D, nn.Layer)]
             for one in net]
    mixed = isinstance(nn.TransformerEncoderLayer(8, 2, 16), nn.TransformerEncoderLayer)
    """)
    assert names["kinds"] == [
        [True, False, True], [False, True, True], [False, False, True], [False, False, True],
    ]  # fmt: skip
    assert names["mixed"] is True


def test_apply_reaches_every_layer_and_may_freeze() -> None:
    names = known("""
    def quieten(layer):
        if isinstance(layer, nn.Linear):
            nn.initializer.XavierUniform()(layer.weight)
            layer.weight.stop_gradient = True
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2)))
    net.apply(quieten)
    frozen = [one.stop_gradient for one in net.parameters()]
    """)
    assert names["frozen"] == [True, False, True, False]


def test_half_precision_halves_the_parameters() -> None:
    names = known("""
    net = nn.Linear(64, 32)
    net.to(dtype="float16")
    other = nn.Linear(64, 32).bfloat16()
    """)
    assert names["net"].attrs["weight"].nbytes == 64 * 32 * 2
    assert names["other"].attrs["weight"].dtype == "bfloat16"


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("nn.MultiHeadAttention(16, 4)(paddle.rand([2, 7, 16]))", [2, 7, 16]),
        ("nn.Transformer(16, 4, 1, 1, 32)(paddle.rand([2, 7, 16]), paddle.rand([2, 5, 16]))",
         [2, 5, 16]),
        ("nn.LSTM(8, 12, 2, 'bidirect')(paddle.rand([2, 7, 8]))[0]", [2, 7, 24]),
        ("nn.GRU(8, 12, time_major=True)(paddle.rand([7, 2, 8]))[1]", [1, 2, 12]),
        ("nn.RNN(nn.LSTMCell(8, 12))(paddle.rand([2, 7, 8]))[0]", [2, 7, 12]),
        ("nn.BiRNN(nn.GRUCell(8, 6), nn.GRUCell(8, 6))(paddle.rand([2, 7, 8]))[0]", [2, 7, 12]),
        ("nn.Bilinear(4, 5, 6)(paddle.rand([3, 4]), paddle.rand([3, 5]))", [3, 6]),
        ("nn.Unfold([3, 3], paddings=1)(paddle.rand([2, 4, 8, 8]))", [2, 36, 64]),
        ("nn.utils.weight_norm(nn.Conv2D(3, 4, 3))(paddle.rand([2, 3, 8, 8]))", [2, 4, 6, 6]),
        ("nn.utils.spectral_norm(nn.Linear(4, 5))(paddle.rand([2, 4]))", [2, 5]),
        ("nn.utils.parameters_to_vector(nn.Linear(4, 5).parameters())", [25]),
        ("nn.Conv3DTranspose(2, 3, 2, 2)(paddle.rand([1, 2, 4, 4, 4]))", [1, 3, 8, 8, 8]),
    ],
)  # fmt: skip
def test_shapes(call: str, shape: list[int]) -> None:
    assert known(f"shape = {call}.shape")["shape"] == shape


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("paddle.diagonal(x)", [5]),
        ("paddle.diagonal(x, 2)", [5]),
        ("paddle.diagonal(x, 5)", [3]),
        ("paddle.diagonal(x, -2)", [3]),
        ("paddle.diagonal(x, -7)", [0]),
        ("paddle.diagonal(x.t(), -2)", [5]),
        ("paddle.diagonal(x.t(), -4)", [4]),
        ("paddle.diagonal(paddle.rand([2, 4, 5]), -1, 1, 2)", [2, 3]),
        ("paddle.diagonal(paddle.rand([2, 4, 5]), -1, 2, 1)", [2, 4]),
        ("paddle.diag(x, -2)", [3]),
        ("paddle.diag(x, 5)", [3]),
    ],
)
def test_a_diagonal_beside_the_main_one_is_as_long_as_it_fits(call: str, shape: list[int]) -> None:
    assert known(f"x = paddle.rand([5, 8])\nshape = {call}.shape")["shape"] == shape


def test_own_cells_and_caches() -> None:
    names = known("""
    class Cell(nn.RNNCellBase):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8 + 6, 6)
        @property
        def state_shape(self):
            return (6,)
        def forward(self, x, h):
            h = paddle.tanh(self.fc(paddle.concat([x, h], -1)))
            return h, h
    steps = nn.RNN(Cell())(paddle.rand([2, 5, 8]))[0].shape
    attention = nn.MultiHeadAttention(16, 4)
    x = paddle.rand([2, 1, 16])
    cache = attention.gen_cache(x)
    for _ in range(3):
        out, cache = attention(x, x, x, None, cache)
    grown = cache.k.shape
    """)
    assert names["steps"] == [2, 5, 6]
    assert names["grown"] == [2, 4, 3, 4]


def test_recurrent_nets_without_biases_do_not_run_on_the_cpu() -> None:
    call = "nn.GRU(24, 32, bias_ih_attr=False)(x)[0]"
    _, run = in_interpreter(script(Case("", call, "x=f(N,7,24)"), 8))
    assert {one.message for one in run.findings.faults.values()} == {
        "GRU with bias_ih_attr=False: its kernel on the CPU fails for weights that are not there "
        "(Paddle 3.3.1)"
    }
    _, run = in_interpreter(script(Case("", call, "x=f(N,7,24)"), 8), "gpu")
    assert not run.findings.faults
    names = known("""
    cell = nn.GRUCell(8, 4, bias_ih_attr=False)
    trained = [not one.stop_gradient for one in cell.parameters()]
    """)
    assert names["trained"] == [True, True, False, True]


def test_a_layer_answers_to_its_other_names() -> None:
    names = known("""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    y = net[0].forward(paddle.rand([2, 4]))
    weight = net.get_parameter("0.weight") is net[0].weight
    below = net.get_sublayer("1")
    net.requires_grad_(False)
    frozen = [one.stop_gradient for one in net.parameters()]
    net.requires_grad_()
    y.mean().backward()
    net.zero_grad()
    """)
    assert names["weight"] is True
    assert names["frozen"] == [True, True]
    assert names["net"].attrs["0"].attrs["weight"].grad is None


def test_faults_inside_library_layers_are_told_at_the_scripts_own_line() -> None:
    _, run = follow("""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32), 2)
    encoder(paddle.rand([2, 7, 24]))
    """)
    fault = next(iter(run.findings.faults.values()))
    assert (Path(fault.file).name, fault.line) == ("case.py", 8)
    assert "16" in fault.message
    assert "24" in fault.message


def test_a_batch_norm_tells_its_width() -> None:
    names = known("""
    widths = [one(7)._num_features for one in (nn.BatchNorm1D, nn.BatchNorm2D, nn.SyncBatchNorm)]
    """)
    assert names["widths"] == [7, 7, 7]
    # The class without a dimension in its name has no such attribute.
    names, _ = follow("width = nn.BatchNorm(7)._num_features")
    assert isinstance(names["width"], Unknown)


def test_convolutions_have_the_attributes_of_paddles() -> None:
    names = known("""
        conv, back = nn.Conv2D(3, 8, 3, stride=2), nn.Conv2DTranspose(8, 4, (2, 4), groups=2)
        seen = [conv._in_channels, conv._out_channels, conv._kernel_size, conv._stride]
        seen += [back._kernel_size, back._groups, back._dilation]
        table = nn.Embedding(30, 16)
        seen += [table._num_embeddings, table._embedding_dim]
        conv._stride, conv._dilation = [1, 1], [2, 2]
        shape = conv(paddle.zeros([2, 3, 16, 16])).shape
    """)
    assert names["seen"] == [3, 8, [3, 3], [2, 2], [2, 4], 2, [1, 1], 30, 16]
    assert names["shape"] == [2, 8, 12, 12]


def test_activations_are_found_by_name() -> None:
    names = known("""
        by_name = {name.lower(): name for name in nn.layer.activation.__dict__.keys()}
        act = eval("nn.layer.activation.{}()".format(by_name["relu6"]))
        shape = act(paddle.zeros([2, 3])).shape
    """)
    assert names["shape"] == [2, 3]


def test_a_tensor_is_made_by_its_class() -> None:
    names = known("""
        import numpy as np
        made = paddle.Tensor(np.zeros((2, 3), 'float32'))
        shape, same = made.shape, isinstance(made, paddle.Tensor)
    """)
    assert names["shape"] == [2, 3]
    assert names["same"] is True
