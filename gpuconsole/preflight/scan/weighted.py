"""Layers of `paddle.nn` that own parameters."""

from __future__ import annotations

from math import prod

from gpuconsole.preflight.scan import kernels, ops
from gpuconsole.preflight.scan.layers import Layer
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.tensors import Tensor, as_shape
from gpuconsole.preflight.scan.values import (
    ShapeFault,
    Value,
)


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


class Conv(Layer):
    """`nn.Conv1D`, `Conv2D`, `Conv3D`."""

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
        self.geometry = {"stride": stride, "padding": padding, "dilation": dilation,
                         "groups": groups, "data_format": data_format or "NCHW"}  # fmt: skip

    def forward(self, run: Run, x: Tensor) -> Value:
        """Convolve."""
        weight = self.tensor("weight")
        assert weight is not None
        return kernels.conv(run, x, weight, self.tensor("bias"), **self.geometry)

    def recover(self, run: Run, *args: Value) -> Value:
        """Channels-last data: go on as if they came channels-first."""
        weight, x = self.tensor("weight"), args[0]
        if weight is None or not isinstance(x, Tensor) or len(x.shape) != len(weight.shape):
            return super().recover(run, *args)
        channels = weight.shape[1] * int(self.geometry["groups"])
        extents = x.shape[1:-1] if x.shape[-1] == channels else x.shape[2:]
        meant = run.tensor((x.shape[0], channels, *extents))
        meant.stop_gradient = x.stop_gradient
        return self.forward(run, meant)


class Conv1D(Conv):
    """`nn.Conv1D`."""

    rank = 1


class Conv3D(Conv):
    """`nn.Conv3D`."""

    rank = 3


class ConvTranspose(Layer):
    """`nn.Conv1DTranspose`, `Conv2DTranspose`, `Conv3DTranspose`."""

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
        self.geometry = {"stride": stride, "padding": padding, "output_padding": output_padding,
                         "dilation": dilation, "groups": groups}  # fmt: skip

    def forward(self, run: Run, x: Tensor, output_size: Value = None) -> Value:
        """Convolve backwards."""
        weight = self.tensor("weight")
        assert weight is not None
        return kernels.conv_transpose(
            run, x, weight, self.tensor("bias"), output_size=output_size, **self.geometry
        )


class Conv1DTranspose(ConvTranspose):
    """`nn.Conv1DTranspose`."""

    rank = 1


class BatchNorm(Layer):
    """`nn.BatchNorm1D/2D/3D`, `nn.BatchNorm`, `nn.SyncBatchNorm`."""

    label = "BatchNorm"

    def init(self, run: Run, num_features: int, *_: Value, weight_attr: Value = None,
             bias_attr: Value = None, data_format: str = "NCHW", act: Value = None,
             **__: Value) -> None:  # fmt: skip
        """Make scale, shift and the running statistics."""
        self.channels = num_features
        self.last = data_format in ("NHWC", "NLC", "NDHWC")
        self.act = act
        self.weight(run, "weight", (num_features,), weight_attr)
        self.weight(run, "bias", (num_features,), bias_attr)
        self.attrs["_mean"] = run.parameter((num_features,), trainable=False)
        self.attrs["_variance"] = run.parameter((num_features,), trainable=False)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Normalise."""
        out = kernels.batch_norm(
            run, x, self.tensor("weight"), self.tensor("bias"), self.channels,
            channels_last=self.last,
        )  # fmt: skip
        return ops.unary(run, self.act, out) if isinstance(self.act, str) else out


class LayerNorm(Layer):
    """`nn.LayerNorm`."""

    label = "LayerNorm"

    def init(
        self,
        run: Run,
        normalized_shape: Value,
        epsilon: Value = 1e-5,
        weight_attr: Value = None,
        bias_attr: Value = None,
        name: Value = None,
    ) -> None:
        """Make scale and shift of the normalised shape, flattened."""
        self.shape = as_shape(normalized_shape)
        self.weight(run, "weight", self.shape, weight_attr)
        self.weight(run, "bias", self.shape, bias_attr)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Normalise over the last axes."""
        if x.shape[len(x.shape) - len(self.shape) :] != self.shape:
            raise ShapeFault(
                f"LayerNorm expects {list(self.shape)} at the end, {list(x.shape)} arrives",
                x.shape, self.shape,
            )  # fmt: skip
        given = [one for one in (self.tensor("weight"), self.tensor("bias")) if one is not None]
        return kernels.norm(run, "layer_norm", x, given, x.size // max(1, prod(self.shape)))


class GroupNorm(Layer):
    """`nn.GroupNorm`."""

    label = "GroupNorm"

    def init(
        self,
        run: Run,
        num_groups: int,
        num_channels: int,
        epsilon: Value = 1e-5,
        weight_attr: Value = None,
        bias_attr: Value = None,
        *_: Value,
        **__: Value,
    ) -> None:
        """Make scale and shift per channel."""
        self.groups, self.channels = num_groups, num_channels
        self.weight(run, "weight", (num_channels,), weight_attr)
        self.weight(run, "bias", (num_channels,), bias_attr)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Normalise over groups of channels."""
        if x.shape[1] != self.channels:
            raise ShapeFault(
                f"GroupNorm expects {self.channels} channels, {x.shape[1]} arrive", x.shape
            )
        given = [one for one in (self.tensor("weight"), self.tensor("bias")) if one is not None]
        return kernels.norm(run, "group_norm", x, given, x.shape[0] * self.groups)


class InstanceNorm(Layer):
    """`nn.InstanceNorm1D/2D/3D`."""

    label = "InstanceNorm"

    def init(
        self,
        run: Run,
        num_features: int,
        epsilon: Value = 1e-5,
        momentum: Value = 0.9,
        weight_attr: Value = None,
        bias_attr: Value = None,
        *_: Value,
        **__: Value,
    ) -> None:
        """Make scale and shift per channel."""
        self.weight(run, "scale", (num_features,), weight_attr)
        self.weight(run, "bias", (num_features,), bias_attr)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Normalise each channel of each sample."""
        given = [one for one in (self.tensor("scale"), self.tensor("bias")) if one is not None]
        return kernels.norm(run, "instance_norm", x, given, x.shape[0] * x.shape[1])


class Embedding(Layer):
    """`nn.Embedding`."""

    label = "Embedding"

    def init(self, run: Run, num_embeddings: int, embedding_dim: int, padding_idx: Value = None,
             sparse: Value = False, weight_attr: Value = None, name: Value = None,
             **_: Value) -> None:  # fmt: skip
        """Make the table."""
        self.weight(run, "weight", (num_embeddings, embedding_dim), weight_attr)

    def forward(self, run: Run, ids: Tensor) -> Value:
        """Look up."""
        weight = self.tensor("weight")
        assert weight is not None
        return kernels.embedding(run, ids, weight)


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
