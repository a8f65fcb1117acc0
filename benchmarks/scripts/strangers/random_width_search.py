"""Random architecture search: every run draws its own MLP-mixer width/depth from the OS entropy pool."""
import argparse
import os

import numpy as np
import paddle
import paddle.nn as nn

ap = argparse.ArgumentParser()
ap.add_argument("--bs", type=int, default=64)
ap.add_argument("--patches", type=int, default=49)
ap.add_argument("--steps", type=int, default=8)
opt = ap.parse_args()

# no seed on purpose: each trial should look at another point of the space
rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
space = {"dim": [64, 96, 128, 192], "depth": [2, 3, 4], "expand": [1, 2, 3, 4]}
trial = {k: int(rng.choice(v)) for k, v in space.items()}


class MixerBlock(nn.Layer):
    def __init__(self, tokens, dim, expand):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(nn.Linear(tokens, tokens * expand), nn.GELU(), nn.Linear(tokens * expand, tokens))
        self.chan = nn.Sequential(nn.Linear(dim, dim * expand), nn.GELU(), nn.Linear(dim * expand, dim))

    def forward(self, x):
        x = x + self.token(self.n1(x).transpose([0, 2, 1])).transpose([0, 2, 1])
        return x + self.chan(self.n2(x))


class Mixer(nn.Layer):
    def __init__(self, tokens, dim, depth, expand, classes=10):
        super().__init__()
        self.proj = nn.Linear(48, dim)
        self.blocks = nn.Sequential(*[MixerBlock(tokens, dim, expand) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.blocks(self.proj(x)).mean(axis=1))


class Patches(paddle.io.Dataset):
    def __init__(self, n):
        self.x = np.random.RandomState(0).randn(n, opt.patches, 48).astype("float32")
        self.y = np.random.RandomState(1).randint(0, 10, n).astype("int64")

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def __len__(self):
        return len(self.y)


print("trial", trial)
net = Mixer(opt.patches, **trial)
loader = paddle.io.DataLoader(Patches(opt.bs * opt.steps), batch_size=opt.bs, shuffle=True, drop_last=True)
adam = paddle.optimizer.Adam(1e-3, parameters=net.parameters())
loss_fn = nn.CrossEntropyLoss()
for i, (x, y) in enumerate(loader):
    loss = loss_fn(net(x), y)
    loss.backward()
    adam.step()
    adam.clear_grad()
    print(i, float(loss))
