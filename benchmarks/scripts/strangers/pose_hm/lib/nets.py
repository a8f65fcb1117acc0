import paddle.nn as nn

from .registry import MODELS


class Bottleneck(nn.Layer):
    expansion = 2

    def __init__(self, cin, c, stride=1):
        super().__init__()
        cout = c * self.expansion
        self.branch = nn.Sequential(
            nn.Conv2D(cin, c, 1, bias_attr=False), nn.BatchNorm2D(c), nn.ReLU(),
            nn.Conv2D(c, c, 3, stride, 1, bias_attr=False), nn.BatchNorm2D(c), nn.ReLU(),
            nn.Conv2D(c, cout, 1, bias_attr=False), nn.BatchNorm2D(cout))
        self.short = nn.Identity() if stride == 1 and cin == cout else nn.Sequential(
            nn.Conv2D(cin, cout, 1, stride, bias_attr=False), nn.BatchNorm2D(cout))
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.branch(x) + self.short(x))


@MODELS("simple_baseline")
class SimpleBaseline(nn.Layer):
    def __init__(self, num_joints, BASE, BLOCKS, DECONV):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, BASE, 7, 2, 3, bias_attr=False), nn.BatchNorm2D(BASE),
                                  nn.ReLU(), nn.MaxPool2D(3, 2, 1))
        c, layers = BASE, []
        for si, n in enumerate(BLOCKS):
            w = BASE * 2 ** si
            for bi in range(n):
                layers.append(Bottleneck(c, w, 2 if bi == 0 and si > 0 else 1))
                c = w * Bottleneck.expansion
        self.body = nn.Sequential(*layers)
        up = []
        # as many upsamplings as needed to go back to stride 4
        for k in range(len(BLOCKS) - 1):
            w = DECONV[min(k, len(DECONV) - 1)]
            up += [nn.Conv2DTranspose(c, w, 4, 2, 1, bias_attr=False), nn.BatchNorm2D(w), nn.ReLU()]
            c = w
        self.up = nn.Sequential(*up)
        self.final = nn.Conv2D(c, num_joints, 1)

    def forward(self, x):
        return self.final(self.up(self.body(self.stem(x))))
