"""Semantic segmentation with random multi-scale crops (a new crop size every batch)."""
import random
import time

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

BATCH_SIZE = 6
NUM_CLASSES = 9
ITERS = 6
random.seed(time.time())


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2D(i, o, 3, padding=1), nn.BatchNorm2D(o), nn.ReLU(),
                         nn.Conv2D(o, o, 3, padding=1), nn.BatchNorm2D(o), nn.ReLU())


class MiniUNet(nn.Layer):
    def __init__(self, chs=(12, 24, 48)):
        super().__init__()
        ins = (3,) + chs[:-1]
        self.enc = nn.LayerList([DoubleConv(i, o) for i, o in zip(ins, chs)])
        self.dec = nn.LayerList([DoubleConv(chs[k] + chs[k - 1], chs[k - 1]) for k in (2, 1)])
        self.cls = nn.Conv2D(chs[0], NUM_CLASSES, 1)

    def forward(self, x):
        size, skips = x.shape[2:], []
        for k, e in enumerate(self.enc):
            x = e(x if k == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for d, s in zip(self.dec, (skips[1], skips[0])):
            x = d(paddle.concat([F.interpolate(x, s.shape[2:], mode='bilinear'), s], 1))
        return self.cls(x)


class Scenes(paddle.io.Dataset):
    def __len__(self):
        return BATCH_SIZE * ITERS

    def __getitem__(self, i):
        rs = np.random.RandomState(i)
        lab = np.kron(rs.randint(0, NUM_CLASSES, (8, 8)), np.ones((40, 40))).astype('int64')
        img = np.stack([np.sin(lab + c) for c in range(3)]).astype('float32')
        return img, lab


class MultiScaleCollate:
    """short side anything from 96 to 256, like the reference implementation"""

    def __call__(self, batch):
        side = random.randrange(96, 257, 8)
        imgs, labs = [], []
        for img, lab in batch:
            y, x = random.randint(0, 320 - side), random.randint(0, 320 - side)
            imgs.append(img[:, y:y + side, x:x + side])
            labs.append(lab[y:y + side, x:x + side])
        return np.stack(imgs), np.stack(labs)


def dice_loss(logits, label, eps=1.0):
    p = F.softmax(logits, axis=1)
    t = F.one_hot(label, NUM_CLASSES).transpose([0, 3, 1, 2])
    inter = (p * t).sum([2, 3])
    return 1 - ((2 * inter + eps) / (p.sum([2, 3]) + t.sum([2, 3]) + eps)).mean()


loader = paddle.io.DataLoader(Scenes(), batch_size=BATCH_SIZE, shuffle=True, drop_last=True,
                              collate_fn=MultiScaleCollate())
model = MiniUNet()
lr = paddle.optimizer.lr.PolynomialDecay(0.01, decay_steps=100, power=0.9)
optimizer = paddle.optimizer.Momentum(lr, parameters=model.parameters(), weight_decay=4e-5)
for it, (img, lab) in enumerate(loader):
    out = model(img)
    loss = F.cross_entropy(out, lab, axis=1) + 0.5 * dice_loss(out, lab)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    lr.step()
    print(it, tuple(img.shape), 'loss', round(loss.item(), 4))
