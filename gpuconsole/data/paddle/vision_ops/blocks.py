"""Blocks of `paddle.vision.ops`."""

from paddle import nn


class ConvNormActivation(nn.Sequential):
    """Convolution, then norm and activation where there are such."""

    def __init__(self, in_channels, out_channels, kernel_size=3, stride=1, padding=None,
                 groups=1, norm_layer=nn.BatchNorm2D, activation_layer=nn.ReLU, dilation=1,
                 bias=None):  # fmt: skip
        if padding is None:
            padding = (kernel_size - 1) // 2 * dilation
        if bias is None:
            bias = norm_layer is None
        parts = [nn.Conv2D(in_channels, out_channels, kernel_size, stride, padding,
                           dilation=dilation, groups=groups,
                           bias_attr=None if bias else False)]  # fmt: skip
        if norm_layer is not None:
            parts.append(norm_layer(out_channels))
        if activation_layer is not None:
            parts.append(activation_layer())
        super().__init__(*parts)
