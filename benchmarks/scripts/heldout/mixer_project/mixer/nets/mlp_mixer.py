import numpy as np
import paddle.nn as nn

from ..registry import register
from .blocks import MixerBlock


@register("mixer")
class MlpMixer(nn.Layer):
    def __init__(self, image_size, num_classes, patch_size, dim, depth, drop_path=0.0, **mlp):
        super().__init__()
        tokens = (image_size // patch_size) ** 2
        self.patch = nn.Conv2D(3, dim, patch_size, stride=patch_size)
        rates = np.linspace(0, drop_path, depth)
        self.blocks = nn.Sequential(
            *(MixerBlock(tokens, dim, drop_path=float(r), **mlp) for r in rates)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear):
            nn.initializer.TruncatedNormal(std=0.02)(m.weight)
            if m.bias is not None:
                nn.initializer.Constant(0.0)(m.bias)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose([0, 2, 1])
        return self.head(self.norm(self.blocks(x)).mean(1))
