"""`paddle.nn.functional`: activations, losses, attention, and the layers made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuconsole.preflight.scan import kernels, ops
from gpuconsole.preflight.scan.layers import Layer
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.tensors import Tensor, as_shape
from gpuconsole.preflight.scan.values import NativeClass, NativeFunction, ShapeFault, Value

ACTIVATIONS = (
    "relu", "relu6", "sigmoid", "tanh", "hardsigmoid", "gelu", "silu", "swish", "mish",
    "hardswish", "leaky_relu", "elu", "selu", "celu", "softplus", "softsign", "hardtanh",
    "softmax", "log_softmax", "log_sigmoid",
)  # fmt: skip
LAYER_NAMES = {
    "relu": "ReLU", "relu6": "ReLU6", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "hardsigmoid": "Hardsigmoid", "gelu": "GELU", "silu": "Silu", "swish": "Swish",
    "mish": "Mish", "hardswish": "Hardswish", "leaky_relu": "LeakyReLU", "elu": "ELU",
    "selu": "SELU", "celu": "CELU", "softplus": "Softplus", "softsign": "Softsign",
    "hardtanh": "Hardtanh", "softmax": "Softmax", "log_softmax": "LogSoftmax",
    "log_sigmoid": "LogSigmoid",
}  # fmt: skip


def activation(name: str) -> Callable[..., Tensor]:
    """Return the function of an activation."""

    def call(run: Run, x: Tensor, *_: Value, **__: Value) -> Tensor:
        return ops.unary(run, name, x)

    return call


def dropout(run: Run, x: Tensor, p: Value = 0.5, axis: Value = None, training: Value = True,
            *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.dropout`."""
    return kernels.dropout(run, x, p, training is not False)


def pooling(name: str, rank: int) -> Callable[..., Value]:
    """Return `F.max_pool2d` and the like."""

    def call(run: Run, x: Tensor, kernel_size: Value, stride: Value = None, padding: Value = 0,
             *args: Value, ceil_mode: Value = False, return_mask: Value = False,
             **_: Value) -> Value:  # fmt: skip
        out = kernels.pool(run, name, x, kernel_size, stride, padding, ceil_mode is True, rank)
        return out if return_mask is not True else (out, run.tensor(out.shape, "int32"))

    return call


def adaptive(name: str, rank: int) -> Callable[..., Tensor]:
    """Return `F.adaptive_avg_pool2d` and the like."""

    def call(run: Run, x: Tensor, output_size: Value, *_: Value, **__: Value) -> Tensor:
        return kernels.adaptive_pool(run, name, x, output_size, rank)

    return call


def cross_entropy(run: Run, input: Tensor, label: Tensor, weight: Value = None,
                  ignore_index: Value = -100, reduction: Value = "mean", soft_label: Value = False,
                  axis: Value = -1, *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.cross_entropy`."""
    return kernels.cross_entropy(
        run, input, label, reduction=reduction, soft_label=soft_label is True, axis=axis
    )


def softmax_with_cross_entropy(run: Run, logits: Tensor, label: Tensor, *_: Value,
                               soft_label: Value = False, **__: Value) -> Tensor:  # fmt: skip
    """`F.softmax_with_cross_entropy`: one loss per row."""
    loss = kernels.cross_entropy(
        run, logits, label, reduction="none", soft_label=soft_label is True
    )
    return ops.reshape(run, loss, [*loss.shape, 1])


def mse_loss(run: Run, input: Tensor, label: Tensor, reduction: Value = "mean",
             name: Value = None) -> Tensor:  # fmt: skip
    """`F.mse_loss`: the square of the difference."""
    return kernels.reduced(
        run, ops.unary(run, "square", ops.binary(run, "subtract", input, label)), reduction
    )


def square_error_cost(run: Run, input: Tensor, label: Tensor) -> Tensor:
    """`F.square_error_cost`."""
    return mse_loss(run, input, label, "none")


def l1_loss(run: Run, input: Tensor, label: Tensor, reduction: Value = "mean",
            name: Value = None) -> Tensor:  # fmt: skip
    """`F.l1_loss`."""
    return kernels.reduced(
        run, ops.unary(run, "abs", ops.binary(run, "subtract", input, label)), reduction
    )


def elementwise_loss(name: str) -> Callable[..., Tensor]:
    """Return a loss of two tensors of one shape with a kernel of its own."""

    def call(run: Run, input: Tensor, label: Tensor, *args: Value, reduction: Value = "mean",
             **_: Value) -> Tensor:  # fmt: skip
        if input.shape != label.shape:
            raise ShapeFault(
                f"a loss of {list(input.shape)} and {list(label.shape)}", input.shape, label.shape
            )
        loss = ops.apply(
            run, name, (input, label), input.shape, input.dtype, flops=4.0 * input.size
        )
        return kernels.reduced(run, loss, reduction)

    return call


def smooth_l1_loss(run: Run, input: Tensor, label: Tensor, reduction: Value = "mean",
                   *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.smooth_l1_loss`: the residual is saved."""
    out = ops.apply(run, "huber_loss", (input, label), input.shape,
                    flops=4.0 * input.size)  # fmt: skip
    return kernels.reduced(run, out, reduction)


def nll_loss(run: Run, input: Tensor, label: Tensor, *_: Value, reduction: Value = "mean",
             **__: Value) -> Tensor:  # fmt: skip
    """`F.nll_loss`."""
    shape = () if reduction in ("mean", "sum") else label.shape
    return ops.apply(run, "nll_loss", (input, label), shape, input.dtype)


def sigmoid_focal_loss(run: Run, logit: Tensor, label: Tensor, normalizer: Value = None,
                       alpha: Value = 0.25, gamma: Value = 2.0, reduction: Value = "sum",
                       name: Value = None) -> Tensor:  # fmt: skip
    """`F.sigmoid_focal_loss`, built of elementwise operators as Paddle builds it."""
    one = run.tensor((1,))
    loss = ops.apply(run, "bce_with_logits", (logit, label), logit.shape, logit.dtype)
    pred = ops.unary(run, "sigmoid", logit)
    flipped = ops.binary(run, "multiply", ops.binary(run, "subtract", one, pred),
                         ops.binary(run, "subtract", one, label))  # fmt: skip
    p_t = ops.binary(run, "add", ops.binary(run, "multiply", pred, label), flipped)
    del flipped
    weights = ops.binary(
        run,
        "add",
        ops.unary(run, "scale", label),
        ops.unary(run, "scale", ops.binary(run, "subtract", one, label)),
    )
    loss = ops.binary(run, "multiply", weights, loss)
    gamma_t = ops.unary(run, "pow", ops.binary(run, "subtract", one, p_t))
    loss = ops.binary(run, "multiply", gamma_t, loss)
    if isinstance(normalizer, Tensor):
        loss = ops.binary(run, "divide", loss, normalizer)
    return kernels.reduced(run, loss, reduction)


def ctc_loss(run: Run, log_probs: Tensor, labels: Tensor, *_: Value, reduction: Value = "mean",
             **__: Value) -> Tensor:  # fmt: skip
    """`F.ctc_loss`: warp-ctc keeps the gradient of the logits from the forward pass."""
    batch = log_probs.shape[1]
    out = ops.apply(run, "ctc_loss", (log_probs, labels), (batch, 1), log_probs.dtype)  # fmt: skip
    return kernels.reduced(run, out, reduction)


def linear(run: Run, x: Tensor, weight: Tensor, bias: Value = None, name: Value = None) -> Tensor:
    """`F.linear`."""
    return ops.linear(run, x, weight, bias if isinstance(bias, Tensor) else None)


def conv2d(run: Run, x: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1,
           padding: Value = 0, dilation: Value = 1, groups: int = 1, *_: Value,
           **__: Value) -> Tensor:  # fmt: skip
    """`F.conv1d`, `F.conv2d`, `F.conv3d`."""
    return kernels.conv(run, x, weight, bias if isinstance(bias, Tensor) else None, stride=stride,
                        padding=padding, dilation=dilation, groups=groups)  # fmt: skip


def interpolate(run: Run, x: Tensor, size: Value = None, scale_factor: Value = None,
                *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.interpolate`."""
    return kernels.interpolate(run, x, size, scale_factor)


def pad(run: Run, x: Tensor, pad: Value, *_: Value, **__: Value) -> Tensor:
    """`F.pad`: pairs from the last axis forwards."""
    flat = list(as_shape(pad))
    shape = list(x.shape)
    if len(flat) == 2 * len(shape):
        for place in range(len(shape)):
            shape[place] += flat[2 * place] + flat[2 * place + 1]
    else:
        for place in range(len(flat) // 2):
            shape[-1 - place] += flat[2 * place] + flat[2 * place + 1]
    return ops.apply(run, "pad", (x,), shape)


def embedding(run: Run, x: Tensor, weight: Tensor, padding_idx: Value = None,
              max_norm: Value = None, norm_type: Value = 2.0, sparse: Value = False,
              *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.embedding`."""
    return kernels.embedding(run, x, weight, sparse=sparse is True)


def layer_norm(run: Run, x: Tensor, normalized_shape: Value, weight: Value = None,
               bias: Value = None, *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.layer_norm`."""
    given = [one for one in (weight, bias) if isinstance(one, Tensor)]
    rows = x.size
    for extent in as_shape(normalized_shape):
        rows //= extent
    return kernels.norm(run, "layer_norm", x, given, rows)


def normalize(run: Run, x: Tensor, p: Value = 2, axis: Value = 1, *_: Value, **__: Value) -> Tensor:
    """`F.normalize`: divided by its norm."""
    return ops.binary(run, "divide", x, ops.reduce(run, "norm", x, axis, True))


def one_hot(run: Run, x: Tensor, num_classes: int, name: Value = None) -> Tensor:
    """`F.one_hot`."""
    return run.tensor((*x.shape, num_classes), "float32")


def unfold(run: Run, x: Tensor, kernel_sizes: Value, strides: Value = 1, paddings: Value = 0,
           dilations: Value = 1, name: Value = None) -> Tensor:  # fmt: skip
    """`F.unfold`."""
    kernel, stride = kernels.spread(kernel_sizes, 2), kernels.spread(strides, 2)
    sides = kernels.spread(paddings, 2)
    blocks = 1
    for size, k, s, p in zip(x.shape[2:], kernel, stride, sides, strict=True):
        blocks *= (size + 2 * p - k) // s + 1
    return ops.apply(run, "pad", (x,), (x.shape[0], x.shape[1] * kernel[0] * kernel[1], blocks))


def pixel_shuffle(run: Run, x: Tensor, upscale_factor: int, *_: Value) -> Tensor:
    """`F.pixel_shuffle`."""
    n, c, h, w = x.shape
    factor = upscale_factor
    shape = (n, c // factor**2, h * factor, w * factor)
    return ops.apply(run, "pixel_shuffle", (x,), shape)


def attention(run: Run, query: Tensor, key: Tensor, value: Tensor, attn_mask: Value = None,
              dropout_p: Value = 0.0, is_causal: Value = False, training: Value = True,
              *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`F.scaled_dot_product_attention` on [batch, sequence, heads, width], the math path."""
    q, k, v = (ops.transpose(run, one, (0, 2, 1, 3)) for one in (query, key, value))
    scores = ops.matmul(run, ops.unary(run, "scale", q), k, transpose_y=True)
    if isinstance(attn_mask, Tensor):
        scores = ops.binary(run, "add", scores, attn_mask)
    weights = ops.unary(run, "softmax", scores)
    del scores
    weights = kernels.dropout(run, weights, dropout_p, training is not False)
    return ops.transpose(run, ops.matmul(run, weights, v), (0, 2, 1, 3))


class Function(Layer):
    """A layer without parameters that calls a function of this module."""

    label = "function layer"
    function: Callable[..., Value]
    keep: tuple[str, ...] = ()

    def init(self, run: Run, *args: Value, **kwargs: Value) -> None:
        """Keep the arguments."""
        self.args, self.kwargs = args, kwargs

    def forward(self, run: Run, *inputs: Value) -> Value:
        """Call the function with the inputs and the kept arguments."""
        return type(self).function(run, *inputs, *self.args, **self.kwargs)


class Dropout(Layer):
    """`nn.Dropout`."""

    label = "Dropout"

    def init(self, run: Run, p: Value = 0.5, *_: Value, **__: Value) -> None:
        """Keep the probability."""
        self.p = p

    def forward(self, run: Run, x: Tensor) -> Value:
        """Drop."""
        return kernels.dropout(run, x, self.p, self.training)


class Flatten(Layer):
    """`nn.Flatten`."""

    label = "Flatten"

    def init(self, run: Run, start_axis: int = 1, stop_axis: int = -1) -> None:
        """Keep the axes."""
        self.axes = (start_axis, stop_axis)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Flatten."""
        return ops.flatten(run, x, *self.axes)


def function_layer(name: str, function: Any) -> NativeClass:
    """Return a layer class that calls `function`."""
    made = type(name, (Function,), {"label": name, "function": staticmethod(function)})
    return NativeClass(made, name)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: activation(name) for name in ACTIVATIONS},
    "dropout": dropout, "dropout2d": dropout, "cross_entropy": cross_entropy,
    "softmax_with_cross_entropy": softmax_with_cross_entropy, "mse_loss": mse_loss,
    "square_error_cost": square_error_cost, "l1_loss": l1_loss, "smooth_l1_loss": smooth_l1_loss,
    "binary_cross_entropy_with_logits": elementwise_loss("bce_with_logits"),
    "binary_cross_entropy": elementwise_loss("bce"), "kl_div": elementwise_loss("kl_div"),
    "nll_loss": nll_loss, "sigmoid_focal_loss": sigmoid_focal_loss, "ctc_loss": ctc_loss,
    "linear": linear, "conv1d": conv2d, "conv2d": conv2d, "conv3d": conv2d,
    "interpolate": interpolate, "upsample": interpolate, "pad": pad, "embedding": embedding,
    "layer_norm": layer_norm, "normalize": normalize, "one_hot": one_hot, "unfold": unfold,
    "pixel_shuffle": pixel_shuffle, "scaled_dot_product_attention": attention,
    **{f"{kind}_pool{rank}d": pooling(f"{kind}_pool", rank)
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"adaptive_{kind}_pool{rank}d": adaptive(f"{kind}_pool", rank)
       for kind in ("max", "avg") for rank in (1, 2, 3)},
}  # fmt: skip


def layer_classes() -> dict[str, NativeClass]:
    """Return the parameterless layers of `paddle.nn`."""
    made = {LAYER_NAMES[name]: function_layer(LAYER_NAMES[name], FUNCTIONS[name])
            for name in ACTIVATIONS}  # fmt: skip
    losses = {
        "MSELoss": mse_loss,
        "L1Loss": l1_loss,
        "SmoothL1Loss": smooth_l1_loss,
        "BCELoss": elementwise_loss("bce"),
        "BCEWithLogitsLoss": elementwise_loss("bce_with_logits"),
        "KLDivLoss": elementwise_loss("kl_div"),
        "NLLLoss": nll_loss,
        "CTCLoss": _ctc,
        "CrossEntropyLoss": cross_entropy,
        "Upsample": interpolate,
        "PixelShuffle": pixel_shuffle,
    }
    made.update({name: function_layer(name, call) for name, call in losses.items()})
    for rank in (1, 2, 3):
        for kind in ("Max", "Avg"):
            name = f"{kind}Pool{rank}D"
            made[name] = function_layer(name, pooling(f"{kind.lower()}_pool", rank))
            name = f"Adaptive{kind}Pool{rank}D"
            made[name] = function_layer(name, adaptive(f"{kind.lower()}_pool", rank))
    for name in ("Pad1D", "Pad2D", "Pad3D", "ZeroPad2D"):
        made[name] = function_layer(name, _pad_layer)
    for name in ("Dropout", "Dropout2D", "Dropout3D", "AlphaDropout"):
        made[name] = NativeClass(Dropout, name)
    made["Flatten"] = NativeClass(Flatten, "Flatten")
    return made


def _ctc(run: Run, logits: Tensor, labels: Tensor, input_lengths: Value, label_lengths: Value,
         blank: Value = 0, reduction: Value = "mean", **_: Value) -> Tensor:  # fmt: skip
    return ctc_loss(run, logits, labels, reduction=reduction)


def _pad_layer(run: Run, x: Tensor, padding: Value, *_: Value, **__: Value) -> Tensor:
    if isinstance(padding, int):
        padding = [padding] * (2 * (len(x.shape) - 2))
    return pad(run, x, padding)


def functions() -> dict[str, NativeFunction]:
    """Return `paddle.nn.functional`."""
    return {name: NativeFunction(call, name) for name, call in FUNCTIONS.items()}
