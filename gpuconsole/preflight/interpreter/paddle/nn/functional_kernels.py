"""`paddle.nn.functional`: what one kernel of Paddle computes.

What Paddle builds of several is written down in `data/paddle/functional`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops import kernels, pooling
from gpuconsole.preflight.interpreter.paddle.source_functions import sourced
from gpuconsole.preflight.interpreter.paddle.tensor import indexing, linalg
from gpuconsole.preflight.interpreter.paddle.tensor.creation import dtype_of
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor, as_shape

ACTIVATIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "hardsigmoid": "Hardsigmoid", "gelu": "GELU", "silu": "Silu", "swish": "Swish",
    "mish": "Mish", "hardswish": "Hardswish", "leaky_relu": "LeakyReLU", "elu": "ELU",
    "selu": "SELU", "celu": "CELU", "softplus": "Softplus", "softsign": "Softsign",
    "hardtanh": "Hardtanh", "softmax": "Softmax", "log_softmax": "LogSoftmax",
    "log_sigmoid": "LogSigmoid", "hardshrink": "Hardshrink", "softshrink": "Softshrink",
    "tanhshrink": "Tanhshrink", "thresholded_relu": "ThresholdedReLU",
}  # fmt: skip
"""Activations of one input by the names of their functions and layers."""


def activation(name: str) -> Callable[..., Tensor]:
    """Return the function of an activation."""

    def call(run: Run, x: Tensor, *_: Value, **__: Value) -> Tensor:
        return ops.unary(run, name, x)

    return call


def softmax(name: str) -> Callable[..., Tensor]:
    """Return `F.softmax` or `F.log_softmax`; a type asked for is cast to first."""

    def call(run: Run, x: Tensor, axis: Value = -1, dtype: Value = None, *_: Value,
             **__: Value) -> Tensor:  # fmt: skip
        if isinstance(axis, int):
            ops.check_axis(axis, len(x.shape))
        return ops.unary(run, name, ops.cast(run, x, dtype_of(run, dtype, x.dtype)))

    return call


def maxout(run: Run, x: Tensor, groups: int, axis: Value = 1, *_: Value) -> Tensor:
    """`F.maxout`."""
    place = ops.check_axis(axis, len(x.shape))
    if x.shape[place] % groups:
        raise ShapeFault(f"maxout of {x.shape[place]} channels by {groups}", x.shape)
    shape = (*x.shape[:place], x.shape[place] // groups, *x.shape[place + 1 :])
    return ops.apply(run, "maxout", (x,), shape)


def prelu(run: Run, x: Tensor, weight: Tensor, *_: Value, **__: Value) -> Tensor:
    """`F.prelu`."""
    return ops.apply(run, "prelu", (x, weight), x.shape, flops=x.size)


def rrelu(run: Run, x: Tensor, lower: Value = 0.125, upper: Value = 0.333,
          training: Value = True, *_: Value) -> Tensor:  # fmt: skip
    """`F.rrelu`: the random slopes stay saved."""
    return ops.apply(run, "rrelu", (x,), x.shape, flops=x.size)


def dropout(run: Run, x: Tensor, p: Value = 0.5, axis: Value = None, training: Value = True,
            mode: Value = "upscale_in_train", *_: Value, **__: Value) -> Value:  # fmt: skip
    """`F.dropout`; along axes Paddle builds it of a mask and a product."""
    if axis is not None and not (isinstance(p, (int, float)) and p == 0):
        return sourced("functional", "dropout_axis")(run, x, p, axis, training is not False, mode)
    return kernels.dropout(run, x, p, training is not False)


def loss_kernel(name: str) -> Callable[..., Tensor]:
    """Return a loss of two tensors of one shape with a kernel of its own."""

    def call(run: Run, input: Tensor, label: Tensor, *more: Value, **_: Value) -> Tensor:
        if input.shape != label.shape:
            raise ShapeFault(
                f"a loss of {list(input.shape)} and {list(label.shape)}", input.shape, label.shape
            )
        if name == "kl_div":
            # No gradient reaches the target.
            label = Tensor(label.shape, label.dtype, label.storage)
        out = ops.apply(run, name, (input, label), input.shape, input.dtype, flops=4.0 * input.size)
        if out.node is not None:
            out.node.saved += [extra.storage for extra in more if isinstance(extra, Tensor)]
        return out

    return call


def nll_loss(run: Run, input: Tensor, label: Tensor, weight: Value = None,
             ignore_index: Value = -100, reduction: Value = "mean", *_: Value,
             **__: Value) -> Tensor:  # fmt: skip
    """`F.nll_loss`."""
    indexing.as_index(label)
    ranks = (1, 2) if len(input.shape) == 2 else (len(input.shape) - 1,)
    if len(label.shape) not in ranks or label.shape[:1] != input.shape[:1]:
        raise ShapeFault(
            f"nll_loss of {list(input.shape)} and labels {list(label.shape)}",
            input.shape, label.shape,
        )  # fmt: skip
    shape = () if reduction in ("mean", "sum") else label.shape[: len(input.shape) - 1]
    return ops.apply(run, "nll_loss", (input, label), shape, input.dtype)


def log_loss(run: Run, input: Tensor, label: Tensor, *_: Value, **__: Value) -> Tensor:
    """`F.log_loss`."""
    return loss_kernel("log_loss")(run, input, label)


def ctc_kernel(run: Run, log_probs: Tensor, labels: Tensor, lengths: Value) -> Tensor:
    """warp-ctc makes the logits' gradient in the forward pass and keeps it.

    Beside it live a padded copy of the logits, the labels in a row, and the workspace: for each
    sample probabilities, a state per label, per blank between them and per time, and five rows.
    Measured with Paddle 3.3.1; labels are counted as long as their tensor is wide.
    """
    if len(log_probs.shape) != 3:
        raise ShapeFault("ctc_loss needs [time, batch, classes]", log_probs.shape)
    given = [tensor for tensor in (labels, lengths) if isinstance(tensor, Tensor)]
    time, batch, classes = log_probs.shape
    longest = labels.shape[-1] if isinstance(labels, Tensor) and labels.shape else 0
    states = 2 * longest + 1
    floats = 2 * classes * time + states * time + 4 * states + classes + longest
    return ops.apply(run, "ctc_loss", (log_probs, *given), (batch, 1), temp=4.0 * batch * floats)


def linear(run: Run, x: Tensor, weight: Tensor, bias: Value = None, name: Value = None) -> Tensor:
    """`F.linear`."""
    return ops.linear(run, x, weight, bias if isinstance(bias, Tensor) else None)


def conv(rank: int) -> Callable[..., Tensor]:
    """Return `F.conv1d`, `F.conv2d`, `F.conv3d`."""

    def call(run: Run, x: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1,
             padding: Value = 0, dilation: Value = 1, groups: int = 1,
             data_format: Value = "NCHW", name: Value = None) -> Tensor:  # fmt: skip
        if len(weight.shape) != rank + 2:
            raise ShapeFault(
                f"a {rank}-D convolution with a weight of {list(weight.shape)}",
                x.shape, weight.shape,
            )  # fmt: skip
        return kernels.conv(run, x, weight, bias if isinstance(bias, Tensor) else None,
                            stride=stride, padding=padding, dilation=dilation, groups=groups,
                            data_format=data_format)  # fmt: skip

    return call


def conv_transpose(run: Run, x: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1,
                   padding: Value = 0, output_padding: Value = 0, groups: int = 1,
                   dilation: Value = 1, output_size: Value = None, data_format: Value = "",
                   *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.conv1d_transpose` and its like; dilation and groups change places in 2-D and 3-D."""
    return kernels.conv_transpose(
        run, x, weight, bias if isinstance(bias, Tensor) else None, stride=stride,
        padding=padding, output_padding=output_padding, groups=groups, dilation=dilation,
        output_size=output_size, data_format=data_format,
    )  # fmt: skip


def embedding(run: Run, x: Tensor, weight: Tensor, padding_idx: Value = None,
              max_norm: Value = None, norm_type: Value = 2.0, sparse: Value = False,
              *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.embedding`."""
    return kernels.embedding(run, x, weight, sparse=sparse is True)


def batch_norm(run: Run, x: Tensor, running_mean: Tensor, running_var: Tensor,
               weight: Value = None, bias: Value = None, training: Value = False,
               momentum: Value = 0.9, epsilon: Value = 1e-5, data_format: Value = "NCHW",
               *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.batch_norm`."""
    scale = weight if isinstance(weight, Tensor) else None
    shift = bias if isinstance(bias, Tensor) else None
    last = data_format in ("NLC", "NHWC", "NDHWC")
    return kernels.batch_norm(run, x, scale, shift, running_mean.size, channels_last=last)


def layer_norm(run: Run, x: Tensor, normalized_shape: Value, weight: Value = None,
               bias: Value = None, *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.layer_norm`."""
    extents = as_shape(normalized_shape)
    if x.shape[len(x.shape) - len(extents) :] != extents:
        raise ShapeFault(
            f"layer_norm over {list(extents)}, {list(x.shape)} arrives", x.shape, extents
        )
    given = [tensor for tensor in (weight, bias) if isinstance(tensor, Tensor)]
    return kernels.norm(run, "layer_norm", x, given, x.size // max(1, prod(extents)))


def group_norm(run: Run, x: Tensor, num_groups: int, *args: Value, weight: Value = None,
               bias: Value = None, data_format: Value = "", **_: Value) -> Tensor:  # fmt: skip
    """`F.group_norm`."""
    channels = x.shape[-1 if "NHWC" in (data_format, *args) else 1]
    if channels % num_groups:
        raise ShapeFault(f"{channels} channels do not divide into {num_groups} groups", x.shape)
    given = [tensor for tensor in (*args, weight, bias) if isinstance(tensor, Tensor)]
    return kernels.norm(run, "group_norm", x, given, x.shape[0] * num_groups)


def instance_norm(run: Run, x: Tensor, running_mean: Value = None, running_var: Value = None,
                  weight: Value = None, bias: Value = None, *_: Value,
                  **__: Value) -> Tensor:  # fmt: skip
    """`F.instance_norm`."""
    given = [tensor for tensor in (weight, bias) if isinstance(tensor, Tensor)]
    return kernels.norm(run, "instance_norm", x, given, x.shape[0] * x.shape[1])


def label_smooth(run: Run, label: Tensor, *_: Value, **__: Value) -> Tensor:
    """`F.label_smooth`."""
    return ops.apply(run, "label_smooth", (label,), label.shape)


def temporal_shift(run: Run, x: Tensor, seg_num: int, *_: Value, **__: Value) -> Tensor:
    """`F.temporal_shift`."""
    if x.shape[0] % seg_num:
        raise ShapeFault(f"{x.shape[0]} frames do not divide into {seg_num} segments", x.shape)
    return ops.apply(run, "temporal_shift", (x,), x.shape)


def attention(run: Run, query: Tensor, key: Tensor, value: Tensor, attn_mask: Value = None,
              dropout_p: Value = 0.0, is_causal: Value = False, training: Value = True,
              *_: Value, **__: Value) -> Value:  # fmt: skip
    """`F.scaled_dot_product_attention` on [batch, sequence, heads, width].

    The CPU takes the math path. On cards with halves (flash attention's types) Paddle 3.3.1
    takes flash attention, which keeps one number per row of scores.
    """
    if len(query.shape) != 4 or query.shape[-1] != key.shape[-1]:
        raise ShapeFault(
            f"attention of queries {list(query.shape)} and keys {list(key.shape)}",
            query.shape, key.shape,
        )  # fmt: skip
    if not run.on_cpu and (query.dtype in ("float16", "bfloat16") or run.mode.amp.level != "O0"):
        flops = 4.0 * query.size * key.shape[1]
        return ops.apply(run, "flash_attn", (query, key, value), query.shape, flops=flops)
    if isinstance(attn_mask, Tensor) and attn_mask.dtype == "bool":
        attn_mask = indexing.where(run, attn_mask, 0.0, 0.0)
    fused = not run.on_cpu and 32 <= key.shape[1] <= 16384 and key.shape[1] == query.shape[1]
    call = sourced("functional", "math_attention")
    return call(
        run, query, key, value, attn_mask, dropout_p, fused, is_causal is True,
        training is not False,
    )  # fmt: skip


def cross_entropy_kernel(run: Run, input: Tensor, label: Tensor, soft_label: Value = False,
                         axis: int = -1) -> Value:  # fmt: skip
    """Softmax and loss per row; the softmax is saved and becomes the gradient."""
    return kernels.cross_entropy_kernel(run, input, label, soft_label is True, axis)


def swiglu(run: Run, x: Tensor, y: Value = None, name: Value = None) -> Tensor:
    """`F.swiglu`: two tensors, or the halves of one."""
    if isinstance(y, Tensor):
        if x.shape != y.shape:
            raise ShapeFault(f"swiglu of {list(x.shape)} and {list(y.shape)}", x.shape, y.shape)
        return ops.apply(run, "swiglu", (x, y), x.shape)
    if x.shape[-1] % 2:
        raise ShapeFault(f"swiglu of the halves of {x.shape[-1]}", x.shape)
    return ops.apply(run, "swiglu_halves", (x,), (*x.shape[:-1], x.shape[-1] // 2))


def softmax_masked(run: Run, x: Tensor, mask: Tensor, name: Value = None) -> Tensor:
    """`paddle.incubate.softmax_mask_fuse`."""
    return ops.apply(run, "softmax_mask", (x, mask), x.shape)


def rms_norm(run: Run, input: Tensor, normalized_shape: Value = None, weight: Value = None,
             *_: Value, **__: Value) -> Value:  # fmt: skip
    """`F.rms_norm`: a kernel of cards alone."""
    if run.on_cpu:
        return run.fault("rms_norm has no kernel on the CPU (Paddle 3.3.1)")
    inputs = (input, weight) if isinstance(weight, Tensor) else (input,)
    return ops.apply(run, "rms_norm", inputs, input.shape)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: activation(name) for name in ACTIVATIONS},
    "logsigmoid": activation("log_sigmoid"), "swiglu": swiglu, "rms_norm": rms_norm,
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"), "maxout": maxout,
    "prelu": prelu, "rrelu": rrelu, "gumbel_softmax": activation("gumbel_softmax"),
    "dropout": dropout, "nll_loss": nll_loss,
    "bce_kernel": loss_kernel("bce"), "bce_logits_kernel": loss_kernel("bce_with_logits"),
    "kl_div_kernel": loss_kernel("kl_div"), "huber_kernel": loss_kernel("huber_loss"),
    "log_loss": log_loss, "ctc_kernel": ctc_kernel, "cross_entropy_kernel": cross_entropy_kernel,
    "linear": linear, "bilinear": linalg.bilinear, "embedding": embedding,
    "conv1d": conv(1), "conv2d": conv(2), "conv3d": conv(3),
    **{f"conv{rank}d_transpose": conv_transpose for rank in (1, 2, 3)},
    "batch_norm": batch_norm, "layer_norm": layer_norm, "group_norm": group_norm,
    "instance_norm": instance_norm, "one_hot": indexing.one_hot, "label_smooth": label_smooth,
    "temporal_shift": temporal_shift, "sequence_mask": indexing.sequence_mask,
    "scaled_dot_product_attention": attention, **pooling.FUNCTIONS,
}  # fmt: skip
