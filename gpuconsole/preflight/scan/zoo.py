"""`paddle.vision.models`, built of the same layers as a script's own nets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuconsole.preflight.scan import functional, kernels, ops
from gpuconsole.preflight.scan.layers import Layer, Sequential
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import Native, NativeClass, NativeFunction, Value
from gpuconsole.preflight.scan.weighted import BatchNorm, Conv, Linear

_LAYERS = functional.layer_classes()


def simple(run: Run, name: str, *args: Value) -> Layer:
    """Return a parameterless layer of `paddle.nn`."""
    made = _LAYERS[name].type()
    made.init(run, *args)
    assert isinstance(made, Layer)
    return made


def conv(run: Run, cin: int, cout: int, kernel: int, stride: int = 1, padding: int = 0,
         groups: int = 1, bias: bool = False) -> Conv:  # fmt: skip
    """Return a convolution."""
    made = Conv()
    made.init(
        run, cin, cout, kernel, stride, padding, groups=groups, bias_attr=None if bias else False
    )
    return made


def norm(run: Run, channels: int) -> BatchNorm:
    """Return a batch norm."""
    made = BatchNorm()
    made.init(run, channels)
    return made


def linear(run: Run, fan_in: int, fan_out: int) -> Linear:
    """Return a linear layer."""
    made = Linear()
    made.init(run, fan_in, fan_out)
    return made


def chain(run: Run, *layers: Layer | None) -> Sequential:
    """Return the layers in order, leaving out what is None."""
    made = Sequential()
    made.init(run, *(one for one in layers if one is not None))
    return made


def conv_norm(run: Run, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1,
              act: str = "ReLU") -> Sequential:  # fmt: skip
    """Return convolution, norm and activation ("" for none)."""
    return chain(run, conv(run, cin, cout, kernel, stride, (kernel - 1) // 2, groups),
                 norm(run, cout), simple(run, act) if act else None)  # fmt: skip


class Residual(Layer):
    """body(x) + shortcut(x), then an activation if there is one."""

    label = "Residual"

    def build(self, body: Layer, shortcut: Layer | None, act: str = "") -> Residual:
        """Keep the parts."""
        self.attrs["body"] = body
        self.attrs["shortcut"] = shortcut
        self.act = act
        return self

    def call(self, calls: Any, *args: Value, **kwargs: Value) -> Value:
        """Add."""
        (x,) = args
        out = calls.call(self.attrs["body"], [x], {})
        side = x if self.attrs["shortcut"] is None else calls.call(self.attrs["shortcut"], [x], {})
        out = ops.binary(calls.run, "add", out, side)
        return ops.unary(calls.run, self.act, out) if self.act else out


class SqueezeExcite(Layer):
    """Scale channels by a small net over their means."""

    label = "SqueezeExcitation"

    def build(self, run: Run, channels: int, squeezed: int) -> SqueezeExcite:
        """Make the two 1x1 convolutions."""
        self.attrs["fc1"] = conv(run, channels, squeezed, 1, bias=True)
        self.attrs["fc2"] = conv(run, squeezed, channels, 1, bias=True)
        return self

    def forward(self, run: Run, x: Value) -> Value:
        """Scale."""
        scale = kernels.adaptive_pool(run, "avg_pool", x, 1, 2)
        scale = ops.unary(run, "relu", self.attrs["fc1"].forward(run, scale))
        scale = ops.unary(run, "hardsigmoid", self.attrs["fc2"].forward(run, scale))
        return ops.binary(run, "multiply", scale, x)


def head(
    run: Run, with_pool: Value, num_classes: int, *classifier: Layer | None
) -> list[Layer | None]:
    """Return pooling, flatten and classifier as the options say."""
    return [
        simple(run, "AdaptiveAvgPool2D", 1) if with_pool is not False else None,
        simple(run, "Flatten", 1) if num_classes > 0 else None,
        *(classifier if num_classes > 0 else ()),
    ]


def resnet(depth: int, *, width: int = 64, groups: int = 1) -> Callable[..., Layer]:
    """Return the maker of a ResNet, wide ResNet or ResNeXt."""
    counts = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3),
              152: (3, 8, 36, 3)}[depth]  # fmt: skip
    deep = depth >= 50

    def block(run: Run, cin: int, planes: int, stride: int) -> tuple[Residual, int]:
        cout = planes * 4 if deep else planes
        if deep:
            inner = int(planes * width / 64) * groups
            body = chain(
                run,
                *_parts(run, cin, inner, 1),
                *_parts(run, inner, inner, 3, stride, groups),
                *_parts(run, inner, cout, 1, act=False),
            )
        else:
            body = chain(run, *_parts(run, cin, planes, 3, stride),
                         *_parts(run, planes, planes, 3, act=False))  # fmt: skip
        side = conv_norm(run, cin, cout, 1, stride, act="") if stride > 1 or cin != cout else None
        return Residual().build(body, side, "relu"), cout

    def build(run: Run, pretrained: Value = False, num_classes: int = 1000, with_pool: Value = True,
              **_: Value) -> Layer:  # fmt: skip
        stages: list[Layer | None] = [conv(run, 3, 64, 7, 2, 3), norm(run, 64), simple(run, "ReLU"),
                                      simple(run, "MaxPool2D", 3, 2, 1)]  # fmt: skip
        cin = 64
        for stage, count in enumerate(counts):
            blocks: list[Layer | None] = []
            for place in range(count):
                one, cin = block(run, cin, 64 << stage, 2 if stage and not place else 1)
                blocks.append(one)
            stages.append(chain(run, *blocks))
        last = linear(run, cin, num_classes) if num_classes > 0 else None
        return chain(run, *stages, *head(run, with_pool, num_classes, last))

    return build


def _parts(run: Run, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1,
           act: bool = True) -> list[Layer | None]:  # fmt: skip
    return [conv(run, cin, cout, kernel, stride, (kernel - 1) // 2, groups), norm(run, cout),
            simple(run, "ReLU") if act else None]  # fmt: skip


VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(depth: int) -> Callable[..., Layer]:
    """Return the maker of a VGG."""

    def build(run: Run, pretrained: Value = False, batch_norm: Value = False,
              num_classes: int = 1000, with_pool: Value = True, **_: Value) -> Layer:  # fmt: skip
        parts: list[Layer | None] = []
        cin = 3
        for stage, count in enumerate(VGG[depth]):
            cout = min(512, 64 << stage)
            for _place in range(count):
                parts += [
                    conv(run, cin, cout, 3, 1, 1, bias=True),
                    norm(run, cout) if batch_norm is True else None,
                    simple(run, "ReLU"),
                ]
                cin = cout
            parts.append(simple(run, "MaxPool2D", 2, 2))
        if with_pool is not False:
            parts.append(simple(run, "AdaptiveAvgPool2D", 7))
        if num_classes > 0:
            parts.append(simple(run, "Flatten", 1))
            parts += [linear(run, 512 * 49, 4096), simple(run, "ReLU"), simple(run, "Dropout"),
                      linear(run, 4096, 4096), simple(run, "ReLU"), simple(run, "Dropout"),
                      linear(run, 4096, num_classes)]  # fmt: skip
        return chain(run, *parts)

    return build


def lenet(run: Run, num_classes: int = 10) -> Layer:
    """`LeNet` for 28x28 pictures."""
    return chain(
        run,
        conv(run, 1, 6, 3, 1, 1, bias=True),
        simple(run, "ReLU"),
        simple(run, "MaxPool2D", 2, 2),
        conv(run, 6, 16, 5, bias=True),
        simple(run, "ReLU"),
        simple(run, "MaxPool2D", 2, 2),
        simple(run, "Flatten", 1),
        linear(run, 400, 120),
        linear(run, 120, 84),
        linear(run, 84, num_classes),
    )


def alexnet(run: Run, pretrained: Value = False, num_classes: int = 1000, **_: Value) -> Layer:
    """`alexnet`."""
    parts: list[Layer | None] = []
    shapes = ((3, 64, 11, 4, 2, True), (64, 192, 5, 1, 2, True), (192, 384, 3, 1, 1, False),
              (384, 256, 3, 1, 1, False), (256, 256, 3, 1, 1, True))  # fmt: skip
    for cin, cout, kernel, stride, padding, pooled in shapes:
        parts += [conv(run, cin, cout, kernel, stride, padding, bias=True), simple(run, "ReLU"),
                  simple(run, "MaxPool2D", 3, 2) if pooled else None]  # fmt: skip
    parts += [simple(run, "Flatten", 1), simple(run, "Dropout"), linear(run, 9216, 4096),
              simple(run, "ReLU"), simple(run, "Dropout"), linear(run, 4096, 4096),
              simple(run, "ReLU"), linear(run, 4096, num_classes)]  # fmt: skip
    return chain(run, *parts)


def divisible(value: float, divisor: int = 8) -> int:
    """Round to a multiple of `divisor` without losing more than a tenth."""
    made = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return made + divisor if made < 0.9 * value else made


def mobilenet_v1(run: Run, pretrained: Value = False, scale: float = 1.0, num_classes: int = 1000,
                 with_pool: Value = True, **_: Value) -> Layer:  # fmt: skip
    """`mobilenet_v1`: depthwise and pointwise convolutions."""
    cin = int(32 * scale)
    parts: list[Layer | None] = [conv_norm(run, 3, cin, 3, 2)]
    for base, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
                         *[(512, 1)] * 5, (1024, 2), (1024, 1)):  # fmt: skip
        cout = int(base * scale)
        parts += [conv_norm(run, cin, cin, 3, stride, cin), conv_norm(run, cin, cout, 1)]
        cin = cout
    last = linear(run, cin, num_classes) if num_classes > 0 else None
    return chain(run, *parts, *head(run, with_pool, num_classes, last))


def mobilenet_v2(run: Run, pretrained: Value = False, scale: float = 1.0, num_classes: int = 1000,
                 with_pool: Value = True, **_: Value) -> Layer:  # fmt: skip
    """`mobilenet_v2`: inverted residuals."""
    cin = divisible(32 * scale)
    parts: list[Layer | None] = [conv_norm(run, 3, cin, 3, 2, act="ReLU6")]
    for grow, base, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                     (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):  # fmt: skip
        cout = divisible(base * scale)
        for place in range(count):
            stride = first if not place else 1
            inner = cin * grow
            body = chain(
                run, conv_norm(run, cin, inner, 1, act="ReLU6") if grow != 1 else None,
                conv_norm(run, inner, inner, 3, stride, inner, "ReLU6"),
                conv(run, inner, cout, 1), norm(run, cout),
            )  # fmt: skip
            parts.append(Residual().build(body, None) if stride == 1 and cin == cout else body)
            cin = cout
    last = divisible(1280 * max(1.0, scale))
    parts = [chain(run, *parts, conv_norm(run, cin, last, 1, act="ReLU6"))]
    classifier = ([simple(run, "Dropout", 0.2), linear(run, last, num_classes)]
                  if num_classes > 0 else [])  # fmt: skip
    return chain(run, *parts, *head(run, with_pool, num_classes, *classifier))


V3_LARGE = (
    (3, 16, 16, False, "ReLU", 1), (3, 64, 24, False, "ReLU", 2), (3, 72, 24, False, "ReLU", 1),
    (5, 72, 40, True, "ReLU", 2), (5, 120, 40, True, "ReLU", 1), (5, 120, 40, True, "ReLU", 1),
    (3, 240, 80, False, "Hardswish", 2), (3, 200, 80, False, "Hardswish", 1),
    (3, 184, 80, False, "Hardswish", 1), (3, 184, 80, False, "Hardswish", 1),
    (3, 480, 112, True, "Hardswish", 1), (3, 672, 112, True, "Hardswish", 1),
    (5, 672, 160, True, "Hardswish", 2), (5, 960, 160, True, "Hardswish", 1),
    (5, 960, 160, True, "Hardswish", 1),
)  # fmt: skip
V3_SMALL = (
    (3, 16, 16, True, "ReLU", 2), (3, 72, 24, False, "ReLU", 2), (3, 88, 24, False, "ReLU", 1),
    (5, 96, 40, True, "Hardswish", 2), (5, 240, 40, True, "Hardswish", 1),
    (5, 240, 40, True, "Hardswish", 1), (5, 120, 48, True, "Hardswish", 1),
    (5, 144, 48, True, "Hardswish", 1), (5, 288, 96, True, "Hardswish", 2),
    (5, 576, 96, True, "Hardswish", 1), (5, 576, 96, True, "Hardswish", 1),
)  # fmt: skip
Row = tuple[int, int, int, bool, str, int]


def mobilenet_v3(rows: Sequence[Row], last: int) -> Callable[..., Layer]:
    """Return the maker of a MobileNetV3: kernel, expansion, output, squeeze, activation, stride."""

    def build(run: Run, pretrained: Value = False, scale: float = 1.0, num_classes: int = 1000,
              with_pool: Value = True, **_: Value) -> Layer:  # fmt: skip
        cin = divisible(16 * scale)
        first = conv_norm(run, 3, cin, 3, 2, act="Hardswish")
        parts: list[Layer | None] = []
        for kernel, grown, base, squeeze, act, stride in rows:
            inner, cout = divisible(grown * scale), divisible(base * scale)
            body = chain(
                run, conv_norm(run, cin, inner, 1, act=act) if inner != cin else None,
                conv_norm(run, inner, inner, kernel, stride, inner, act),
                SqueezeExcite().build(run, inner, divisible(inner // 4)) if squeeze else None,
                conv_norm(run, inner, cout, 1, act=""),
            )  # fmt: skip
            parts.append(Residual().build(body, None) if stride == 1 and cin == cout else body)
            cin = cout
        wide = cin * 6
        # Nested as Paddle nests them: a container holds its input until it is done.
        parts = [first, chain(run, *parts), conv_norm(run, cin, wide, 1, act="Hardswish")]
        classifier = (
            [
                linear(run, wide, last),
                simple(run, "Hardswish"),
                simple(run, "Dropout", 0.2),
                linear(run, last, num_classes),
            ]
            if num_classes > 0
            else []
        )
        return chain(run, *parts, *head(run, with_pool, num_classes, *classifier))

    return build


class LeNet(Sequential):
    """`LeNet` as a class."""

    label = "LeNet"

    def init(self, run: Run, num_classes: Value = 10, *_: Value, **__: Value) -> None:
        """Build."""
        self.attrs.update(lenet(run, num_classes).attrs)


def names() -> dict[str, Value]:
    """Return `paddle.vision.models`."""
    makers: dict[str, Callable[..., Layer]] = {
        **{f"resnet{depth}": resnet(depth) for depth in (18, 34, 50, 101, 152)},
        "wide_resnet50_2": resnet(50, width=128), "wide_resnet101_2": resnet(101, width=128),
        "resnext50_32x4d": resnet(50, width=4, groups=32),
        "resnext101_32x4d": resnet(101, width=4, groups=32),
        **{f"vgg{depth}": vgg(depth) for depth in VGG}, "alexnet": alexnet,
        "mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2,
        "mobilenet_v3_large": mobilenet_v3(V3_LARGE, 1280),
        "mobilenet_v3_small": mobilenet_v3(V3_SMALL, 1024),
    }  # fmt: skip
    found: dict[str, Value] = {name: NativeFunction(make, name) for name, make in makers.items()}
    found["LeNet"] = NativeClass(LeNet, "LeNet")
    found["__dict__"] = dict(found)
    return found


__all__ = ["Native", "names"]
