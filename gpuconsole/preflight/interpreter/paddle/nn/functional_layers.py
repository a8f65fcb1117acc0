"""Layers without parameters: each calls its function of `paddle.nn.functional`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from gpuconsole.preflight.interpreter.domain.values import NativeClass, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

BY_FUNCTION = {
    # activations
    "relu": "ReLU", "relu6": "ReLU6", "sigmoid": "Sigmoid", "tanh": "Tanh", "gelu": "GELU",
    "hardsigmoid": "Hardsigmoid", "silu": "Silu", "swish": "Swish", "mish": "Mish",
    "hardswish": "Hardswish", "leaky_relu": "LeakyReLU", "elu": "ELU", "selu": "SELU",
    "celu": "CELU", "softplus": "Softplus", "softsign": "Softsign", "hardtanh": "Hardtanh",
    "softmax": "Softmax", "log_softmax": "LogSoftmax", "log_sigmoid": "LogSigmoid",
    "softshrink": "Softshrink", "hardshrink": "Hardshrink", "tanhshrink": "Tanhshrink",
    "thresholded_relu": "ThresholdedReLU", "rrelu": "RReLU", "maxout": "Maxout", "glu": "GLU",
    # losses
    "ctc_loss": "CTCLoss",
    "mse_loss": "MSELoss", "l1_loss": "L1Loss", "smooth_l1_loss": "SmoothL1Loss",
    "binary_cross_entropy": "BCELoss", "kl_div": "KLDivLoss", "nll_loss": "NLLLoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "cross_entropy": "CrossEntropyLoss",
    "margin_ranking_loss": "MarginRankingLoss", "soft_margin_loss": "SoftMarginLoss",
    "cosine_embedding_loss": "CosineEmbeddingLoss", "triplet_margin_loss": "TripletMarginLoss",
    "triplet_margin_with_distance_loss": "TripletMarginWithDistanceLoss",
    "hinge_embedding_loss": "HingeEmbeddingLoss", "multi_margin_loss": "MultiMarginLoss",
    "multi_label_soft_margin_loss": "MultiLabelSoftMarginLoss",
    "multi_label_margin_loss": "MultiLabelMarginLoss",
    "poisson_nll_loss": "PoissonNLLLoss", "gaussian_nll_loss": "GaussianNLLLoss",
    # shapes
    "pixel_unshuffle": "PixelUnshuffle", "pixel_shuffle": "PixelShuffle",
    "channel_shuffle": "ChannelShuffle", "unfold": "Unfold", "fold": "Fold",
    "interpolate": "Upsample", "local_response_norm": "LocalResponseNorm",
    "cosine_similarity": "CosineSimilarity", "pairwise_distance": "PairwiseDistance",
    **{f"{kind}_pool{rank}d": f"{name}Pool{rank}D" for rank in (1, 2, 3)
       for kind, name in (("max", "Max"), ("avg", "Avg"), ("lp", "LP"))},
    **{f"adaptive_{kind}_pool{rank}d": f"Adaptive{name}Pool{rank}D" for rank in (1, 2, 3)
       for kind, name in (("max", "Max"), ("avg", "Avg"))},
    **{f"max_unpool{rank}d": f"MaxUnPool{rank}D" for rank in (1, 2, 3)},
}  # fmt: skip
"""The function that each layer calls, with the layer's arguments behind the inputs."""
ORDERS = {
    "Unfold": ("kernel_sizes", "dilations", "paddings", "strides"),
    "Fold": ("output_sizes", "kernel_sizes", "dilations", "paddings", "strides"),
    "Dropout": ("p", "axis", "mode"), "Dropout2D": ("p", "data_format"),
    "Dropout3D": ("p", "data_format"), "CTCLoss": ("blank", "reduction"),
}  # fmt: skip
"""Arguments of layers with functions that take theirs in another order."""
_POOLING = {"kernel_size": None, "stride": None, "padding": 0}
KEPT: dict[str, dict[str, Value]] = {
    f"{kind}Pool{rank}D": _POOLING for kind in ("Max", "Avg") for rank in (1, 2, 3)
}
"""Arguments of layers that are attributes too, in their order, each with its default."""
_ADAPTIVE = {"AdaptiveAvgPool2D": "NCHW", "AdaptiveAvgPool3D": "NCDHW"}
"""Layers that keep their size in attributes of their own, and the order of axes that they have."""


def functional(run: Run, name: str, *args: Value, **kwargs: Value) -> Value:
    """Call a function of `paddle.nn.functional`."""
    space = run.interp.imports.library("paddle.nn.functional")
    return run.interp.call(run.interp.get_attr(space, name), list(args), kwargs)


class Called(Layer):
    """A layer that calls a function of `paddle.nn.functional`."""

    label = "function layer"
    function: ClassVar[str] = ""
    switched: ClassVar[bool] = False
    """Whether the layer's training mode is passed to the function."""

    def init(self, run: Run, *args: Value, **kwargs: Value) -> None:
        """Keep the arguments."""
        kwargs.pop("name", None)
        names = ORDERS.get(self.label)
        if names is not None:
            args, kwargs = (), {**dict(zip(names, args, strict=False)), **kwargs}
        self.args, self.kwargs = args, kwargs
        if self.label in _ADAPTIVE:
            size = args[0] if args else kwargs.get("output_size")
            order = kwargs.get("data_format", _ADAPTIVE[self.label])
            self.attrs.update(_output_size=size, _data_format=order, _name=None)
        names_kept = KEPT.get(self.label)
        if names_kept is not None:
            given = {**names_kept, **dict(zip(names_kept, args, strict=False)), **kwargs}
            self.attrs.update({name: given[name] for name in names_kept})
            if not self.label.endswith("1D"):
                self.attrs["ksize"] = self.attrs.pop("kernel_size")

    def uses(self, function: str) -> bool:
        """The function is called by its name, so that what replaces it is followed."""
        return False

    def forward(self, run: Run, *inputs: Value) -> Value:
        """Call the function with the inputs and the kept arguments."""
        more = {"training": self.training} if self.switched else {}
        return functional(run, self.function, *inputs, *self.args, **self.kwargs, **more)


class Padded(Called):
    """`nn.Pad1D` and the like: one number pads all sides."""

    function = "pad"

    def forward(self, run: Run, *inputs: Value) -> Value:
        """Pad."""
        zeros = self.label.startswith("Zero")
        names = ("padding", "data_format") if zeros else ("padding", "mode", "value", "data_format")
        given = {**dict(zip(names, self.args, strict=False)), **self.kwargs}
        padding = given.pop("padding")
        # The label ends with the number of axes and "D".
        sides = [padding] * (2 * int(self.label[-2])) if isinstance(padding, int) else padding
        return functional(run, "pad", inputs[0], sides, **given)


class Softmax2D(Called):
    """`nn.Softmax2D`: over the channels."""

    function = "softmax"

    def forward(self, run: Run, *inputs: Value) -> Value:
        """Normalise."""
        return functional(run, "softmax", *inputs, axis=-3)


class Upsampling(Called):
    """`nn.UpsamplingNearest2D` and `nn.UpsamplingBilinear2D`."""

    function = "interpolate"


class Flatten(Layer):
    """`nn.Flatten`."""

    label = "Flatten"

    def init(self, run: Run, start_axis: int = 1, stop_axis: int = -1) -> None:
        """Keep the axes."""
        self.axes = (start_axis, stop_axis)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Flatten."""
        return ops.flatten(run, x, *self.axes)


class Unflatten(Layer):
    """`nn.Unflatten`."""

    label = "Unflatten"

    def init(self, run: Run, axis: int, shape: Value, name: Value = None) -> None:
        """Keep the axis and what it is split into."""
        self.axis, self.split = axis, list(shape)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Split the axis."""
        axis = ops.check_axis(self.axis, len(x.shape))
        return ops.reshape(run, x, [*x.shape[:axis], *self.split, *x.shape[axis + 1 :]])


class Identity(Layer):
    """`nn.Identity`."""

    label = "Identity"

    def init(self, run: Run, *_: Value, **__: Value) -> None:
        """Take no notice of arguments."""

    def forward(self, run: Run, x: Tensor, *_: Value) -> Value:
        """Return the input."""
        return x


def _classes() -> Iterator[type[Layer]]:
    for function, name in BY_FUNCTION.items():
        yield type(name, (Called,), {"label": name, "function": function,
                                     "switched": function == "rrelu"})  # fmt: skip
    for name, function in (("Dropout", "dropout"), ("Dropout2D", "dropout2d"),
                           ("Dropout3D", "dropout3d"), ("AlphaDropout", "alpha_dropout"),
                           ("FeatureAlphaDropout", "feature_alpha_dropout")):  # fmt: skip
        yield type(name, (Called,), {"label": name, "function": function, "switched": True})
    for kind in ("", "Zero", "Constant", "Reflection", "Replication", "Circular"):
        for rank in (1, 2, 3):
            name = f"{kind}Pad{rank}D"
            yield type(name, (Padded,), {"label": name})
    for name in ("UpsamplingNearest2D", "UpsamplingBilinear2D"):
        yield type(name, (Upsampling,), {"label": name})
    yield from (Flatten, Unflatten, Identity)


def layer_classes() -> dict[str, NativeClass]:
    """Return the layers by name."""
    return {
        **{cls.label: NativeClass(cls, cls.label) for cls in _classes()},
        "Softmax2D": NativeClass(Softmax2D, "Softmax2D"),
    }
