"""`paddle.nn.functional` and the layers of `paddle.nn` that own no parameters."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain.values import NativeClass, NativeFunction, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn import functional_kernels
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.source_functions import all_sourced, sourced
from gpuconsole.preflight.interpreter.paddle.tensor.inplace import changed
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

_INPLACE = ("relu", "elu", "tanh", "softmax", "leaky_relu", "hardtanh", "thresholded_relu")
FUNCTIONS: dict[str, Callable[..., Value]] = {
    **all_sourced("functional"), **functional_kernels.FUNCTIONS,
    **{f"{name}_": changed(name) for name in _INPLACE},
}  # fmt: skip
_LOSSES = {
    "MSELoss": "mse_loss", "L1Loss": "l1_loss", "SmoothL1Loss": "smooth_l1_loss",
    "BCELoss": "binary_cross_entropy", "KLDivLoss": "kl_div", "NLLLoss": "nll_loss",
    "CrossEntropyLoss": "cross_entropy", "MarginRankingLoss": "margin_ranking_loss",
    "HingeEmbeddingLoss": "hinge_embedding_loss", "SoftMarginLoss": "soft_margin_loss",
    "CosineEmbeddingLoss": "cosine_embedding_loss", "TripletMarginLoss": "triplet_margin_loss",
    "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
    "MultiMarginLoss": "multi_margin_loss", "PoissonNLLLoss": "poisson_nll_loss",
    "MultiLabelSoftMarginLoss": "multi_label_soft_margin_loss",
    "GaussianNLLLoss": "gaussian_nll_loss",
}  # fmt: skip
_SHAPERS = {
    "Upsample": "interpolate", "PixelShuffle": "pixel_shuffle", "Maxout": "maxout", "GLU": "glu",
    "PixelUnshuffle": "pixel_unshuffle", "ChannelShuffle": "channel_shuffle", "Fold": "fold",
    "Unfold": "unfold", "CosineSimilarity": "cosine_similarity", "RReLU": "rrelu",
    "PairwiseDistance": "pairwise_distance", "LocalResponseNorm": "local_response_norm",
    "MaxUnPool1D": "max_unpool1d", "MaxUnPool2D": "max_unpool2d", "MaxUnPool3D": "max_unpool3d",
    "LPPool2D": "lp_pool2d",
}  # fmt: skip


class Function(Layer):
    """A layer without parameters that calls a function of this module."""

    label = "function layer"
    function: Callable[..., Value]

    def init(self, run: Run, *args: Value, **kwargs: Value) -> None:
        """Keep the arguments."""
        self.args, self.kwargs = args, kwargs

    def forward(self, run: Run, *inputs: Value) -> Value:
        """Call the function with the inputs and the kept arguments."""
        return type(self).function(run, *inputs, *self.args, **self.kwargs)


class Dropout(Function):
    """`nn.Dropout` and its like: nothing is dropped while evaluating."""

    label = "Dropout"

    def forward(self, run: Run, *inputs: Value) -> Value:
        """Drop."""
        options = {**self.kwargs, "training": self.training}
        return type(self).function(run, *inputs, *self.args, **options)


class Flatten(Layer):
    """`nn.Flatten`."""

    label = "Flatten"

    def init(self, run: Run, start_axis: int = 1, stop_axis: int = -1) -> None:
        """Keep the axes."""
        self.axes = (start_axis, stop_axis)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Flatten."""
        return ops.flatten(run, x, *self.axes)


def function_layer(
    name: str, function: Callable[..., Value], base: type[Layer] = Function
) -> NativeClass:
    """Return a layer class that calls `function`."""
    layer_class = type(name, (base,), {"label": name, "function": staticmethod(function)})
    return NativeClass(layer_class, name)


def layer_classes() -> dict[str, NativeClass]:
    """Return the parameterless layers of `paddle.nn`."""
    interp = {layer: FUNCTIONS[name] for name, layer in functional_kernels.ACTIVATIONS.items()}
    interp.update({layer: FUNCTIONS[name] for layer, name in {**_LOSSES, **_SHAPERS}.items()})
    interp["BCEWithLogitsLoss"] = _bce_logits
    interp["CTCLoss"] = _ctc
    for rank in (1, 2, 3):
        for kind in ("Max", "Avg"):
            low = kind.lower()
            interp[f"{kind}Pool{rank}D"] = FUNCTIONS[f"{low}_pool{rank}d"]
            interp[f"Adaptive{kind}Pool{rank}D"] = FUNCTIONS[f"adaptive_{low}_pool{rank}d"]
        interp[f"Pad{rank}D"] = FUNCTIONS["pad"]
        interp[f"ZeroPad{rank}D"] = FUNCTIONS["pad"]
    classes = {name: function_layer(name, call) for name, call in interp.items()}
    dropouts = {"Dropout": "dropout", "Dropout2D": "dropout2d", "Dropout3D": "dropout3d",
                "AlphaDropout": "alpha_dropout"}  # fmt: skip
    for name, function in dropouts.items():
        classes[name] = function_layer(name, FUNCTIONS[function], Dropout)
    classes["Softmax2D"] = function_layer("Softmax2D", _softmax_2d)
    classes["UpsamplingNearest2D"] = function_layer("UpsamplingNearest2D", FUNCTIONS["interpolate"])
    classes["UpsamplingBilinear2D"] = function_layer("UpsamplingBilinear2D", _bilinear)
    classes["Flatten"] = NativeClass(Flatten, "Flatten")
    return classes


def _bce_logits(run: Run, logit: Value, label: Value, weight: Value = None,
                reduction: Value = "mean", pos_weight: Value = None,
                *_: Value) -> Value:  # fmt: skip
    call = sourced("functional", "binary_cross_entropy_with_logits")
    return call(run, logit, label, weight, reduction, pos_weight)


def _ctc(run: Run, logits: Value, labels: Value, input_lengths: Value, label_lengths: Value,
         *rest: Value, blank: Value = 0, reduction: Value = "mean",
         **_: Value) -> Value:  # fmt: skip
    # The layer's blank and reduction come after the four tensors, and `norm_by_times` last.
    blank = rest[0] if rest else blank
    reduction = rest[1] if len(rest) > 1 else reduction
    call = sourced("functional", "ctc_loss")
    return call(run, logits, labels, input_lengths, label_lengths, blank, reduction)


def _softmax_2d(run: Run, x: Tensor, *_: Value) -> Value:
    return ops.unary(run, "softmax", x)


def _bilinear(run: Run, x: Tensor, *args: Value, **kwargs: Value) -> Value:
    return FUNCTIONS["interpolate"](run, x, *args, **{**kwargs, "mode": "bilinear"})


def functions() -> dict[str, NativeFunction]:
    """Return `paddle.nn.functional`."""
    return {name: NativeFunction(call, name) for name, call in FUNCTIONS.items()}
