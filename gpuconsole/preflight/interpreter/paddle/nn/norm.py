"""Layers that normalise."""

from __future__ import annotations

from math import prod

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops import kernels
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor, as_shape

_OLDER = ("is_test", "momentum", "epsilon", "param_attr", "bias_attr", "dtype", "data_layout")
"""What `nn.BatchNorm` takes after its activation."""


class Normed(Layer):
    """What the layers that normalise over the batch share."""

    act: Value = None

    def init(self, run: Run, num_features: int, *_: Value, weight_attr: Value = None,
             bias_attr: Value = None, data_format: str = "NCHW", **__: Value) -> None:  # fmt: skip
        """Make scale, shift and the running statistics."""
        self.attrs["_num_features"] = num_features
        self.make(run, num_features, weight_attr, bias_attr, data_format)

    def make(self, run: Run, num_features: int, weight_attr: Value, bias_attr: Value,
             data_format: str) -> None:  # fmt: skip
        """Make them, whatever the arguments are called."""
        self.channels = num_features
        self.last = data_format in ("NHWC", "NLC", "NDHWC")
        self.weight(run, "weight", (num_features,), weight_attr)
        self.weight(run, "bias", (num_features,), bias_attr)
        for name in ("_mean", "_variance"):
            self.attrs[name] = statistic = run.parameter((num_features,), trainable=False)
            statistic.name = run.unique(f"{self.do_full_name(run)}.w")

    def forward(self, run: Run, x: Tensor) -> Value:
        """Normalise."""
        out = kernels.batch_norm(
            run, x, self.tensor("weight"), self.tensor("bias"), self.channels,
            channels_last=self.last,
        )  # fmt: skip
        return ops.unary(run, self.act, out) if isinstance(self.act, str) else out


class BatchNorm(Normed):
    """`nn.BatchNorm`: the older class, with names of its own."""

    label = "BatchNorm"

    def init(self, run: Run, num_channels: int, act: Value = None,  # type: ignore[override]
             *rest: Value,
             **given: Value) -> None:  # fmt: skip
        """Make scale, shift and the running statistics."""
        given = dict(zip(_OLDER, rest, strict=False)) | given
        self.act = act
        layout = given.get("data_layout", "NCHW")
        self.make(run, num_channels, given.get("param_attr"), given.get("bias_attr"), layout)


class BatchNorm1D(Normed):
    """`nn.BatchNorm1D`."""

    label = "BatchNorm1D"


class BatchNorm2D(Normed):
    """`nn.BatchNorm2D`."""

    label = "BatchNorm2D"


class BatchNorm3D(Normed):
    """`nn.BatchNorm3D`."""

    label = "BatchNorm3D"


class SyncBatchNorm(Normed):
    """`nn.SyncBatchNorm`."""

    label = "BatchNorm"

    @staticmethod
    @exposed.static("convert_sync_batchnorm")
    def static_convert_sync_batchnorm(run: Run, layer: Value) -> Value:
        """Exchange figures between cards: the sizes stay."""
        run.findings.flags.add("distributed")
        return layer


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
        given = [
            tensor for tensor in (self.tensor("weight"), self.tensor("bias")) if tensor is not None
        ]
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
        data_format: Value = "NCHW",
        *_: Value,
        **__: Value,
    ) -> None:
        """Make scale and shift per channel."""
        self.groups, self.channels = num_groups, num_channels
        self.axis = -1 if data_format in ("NLC", "NHWC", "NDHWC") else 1
        self.weight(run, "weight", (num_channels,), weight_attr)
        self.weight(run, "bias", (num_channels,), bias_attr)

    def forward(self, run: Run, x: Tensor) -> Value:
        """Normalise over groups of channels."""
        actual = x.shape[self.axis]
        if actual != self.channels:
            raise ShapeFault(
                f"GroupNorm expects {self.channels} channels, {actual} arrive", x.shape
            )
        given = [
            tensor for tensor in (self.tensor("weight"), self.tensor("bias")) if tensor is not None
        ]
        return kernels.norm(run, "group_norm", x, given, x.shape[0] * self.groups)


class InstanceNorm(Layer):
    """What `nn.InstanceNorm1D`, `2D` and `3D` share."""

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
        given = [
            tensor for tensor in (self.tensor("scale"), self.tensor("bias")) if tensor is not None
        ]
        return kernels.norm(run, "instance_norm", x, given, x.shape[0] * x.shape[1])


class InstanceNorm1D(InstanceNorm):
    """`nn.InstanceNorm1D`."""

    label = "InstanceNorm1D"


class InstanceNorm2D(InstanceNorm):
    """`nn.InstanceNorm2D`."""

    label = "InstanceNorm2D"


class InstanceNorm3D(InstanceNorm):
    """`nn.InstanceNorm3D`."""

    label = "InstanceNorm3D"


class SpectralNorm(Layer):
    """`nn.SpectralNorm`: a weight divided by its largest singular value."""

    label = "SpectralNorm"

    def init(self, run: Run, weight_shape: Value, dim: int = 0, power_iters: Value = 1,
             *_: Value, **__: Value) -> None:  # fmt: skip
        """Make the two vectors, which are not trained."""
        shape = as_shape(weight_shape)
        self.weight(run, "weight_u", (shape[dim],))
        self.weight(run, "weight_v", (prod(shape) // shape[dim],))
        for attr in self.attrs.values():
            attr.stop_gradient = True

    def forward(self, run: Run, x: Tensor) -> Value:
        """Normalise; the kernels work on copies of the weight as a matrix."""
        vectors = sum(attr.nbytes for attr in self.attrs.values())
        return ops.apply(run, "scale", (x,), x.shape, temp=2 * x.nbytes + vectors,
                         work=5 * x.nbytes + vectors, flops=4.0 * x.size)  # fmt: skip
