# x4 super resolution (EDSR-style residual body, pixel shuffle head), L1 loss.
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import IterableDataset, DataLoader

SCALE = 4
PATCH = 40          # low-resolution side
FEATS = 48
N_BLOCKS = 6
BATCH_SIZE = 8
TOTAL_STEPS = 1000


def default_conv(cin, cout, k, bias=True):
    return nn.Conv2D(cin, cout, k, padding=k // 2, bias_attr=None if bias else False)


class ResBlock(nn.Layer):
    def __init__(self, conv, n_feats, k, act=nn.ReLU(), res_scale=1.0):
        super(ResBlock, self).__init__()
        m = []
        for i in range(2):
            m.append(conv(n_feats, n_feats, k))
            if i == 0:
                m.append(act)
        self.body = nn.Sequential(*m)
        self.res_scale = res_scale

    def forward(self, x):
        res = self.body(x) * self.res_scale
        res += x
        return res


class ChannelAttention(nn.Layer):
    def __init__(self, ch, reduction=8):
        super().__init__()
        self.fc = nn.Sequential(
            nn.AdaptiveAvgPool2D(1),
            nn.Conv2D(ch, ch // reduction, 1),
            nn.ReLU(),
            nn.Conv2D(ch // reduction, ch, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return x * self.fc(x)


class Upsampler(nn.Sequential):
    def __init__(self, conv, scale, n_feats):
        m = []
        while scale > 1:
            m += [conv(n_feats, 4 * n_feats, 3), nn.PixelShuffle(2)]
            scale //= 2
        super().__init__(*m)


class Edsr(nn.Layer):
    def __init__(self, scale=SCALE, n_feats=FEATS, n_blocks=N_BLOCKS, conv=default_conv):
        super().__init__()
        self.register_buffer("rgb_mean", paddle.to_tensor([0.45, 0.44, 0.40]).reshape([1, 3, 1, 1]))
        self.head = conv(3, n_feats, 3)
        self.body = nn.Sequential(
            *[ResBlock(conv, n_feats, 3, res_scale=0.1) for _ in range(n_blocks)],
            ChannelAttention(n_feats),
            conv(n_feats, n_feats, 3),
        )
        self.tail = nn.Sequential(Upsampler(conv, scale, n_feats), conv(n_feats, 3, 3))

    def forward(self, x):
        x = x - self.rgb_mean
        x = self.head(x)
        res = self.body(x)
        res = res + x
        return self.tail(res) + self.rgb_mean


class Patches(IterableDataset):
    """Endless random crops; the low-resolution one is made by averaging."""

    def __init__(self, seed=3):
        self.seed = seed

    def __iter__(self):
        rng = np.random.RandomState(self.seed)
        hr_side = PATCH * SCALE
        while True:
            hr = rng.rand(3, hr_side, hr_side).astype("float32")
            lr = hr.reshape(3, PATCH, SCALE, PATCH, SCALE).mean(axis=(2, 4))
            yield lr, hr


def psnr(a, b):
    return -10.0 * paddle.log10(F.mse_loss(a, b)).item()


def train():
    net = Edsr()
    sched = paddle.optimizer.lr.CosineAnnealingDecay(2e-4, T_max=TOTAL_STEPS)
    opt = paddle.optimizer.Adam(learning_rate=sched, parameters=net.parameters(), beta2=0.99)
    loader = DataLoader(Patches(), batch_size=BATCH_SIZE)
    for it, (lr, hr) in enumerate(loader):
        if it >= TOTAL_STEPS:
            break
        sr = net(lr)
        loss = F.l1_loss(sr, hr)
        opt.clear_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it % 100 == 0:
            with paddle.no_grad():
                print(it, loss.item(), psnr(sr, hr))


train()
