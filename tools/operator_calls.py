"""The calls behind the rows of the operator table: one call of one kernel each.

Inputs are written `x=f(A,B,C)`: `f` made by an operator, `l` a leaf with a gradient, `c` without
one, `i` whole numbers below the `<` bound, `b` booleans. The letters are primes.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, NamedTuple

EXTENTS: tuple[dict[str, int], ...] = (
    {"A": 5, "B": 7, "C": 11, "D": 13},
    {"A": 3, "B": 11, "C": 17, "D": 19},
    {"A": 7, "B": 5, "C": 23, "D": 11},
    {"A": 2, "B": 13, "C": 19, "D": 17},
)
OUTPUTS = ("out", "second")
"""What the table calls a call's outputs."""


class Call(NamedTuple):
    """`name` is the row's name; `expr` computes the output, or a tuple with it in front."""

    name: str
    expr: str
    inputs: str = "x=f(A,B,C)"
    grad: str = ""
    """What the backward call cannot show by itself (`fill`)."""
    backward: bool = True
    graph: bool = True
    """Whether the static graph knows the call as one kernel."""
    kernel: str = ""
    """The kernel's name where it does not."""
    eager_differs: bool = False
    """Whether the eager node is known to keep other things than the static graph's operator."""
    before: tuple[str, ...] = ()
    groups: str = ""
    """How many groups the call forms, for figures that go by them."""
    cpu: bool = True
    """Whether the CPU kernels' temporaries follow from the shapes of inputs and output alone."""


X = "x=f(A,B,C)"
PAIR = "x=f(A,B,C) y=f(A,B,C)"
LABEL = "x=f(A,B,C) y=c(A,B,C)"
IMAGE = "x=f(A,B,C,D)"

_FUNCTIONAL = (
    "relu relu6 sigmoid tanh hardsigmoid gelu silu swish mish hardswish leaky_relu elu selu celu "
    "softplus softsign hardtanh hardshrink softshrink tanhshrink thresholded_relu log_sigmoid "
    "softmax log_softmax"
)
_PLAIN = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfinv exp expm1 floor lgamma "
    "log log10 log1p log2 logit reciprocal round rsqrt sign sin sinh sqrt square stanh tan trunc "
    "i0 assign logsumexp mean sum prod max min amax amin"
)
_PAIRS = "add subtract multiply divide maximum minimum fmax fmin atan2 heaviside copysign"

ELEMENTWISE = [
    *[Call(name, f"F.{name}(x)") for name in _FUNCTIONAL.split()],
    *[Call(name, f"paddle.{name}(x)") for name in _PLAIN.split()],
    *[Call(name, f"paddle.{name}(x, y)", PAIR) for name in _PAIRS.split()],
    Call("scale", "x * 2.0"),
    Call("pow", "paddle.pow(x, 3)"),
    Call("clip", "paddle.clip(x, 0.1, 0.9)"),
    Call("elementwise_pow", "x ** y", PAIR),
    Call("remainder", "x % y", PAIR),
    Call("lerp", "paddle.lerp(x, y, 0.3)", PAIR),
    Call("cast", "x.astype('float64')"),
    Call("prelu", "F.prelu(x, y)", IMAGE + " y=l(B)"),
    Call("maxout", "F.maxout(x, 2)", "x=f(A,2*B,C,D)"),
]
REDUCTIONS = [
    Call("norm", "paddle.linalg.vector_norm(x, 2, axis=-1)"),
    Call("cumsum", "paddle.cumsum(x, axis=1)"),
    Call("cumprod", "paddle.cumprod(x, dim=1)"),
    Call("logcumsumexp", "paddle.logcumsumexp(x, axis=1)"),
    Call("cummax", "paddle.cummax(x, axis=1)"),
    Call("topk", "paddle.topk(x, 3)"),
    Call("argsort_values", "paddle._C_ops.argsort(x, -1, False, False)", graph=False),
    Call("median", "paddle._C_ops.median(x, [1], False, 'avg')", graph=False),
    Call("frobenius_norm", "paddle.linalg.matrix_norm(x, axis=[1, 2])", cpu=False),
    Call("argsort", "paddle.argsort(x)", backward=False),
    Call("argmax", "paddle.argmax(x, axis=-1)", backward=False),
    Call("kthvalue", "paddle.kthvalue(x, 2)"),
    Call("mode", "paddle.mode(x)"),
    Call("trace", "paddle.trace(x, axis1=1, axis2=2)"),
    Call("dist", "paddle.dist(x, y)", PAIR),
]

MANIPULATION = [
    Call("concat", "paddle.concat([x, y], axis=1)", "x=f(A,B,C) y=f(A,D,C)"),
    Call("stack", "paddle.stack([x, y], axis=1)", PAIR),
    Call("split", "paddle.split(x, 2, axis=1)", "x=f(A,2*B,C)", grad="fill"),
    Call("expand", "x.expand([D, A, B, C])"),
    Call("tile", "paddle.tile(x, [1, 2, 1])"),
    Call("repeat_interleave", "paddle.repeat_interleave(x, 3, axis=1)"),
    Call("roll", "paddle.roll(x, 1, axis=1)"),
    Call("flip", "paddle.flip(x, [1])"),
    Call("tril", "paddle.tril(x)"),
    Call("triu", "paddle.triu(x)"),
    Call("diag", "paddle.diag(x)", "x=f(A)"),
    Call("diag_embed", "paddle.diag_embed(x)"),
    Call("where", "paddle.where(m, x, y)", PAIR + " m=b(A,B,C)"),
    Call("gather", "paddle.gather(x, y, axis=1)", "x=f(A,B,C) y=i(D,<B)"),
    Call("gather_nd", "paddle.gather_nd(x, y)", "x=f(A,B,C) y=i(D,2,<2)"),
    Call("index_select", "paddle.index_select(x, y, axis=1)", "x=f(A,B,C) y=i(D,<B)"),
    Call("index_sample", "paddle.index_sample(x, y)", "x=f(A,B) y=i(A,D,<B)"),
    Call("index_add", "paddle.index_add(x, i, 1, y)", "x=f(A,B,C) y=f(A,D,C) i=i(D,<B)"),
    Call(
        "index_put",
        "paddle.index_put(x, (i,), y)",
        "x=f(A,B) y=f(D,B) i=i(D,<A)",
        cpu=False,
        eager_differs=True,
    ),
    Call(
        "take_along_axis",
        "paddle.take_along_axis(x, y, 1, broadcast=False)",
        "x=f(A,B) y=i(A,D,<B)",
    ),
    Call(
        "put_along_axis",
        "paddle.put_along_axis(x, i, y, 1, broadcast=False)",
        "x=f(A,B) y=f(A,D) i=i(A,D,<B)",
        cpu=False,
    ),
    Call("scatter", "paddle.scatter(x, i, y)", "x=f(A,B) y=f(D,B) i=i(D,<A)"),
    Call("scatter_nd_add", "paddle.scatter_nd_add(x, i, y)", "x=f(A,B) y=f(D,B) i=i(D,1,<A)"),
    Call("pad", "F.pad(x, [1, 1, 2, 2, 0, 0], pad_from_left_axis=True)"),
    Call("pad3d", "F.pad(x, [1, 2, 3, 4])", IMAGE),
    Call("unfold", "F.unfold(x, 2)", IMAGE, cpu=False),
    Call("fold", "F.fold(x, [5, 6], 2)", "x=f(A,4*B,20)", cpu=False),
    Call("pixel_shuffle", "F.pixel_shuffle(x, 2)", "x=f(A,4*B,C,D)"),
    Call("pixel_unshuffle", "F.pixel_unshuffle(x, 2)", "x=f(A,B,2*C,2*D)"),
    Call("channel_shuffle", "F.channel_shuffle(x, 2)", "x=f(A,2*B,C,D)"),
    Call("crop", "paddle.crop(x, [A, 2, C], [0, 1, 0])"),
    Call("temporal_shift", "F.temporal_shift(x, 1)", IMAGE),
    Call("unstack", "paddle.unstack(x, axis=1)", "x=f(A,3,C)", grad="fill", backward=False),
    Call("meshgrid", "paddle.meshgrid(x, y)", "x=f(A) y=f(B)", grad="fill", backward=False),
    Call("one_hot", "F.one_hot(x, 5)", "x=i(A,B,<5)", backward=False),
]

LINALG = [
    Call("matmul", "paddle.matmul(x, y)", "x=f(A,B,C) y=f(A,C,D)"),
    Call("bmm", "paddle.bmm(x, y)", "x=f(A,B,C) y=f(A,C,D)"),
    Call("mv", "paddle.mv(x, y)", "x=f(A,B) y=f(B)"),
    Call("dot", "paddle.dot(x, y)", "x=f(A,B) y=f(A,B)"),
    Call("addmm", "paddle.addmm(z, x, y)", "x=f(A,B) y=f(B,C) z=f(A,C)"),
    Call("add_n", "paddle.add_n([x, y])", PAIR, graph=False, kernel="add_n"),
    Call("kron", "paddle.kron(x, y)", "x=f(A,B) y=f(C,D)", cpu=False),
    Call("cross", "paddle.cross(x, y, axis=1)", "x=f(A,3,C) y=f(A,3,C)"),
    Call("bilinear", "F.bilinear(x, y, z)", "x=f(A,B) y=f(A,C) z=l(D,B,C)", cpu=False),
    Call("inverse", "paddle.inverse(x)", "x=f(A,B,B)"),
    Call("det", "paddle.linalg.det(x)", "x=f(A,B,B)"),
    Call("svd", "paddle.linalg.svd(x)[1]", "x=f(A,B,B)", cpu=False),
    Call("complex", "paddle.complex(x, y)", PAIR),
]

CONVOLUTIONS = [
    Call("conv", "F.conv2d(x, y)", "x=f(A,B,C,D) y=l(C,B,2,2)", cpu=False),
    Call(
        "conv1d", "F.conv1d(x, y)", "x=f(A,B,C) y=l(D,B,2)", cpu=False, graph=False, kernel="conv2d"
    ),
    Call(
        "depthwise_conv",
        "F.conv2d(x, y, groups=B)",
        "x=f(A,B,C,D) y=l(B,1,2,2)",
        cpu=False,
        kernel="depthwise_conv2d",
        graph=False,
    ),
    Call("conv3d", "F.conv3d(x, y)", "x=f(2,A,5,B,C) y=l(D,A,2,2,2)", cpu=False),
    Call(
        "conv_transpose",
        "F.conv2d_transpose(x, y, stride=2)",
        "x=f(A,B,C,D) y=l(B,C,2,2)",
        cpu=False,
    ),
    Call(
        "conv3d_transpose",
        "F.conv3d_transpose(x, y, stride=2)",
        "x=f(2,A,5,B,C) y=l(A,D,2,2,2)",
        cpu=False,
    ),
    Call("max_pool", "F.max_pool2d(x, 2, 1)", IMAGE),
    Call("avg_pool", "F.avg_pool2d(x, 2, 1)", IMAGE),
    Call("max_pool_mask", "F.max_pool2d(x, 2, 1, return_mask=True)", IMAGE),
    Call("max_pool3d", "F.max_pool3d(x, 2, 1)", "x=f(2,A,5,B,C)"),
    Call("avg_pool3d", "F.avg_pool3d(x, 2, 1)", "x=f(2,A,5,B,C)"),
    Call("adaptive_avg_pool", "F.adaptive_avg_pool2d(x, 2)", IMAGE),
    Call("adaptive_max_pool", "F.adaptive_max_pool2d(x, 2)", IMAGE),
    Call("lp_pool", "F.lp_pool2d(x, 2.0, 2, 1)", IMAGE),
    Call("interpolate", "F.interpolate(x, size=[6, 8], mode='nearest')", IMAGE),
    Call("bilinear_interp", "F.interpolate(x, size=[6, 8], mode='bilinear')", IMAGE),
    Call("bicubic_interp", "F.interpolate(x, size=[6, 8], mode='bicubic')", IMAGE),
    Call("linear_interp", "F.interpolate(x, size=[6], mode='linear', data_format='NCW')", X),
    Call(
        "trilinear_interp",
        "F.interpolate(x, size=[6, 8, 4], mode='trilinear', data_format='NCDHW')",
        "x=f(2,A,5,B,C)",
    ),
    Call("grid_sample", "F.grid_sample(x, y)", "x=f(A,B,C,D) y=f(A,B,C,2)", cpu=False),
    Call("affine_grid", "F.affine_grid(x, [A, 3, B, C])", "x=f(A,2,3)", cpu=False),
]

_STATISTICS = " m=c(B) v=c(B) w=l(B) b=l(B)"
NORMS = [
    Call(
        "batch_norm",
        "F.batch_norm(x, m, v, w, b, training=True)",
        IMAGE + _STATISTICS,
        eager_differs=True,
    ),
    Call("batch_norm_eval", "F.batch_norm(x, m, v, w, b)", IMAGE + _STATISTICS, eager_differs=True),
    Call("layer_norm", "F.layer_norm(x, [C], w, b)", X + " w=l(C) b=l(C)", groups="A*B"),
    Call(
        "group_norm",
        "F.group_norm(x, 3, weight=w, bias=b)",
        "x=f(A,3*B,C,D) w=l(3*B) b=l(3*B)",
        groups="3*A",
    ),
    Call("instance_norm", "F.instance_norm(x, weight=w, bias=b)", IMAGE + " w=l(B) b=l(B)"),
    Call("dropout", "F.dropout(x, 0.3)"),
    Call("dropout_eval", "F.dropout(x, 0.3, training=False)"),
    Call("rrelu", "F.rrelu(x, training=True)"),
    Call("gumbel_softmax", "F.gumbel_softmax(x)"),
    Call("embedding", "F.embedding(y, x)", "x=l(A,B) y=i(C,D,<A)"),
]

LOSSES = [
    Call("cross_entropy", "F.softmax_with_cross_entropy(x, y)", "x=f(A,B) y=i(A,1,<B)"),
    Call(
        "cross_entropy_soft",
        "F.softmax_with_cross_entropy(x, y, soft_label=True)",
        "x=f(A,B) y=c(A,B)",
    ),
    Call("nll_loss", "F.nll_loss(x, y)", "x=f(A,B) y=i(A,<B)"),
    Call("bce", "F.binary_cross_entropy(x, y, reduction='none')", LABEL),
    Call("bce_with_logits", "F.binary_cross_entropy_with_logits(x, y, reduction='none')", LABEL),
    Call("kl_div", "F.kl_div(x, y, reduction='none')", LABEL),
    Call("huber_loss", "F.smooth_l1_loss(x, y, reduction='none')", LABEL),
    Call("log_loss", "F.log_loss(x, y)", "x=f(A,1) y=c(A,1)"),
    Call("label_smooth", "F.label_smooth(x)", "x=c(A,B)", backward=False),
]

_COMPLEX = ("x = paddle.complex(x, x)",)
SPECTRAL = [
    Call("fft_c2c", "paddle.fft.fft(x)", graph=False, before=_COMPLEX),
    Call("fft_r2c", "paddle.fft.rfft(x)", graph=False),
    Call("fft_c2r", "paddle.fft.irfft(x)", graph=False, before=_COMPLEX),
    Call(
        "cholesky",
        "paddle.linalg.cholesky(x)",
        "x=f(A,B,B)",
        cpu=False,
        graph=False,
        before=("x = paddle.eye(B) * 50.0 + 0.0 * x",),
    ),
    Call("masked_select", "paddle.masked_select(x, y)", "x=f(A,B,C) y=b(A,B,C)", cpu=False),
    Call("masked_fill", "paddle.masked_fill(x, y, 0.5)", "x=f(A,B,C) y=b(A,1,C)", cpu=False),
    Call(
        "index_fill",
        "paddle.index_fill(x, i, 1, 0.5)",
        "x=f(A,B) i=i(3,<B)",
        cpu=False,
        eager_differs=True,
    ),
    Call(
        "einsum",
        "paddle.einsum('abc,acd->abd', x, y)",
        "x=f(A,B,C) y=f(A,C,D)",
        cpu=False,
        eager_differs=True,
    ),
    Call(
        "max_unpool",
        "F.max_unpool2d(x, y, 2)",
        "x=f(A,B,3,3) y=i(A,B,3,3,<36)",
        before=("y = y.astype('int32')",),
        graph=False,
    ),
    Call(
        "send_ue_recv",
        "paddle.geometric.send_ue_recv(x, y, z, w)",
        "x=f(A,B) y=f(C,B) z=i(C,<A) w=i(C,<A)",
        cpu=False,
        eager_differs=True,
    ),
]

_WELL_MADE = ("x = paddle.eye(B) * 50.0 + x",)
SOLVED = [
    Call("solve", "paddle.linalg.solve(x, y)", "x=f(A,B,B) y=f(A,B,C)", cpu=False, graph=False,
         before=_WELL_MADE),
    Call("triangular_solve", "paddle.linalg.triangular_solve(x, y)", "x=f(A,B,B) y=f(A,B,C)",
         cpu=False, graph=False, before=_WELL_MADE),
    Call("cholesky_solve", "paddle.linalg.cholesky_solve(y, x)", "x=f(A,B,B) y=f(A,B,C)",
         cpu=False, graph=False, before=_WELL_MADE),
    Call("eigh", "paddle.linalg.eigh(x)", "x=f(A,B,B)", cpu=False, graph=False),
    Call("qr", "paddle.linalg.qr(x)", "x=f(A,B,B)", backward=False, cpu=False, graph=False),
    Call("matrix_power", "paddle.linalg.matrix_power(x, 3)", "x=f(A,B,B)", cpu=False, graph=False),
    Call("svdvals", "paddle.linalg.svdvals(x)", "x=f(A,B,B)", cpu=False, graph=False),
    Call("baddbmm", "paddle.baddbmm(z, x, y)", "x=f(A,B,C) y=f(A,C,D) z=f(A,B,D)", cpu=False,
         kernel="baddbmm", graph=False),
    Call("slogdet", "paddle.linalg.slogdet(x)", "x=f(A,B,B)", cpu=False, graph=False,
         before=_WELL_MADE),
]  # fmt: skip
FUSED = [
    Call("swiglu", "F.swiglu(x, y)", PAIR),
    Call("swiglu_halves", "F.swiglu(x)", "x=f(A,B,2*C)", graph=False, kernel="swiglu"),
    Call("softmax_mask", "paddle.incubate.softmax_mask_fuse(x, y)", "x=f(A,2,C,C) y=c(A,1,C,C)",
         graph=False),
]  # fmt: skip
SPECIAL = [
    *[Call(name, f"paddle.{name}(x)") for name in ("i0e", "i1", "i1e")],
    Call("polygamma", "paddle.polygamma(x, 1)"),
    Call("gammaincc", "paddle.gammaincc(y, x)", "x=f(A,B,C) y=c(A,B,C)"),
    Call("renorm", "paddle.renorm(x, 2.0, 1, 1.0)"),
    Call("nanmedian", "paddle.nanmedian(x, axis=1)", cpu=False, graph=False),
    Call("conj", "paddle.conj(x)", graph=False, before=_COMPLEX),
    Call("put_added", "paddle.put_along_axis(x, i, y, 1, 'add', broadcast=False)",
         "x=f(A,B) y=f(A,D) i=i(A,D,<B)", cpu=False, graph=False),
]  # fmt: skip

WARPCTC = Call(
    "ctc_loss",
    "paddle._C_ops.warpctc(x, y, a, b, 0, False)",
    "x=f(C,A,D)",
    graph=False,
    kernel="warpctc",
    cpu=False,
    before=(
        "y = (paddle.rand([A, 3]) * 2).astype('int32')",
        "a = paddle.full([A], C, 'int64')",
        "b = paddle.full([A], 3, 'int64')",
    ),
)

GRAPHS = [
    Call("segment_pool", "paddle.geometric.segment_sum(x, y)", "x=f(A,B) y=i(A,<1)"),
    Call("send_u_recv", "paddle.geometric.send_u_recv(x, y, z)", "x=f(A,B) y=i(C,<A) z=i(C,<A)"),
]
CALLS = [
    *ELEMENTWISE,
    *REDUCTIONS,
    *MANIPULATION,
    *LINALG,
    *CONVOLUTIONS,
    *NORMS,
    *LOSSES,
    *SPECTRAL,
    *SOLVED,
    *FUSED,
    *SPECIAL,
    WARPCTC,
    *GRAPHS,
]

BY_HAND: dict[str, dict[str, str]] = {
    "linear": {"save": "x y", "grad": "new", "amp": "half", "kernels": "linear_v2",
               "source": "F.linear of 3.3.1 on CUDA builds: one kernel with the bias"},
    "flash_attn": {"save": "x y z out", "grad": "new", "extra": "4 per row", "amp": "half",
                   "kernels": "flash_attn",
                   "source": "operands of flash_attn_grad in the wheel's pd_op.h"},
    "rms_norm": {"save": "x y", "grad": "new", "extra": "4 per row", "amp": "full",
                 "kernels": "rms_norm",
                 "source": "operands of rms_norm_grad in the wheel's pd_op.h"},
    "softmax_mask_upper": {"save": "out", "grad": "new",
                           "kernels": "fused_softmax_mask_upper_triangle",
                           "source": "operands of its gradient in the wheel's pd_op.h"},
}  # fmt: skip
"""Operators that exist on CUDA builds alone."""


def inputs_of(call: Call, extents: dict[str, int]) -> dict[str, tuple[str, list[int], int]]:
    """Return kind, shape and upper bound of a call's inputs by name."""
    found: dict[str, tuple[str, list[int], int]] = {}
    for name, kind, args in re.findall(r"(\w+)=(\w)\(([^)]*)\)", call.inputs):
        parts = [one.strip() for one in args.split(",") if one.strip()]
        high = next((number(one[1:], extents) for one in parts if one.startswith("<")), 2)
        shape = [number(one, extents) for one in parts if not one.startswith("<")]
        found[name] = (kind, shape, high)
    return found


def number(text: str, extents: dict[str, int]) -> int:
    """Compute a product of letters and digits such as `2*B`."""
    return prod(extents.get(one, 0) or int(one) for one in text.split("*"))


def listed(found: Any) -> list[Any]:
    """Return the outputs of a call, one or several."""
    return list(found) if isinstance(found, (list, tuple)) else [found]
