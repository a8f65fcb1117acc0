"""Vessel segmentation in CT: small 3-D U-Net. The crop is drawn anew for every run (multi-scale training)."""
import random

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

BATCH_SIZE = 2
ITERS = 6
SCALE = random.choice([16, 24, 32, 40, 48])     # edge of the cubic crop, one per run
BASE = 8 * random.randint(1, 2)


class CTVolumes(Dataset):
    def __len__(self):
        return BATCH_SIZE * ITERS

    def __getitem__(self, i):
        v = np.random.randn(1, SCALE, SCALE, SCALE).astype("float32")
        return v, (v > 1.2).astype("float32")


def block(i, o):
    return nn.Sequential(nn.Conv3D(i, o, 3, padding=1), nn.InstanceNorm3D(o), nn.LeakyReLU(),
                         nn.Conv3D(o, o, 3, padding=1), nn.InstanceNorm3D(o), nn.LeakyReLU())


class UNet3D(nn.Layer):
    def __init__(self, b):
        super().__init__()
        self.d1, self.d2, self.d3 = block(1, b), block(b, 2 * b), block(2 * b, 4 * b)
        self.u2 = nn.Conv3DTranspose(4 * b, 2 * b, 2, 2)
        self.u1 = nn.Conv3DTranspose(2 * b, b, 2, 2)
        self.c2, self.c1 = block(4 * b, 2 * b), block(2 * b, b)
        self.out = nn.Conv3D(b, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool3d(a, 2))
        c = self.d3(F.max_pool3d(b, 2))
        y = self.c2(paddle.concat([self.u2(c), b], 1))
        y = self.c1(paddle.concat([self.u1(y), a], 1))
        return self.out(y)


def dice_loss(logit, y, eps=1.0):
    p = F.sigmoid(logit).flatten(1)
    y = y.flatten(1)
    return (1 - (2 * (p * y).sum(1) + eps) / (p.sum(1) + y.sum(1) + eps)).mean()


net = UNet3D(BASE)
opt = paddle.optimizer.AdamW(2e-4, parameters=net.parameters())
for i, (v, m) in enumerate(DataLoader(CTVolumes(), batch_size=BATCH_SIZE, drop_last=True)):
    out = net(v)
    loss = dice_loss(out, m) + F.binary_cross_entropy_with_logits(out, m)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(i, "crop", SCALE, "loss", float(loss))
