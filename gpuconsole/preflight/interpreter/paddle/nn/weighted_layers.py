"""Layers of `paddle.nn` that own parameters."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.functional_layers import functional
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops import kernels
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor


class Linear(Layer):
    """`nn.Linear`."""

    label = "Linear"

    def init(self, run: Run, in_features: int, out_features: int, weight_attr: Value = None,
             bias_attr: Value = None, name: Value = None) -> None:  # fmt: skip
        """Make weight [in, out] and bias [out]."""
        self.weight(run, "weight", (in_features, out_features), weight_attr)
        self.weight(run, "bias", (out_features,), bias_attr)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Multiply and add."""
        weight = self.tensor("weight")
        assert weight is not None
        return ops.linear(run, x, weight, self.tensor("bias"))

    def recover(self, run: Run, *args: Value) -> Value:
        """Go on with the features that were meant."""
        weight = self.tensor("weight")
        x = args[0]
        if weight is None or not isinstance(x, Tensor) or not x.shape:
            return super().recover(run, *args)
        meant = run.tensor((*x.shape[:-1], weight.shape[0]))
        meant.stop_gradient = False
        return self.forward(run, meant)


def _convolution(
    layer: Conv | ConvTranspose, in_channels: int, out_channels: int, kernel_size: Value,
    stride: Value, padding: Value, dilation: Value, groups: int,
) -> dict[str, Value]:  # fmt: skip
    """Return the attributes that Paddle's convolutions have, as scripts read and set them."""
    spread = {"_kernel_size": kernel_size, "_stride": stride, "_dilation": dilation}
    return {
        "_in_channels": in_channels, "_out_channels": out_channels, "_groups": groups,
        "_padding": padding,
        **{name: list(kernels.spread(value, layer.rank)) for name, value in spread.items()},
    }  # fmt: skip


def _geometry(layer: Conv | ConvTranspose) -> dict[str, Value]:
    """Return what a convolution reads of its attributes each time that it is called."""
    return {name: layer.attrs["_" + name] for name in ("stride", "dilation", "groups")}


class Conv(Layer):
    """What `nn.Conv1D`, `nn.Conv2D` and `nn.Conv3D` share."""

    label = "Conv"
    rank = 2

    def init(self, run: Run, in_channels: int, out_channels: int, kernel_size: Value,
             stride: Value = 1, padding: Value = 0, dilation: Value = 1, groups: int = 1,
             padding_mode: str = "zeros", weight_attr: Value = None, bias_attr: Value = None,
             data_format: str = "") -> None:  # fmt: skip
        """Make weight [out, in/groups, *kernel] and bias [out]."""
        if in_channels % groups or out_channels % groups:
            raise ShapeFault(
                f"{in_channels} input and {out_channels} output channels do not divide by "
                f"{groups} groups"
            )
        kernel = kernels.spread(kernel_size, self.rank)
        self.weight(run, "weight", (out_channels, in_channels // groups, *kernel), weight_attr)
        self.weight(run, "bias", (out_channels,), bias_attr)
        self.padded: list[int] = []
        if padding_mode != "zeros" and not isinstance(padding, str):
            self.padded = [side for padding_ in reversed(kernels.spread(padding, self.rank))
                           for side in (padding_, padding_)]  # fmt: skip
            padding = 0
        self.padding, self.data_format = padding, data_format or "NCHW"
        self.attrs.update(_convolution(self, in_channels, out_channels, kernel_size, stride,
                                       padding, dilation, groups))  # fmt: skip

    def forward(self, run: Run, x: Tensor) -> Value:
        """Pad where the padding is not zeros, then convolve."""
        if self.padded:
            x = functional(run, "pad", x, self.padded)
        weight = self.tensor("weight")
        assert weight is not None
        return kernels.conv(run, x, weight, self.tensor("bias"), padding=self.padding,
                            data_format=self.data_format, **_geometry(self))  # fmt: skip

    def recover(self, run: Run, *args: Value) -> Value:
        """Channels-last data: go on as if they came channels-first."""
        weight, x = self.tensor("weight"), args[0]
        if weight is None or not isinstance(x, Tensor) or len(x.shape) != len(weight.shape):
            return super().recover(run, *args)
        channels = weight.shape[1] * int(self.attrs["_groups"])
        extents = x.shape[1:-1] if x.shape[-1] == channels else x.shape[2:]
        meant = run.tensor((x.shape[0], channels, *extents))
        meant.stop_gradient = x.stop_gradient
        return self.forward(run, meant)


class Conv1D(Conv):
    """`nn.Conv1D`."""

    label = "Conv1D"
    rank = 1


class Conv2D(Conv):
    """`nn.Conv2D`."""

    label = "Conv2D"


class Conv3D(Conv):
    """`nn.Conv3D`."""

    label = "Conv3D"
    rank = 3


class ConvTranspose(Layer):
    """What `nn.Conv1DTranspose`, `nn.Conv2DTranspose` and `nn.Conv3DTranspose` share."""

    label = "ConvTranspose"
    rank = 2

    def init(self, run: Run, in_channels: int, out_channels: int, kernel_size: Value,
             stride: Value = 1, padding: Value = 0, output_padding: Value = 0, groups: int = 1,
             dilation: Value = 1, weight_attr: Value = None, bias_attr: Value = None,
             data_format: str = "") -> None:  # fmt: skip
        """Make weight [in, out/groups, *kernel] and bias [out]."""
        kernel = kernels.spread(kernel_size, self.rank)
        self.weight(run, "weight", (in_channels, out_channels // groups, *kernel), weight_attr)
        self.weight(run, "bias", (out_channels,), bias_attr)
        self.padding, self.output_padding = padding, output_padding
        self.data_format = data_format
        self.attrs.update(_convolution(self, in_channels, out_channels, kernel_size, stride,
                                       padding, dilation, groups))  # fmt: skip

    def forward(self, run: Run, x: Tensor, output_size: Value = None) -> Value:
        """Convolve backwards."""
        weight = self.tensor("weight")
        assert weight is not None
        return kernels.conv_transpose(
            run, x, weight, self.tensor("bias"), output_size=output_size, padding=self.padding,
            output_padding=self.output_padding, data_format=self.data_format, **_geometry(self),
        )  # fmt: skip


class Conv1DTranspose(ConvTranspose):
    """`nn.Conv1DTranspose`."""

    label = "Conv1DTranspose"
    rank = 1


class Conv2DTranspose(ConvTranspose):
    """`nn.Conv2DTranspose`."""

    label = "Conv2DTranspose"


class Conv3DTranspose(ConvTranspose):
    """`nn.Conv3DTranspose`."""

    label = "Conv3DTranspose"
    rank = 3


class Embedding(Layer):
    """`nn.Embedding`."""

    label = "Embedding"

    def init(self, run: Run, num_embeddings: int, embedding_dim: int, padding_idx: Value = None,
             sparse: Value = False, weight_attr: Value = None, name: Value = None,
             **_: Value) -> None:  # fmt: skip
        """Make the table."""
        self.sparse = sparse is True
        self.attrs.update(_num_embeddings=num_embeddings, _embedding_dim=embedding_dim,
                          _padding_idx=padding_idx)  # fmt: skip
        self.weight(run, "weight", (num_embeddings, embedding_dim), weight_attr)

    def forward(self, run: Run, ids: Tensor) -> Value:
        """Look up."""
        weight = self.tensor("weight")
        assert weight is not None
        return kernels.embedding(run, ids, weight, sparse=self.sparse)


class Bilinear(Layer):
    """`nn.Bilinear`: each output is a form of both inputs."""

    label = "Bilinear"

    def init(self, run: Run, in1_features: int, in2_features: int, out_features: int,
             weight_attr: Value = None, bias_attr: Value = None,
             name: Value = None) -> None:  # fmt: skip
        """Make weight [out, in1, in2] and bias [1, out]."""
        self.weight(run, "weight", (out_features, in1_features, in2_features), weight_attr)
        self.weight(run, "bias", (1, out_features), bias_attr)

    def forward(self, run: Run, x1: Tensor, x2: Tensor) -> Value:
        """Multiply; both kernels need room for one input's rows."""
        weight = self.tensor("weight")
        assert weight is not None
        out, left, right = weight.shape
        if x1.shape[-1] != left or x2.shape[-1] != right:
            raise ShapeFault(f"Bilinear expects {left} and {right} features", x1.shape, x2.shape)
        given = [x1, x2, weight, *(bias for bias in [self.tensor("bias")] if bias is not None)]
        rows = x1.shape[0]
        return ops.apply(run, "bilinear", given, (rows, out), temp=x2.nbytes,
                         work=x1.nbytes + x2.nbytes,
                         flops=2.0 * rows * weight.size)  # fmt: skip


class PReLU(Layer):
    """`nn.PReLU`."""

    label = "PReLU"

    def init(self, run: Run, num_parameters: int = 1, *_: Value, **__: Value) -> None:
        """Make the slopes."""
        self.weight(run, "weight", (num_parameters,))

    def forward(self, run: Run, x: Tensor) -> Value:
        """Activate."""
        weight = self.tensor("weight")
        assert weight is not None
        return ops.apply(run, "prelu", (x, weight), x.shape, flops=x.size)
