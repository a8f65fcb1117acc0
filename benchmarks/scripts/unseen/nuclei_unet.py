# Kaggle: nuclei segmentation baseline (UNet + BCE/Dice)
import random

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset


class CFG:
    seed = 7
    img_size = 64
    train_bs = 8
    valid_bs = 16
    width = 12
    lr = 3e-4
    epochs = 2
    thr = 0.5


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    paddle.seed(seed)


class NucleiDataset(Dataset):
    def __init__(self, ids):
        self.ids = ids

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        rng = np.random.default_rng(self.ids[i])
        s = CFG.img_size
        yy, xx = np.mgrid[:s, :s]
        mask = np.zeros((s, s), dtype=np.float32)
        for _ in range(rng.integers(3, 8)):
            cy, cx, r = rng.integers(0, s), rng.integers(0, s), rng.integers(4, 9)
            mask[(yy - cy) ** 2 + (xx - cx) ** 2 < r * r] = 1
        img = np.stack([mask + 0.2 * rng.standard_normal((s, s)) for _ in range(3)])
        return img.astype(np.float32), mask[None]


class DoubleConv(nn.Layer):
    def __init__(self, i, o):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2D(i, o, 3, padding=1, bias_attr=False), nn.BatchNorm2D(o), nn.ReLU(),
            nn.Conv2D(o, o, 3, padding=1, bias_attr=False), nn.BatchNorm2D(o), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class Up(nn.Layer):
    def __init__(self, i, o, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        else:
            self.up = nn.Conv2DTranspose(i // 2, i // 2, 2, stride=2)
        self.conv = DoubleConv(i, o)

    def forward(self, x, skip):
        x = self.up(x)
        dy = skip.shape[2] - x.shape[2]
        dx = skip.shape[3] - x.shape[3]
        if dy or dx:
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(paddle.concat([skip, x], axis=1))


class UNet(nn.Layer):
    def __init__(self, c=16):
        super().__init__()
        self.inc = DoubleConv(3, c)
        self.d1, self.d2, self.d3 = DoubleConv(c, 2 * c), DoubleConv(2 * c, 4 * c), DoubleConv(4 * c, 4 * c)
        self.pool = nn.MaxPool2D(2)
        self.u1, self.u2, self.u3 = Up(8 * c, 2 * c), Up(4 * c, c), Up(2 * c, c)
        self.out = nn.Conv2D(c, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.d1(self.pool(x1))
        x3 = self.d2(self.pool(x2))
        x4 = self.d3(self.pool(x3))
        x = self.u1(x4, x3)
        x = self.u2(x, x2)
        x = self.u3(x, x1)
        return self.out(x)


def dice_loss(logit, mask, eps=1.0):
    p = F.sigmoid(logit).flatten(1)
    m = mask.flatten(1)
    inter = (p * m).sum(1)
    return (1 - (2 * inter + eps) / (p.sum(1) + m.sum(1) + eps)).mean()


def criterion(logit, mask):
    return 0.5 * F.binary_cross_entropy_with_logits(logit, mask) + 0.5 * dice_loss(logit, mask)


def train_one_epoch(model, loader, optimizer):
    model.train()
    run, n = 0.0, 0
    for step, (images, masks) in enumerate(loader):
        b = images.shape[0]
        y_pred = model(images)
        loss = criterion(y_pred, masks)
        optimizer.clear_grad()
        loss.backward()
        optimizer.step()
        run += loss.item() * b
        n += b
        if step % 10 == 0:
            print(f'[{step}/{len(loader)}] loss {run / n:.4f}')
    return run / n


@paddle.no_grad()
def valid_one_epoch(model, loader):
    model.eval()
    scores = []
    for images, masks in loader:
        pred = (F.sigmoid(model(images)) > CFG.thr).astype('float32')
        inter = (pred * masks).sum([1, 2, 3])
        union = pred.sum([1, 2, 3]) + masks.sum([1, 2, 3])
        scores += ((2 * inter + 1) / (union + 1)).tolist()
    return float(np.mean(scores))


if __name__ == '__main__':
    seed_everything(CFG.seed)
    ids = list(range(200))
    random.shuffle(ids)
    train_loader = DataLoader(NucleiDataset(ids[40:]), batch_size=CFG.train_bs, shuffle=True, num_workers=2, drop_last=True)
    valid_loader = DataLoader(NucleiDataset(ids[:40]), batch_size=CFG.valid_bs, shuffle=False, num_workers=2)
    model = UNet(CFG.width)
    optimizer = paddle.optimizer.AdamW(learning_rate=CFG.lr, parameters=model.parameters(), weight_decay=1e-6)
    best = 0
    for epoch in range(CFG.epochs):
        loss = train_one_epoch(model, train_loader, optimizer)
        dice = valid_one_epoch(model, valid_loader)
        if dice > best:
            best = dice
            paddle.save(model.state_dict(), 'best.pdparams')
        print(f'epoch {epoch} loss {loss:.4f} dice {dice:.4f}')
