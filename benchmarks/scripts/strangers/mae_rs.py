# Masked autoencoder pretraining for 6-band Sentinel tiles.
import argparse
from functools import partial

import numpy as np
import paddle
import paddle.nn as nn


class Block(nn.Layer):
    def __init__(self, dim, heads, ratio=4.0, norm=partial(nn.LayerNorm, epsilon=1e-6)):
        super().__init__()
        self.norm1, self.norm2 = norm(dim), norm(dim)
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, int(dim * ratio)), nn.GELU(), nn.Linear(int(dim * ratio), dim))

    def attn(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape([B, N, 3, self.heads, C // self.heads]).transpose([2, 0, 3, 1, 4])
        q, k, v = qkv[0], qkv[1], qkv[2]
        w = nn.functional.softmax(q.matmul(k.transpose([0, 1, 3, 2])) * self.scale, axis=-1)
        return self.proj(w.matmul(v).transpose([0, 2, 1, 3]).reshape([B, N, C]))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class MAE(nn.Layer):
    def __init__(self, img=96, patch=8, bands=6, dim=128, depth=4, heads=4, ddim=64, ddepth=2, dheads=4):
        super().__init__()
        self.p, self.bands = patch, bands
        self.L = (img // patch) ** 2
        self.embed = nn.Conv2D(bands, dim, patch, patch)
        tn = nn.initializer.TruncatedNormal(std=0.02)
        self.cls = self.create_parameter([1, 1, dim], default_initializer=tn)
        self.mask_token = self.create_parameter([1, 1, ddim], default_initializer=tn)
        self.register_buffer('pos', paddle.randn([1, self.L + 1, dim]) * 0.02)
        self.register_buffer('dpos', paddle.randn([1, self.L + 1, ddim]) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)], nn.LayerNorm(dim))
        self.to_dec = nn.Linear(dim, ddim)
        self.dblocks = nn.Sequential(*[Block(ddim, dheads) for _ in range(ddepth)], nn.LayerNorm(ddim))
        self.pred = nn.Linear(ddim, patch * patch * bands)

    def patchify(self, x):
        B, C, H, W = x.shape
        h, w, p = H // self.p, W // self.p, self.p
        return x.reshape([B, C, h, p, w, p]).transpose([0, 2, 4, 3, 5, 1]).reshape([B, h * w, p * p * C])

    def forward(self, x, ratio):
        B = x.shape[0]
        keep = int(self.L * (1 - ratio))
        tok = self.embed(x).flatten(2).transpose([0, 2, 1]) + self.pos[:, 1:]
        shuffle = paddle.argsort(paddle.rand([B, self.L]), axis=1)
        restore = paddle.argsort(shuffle, axis=1)
        vis = paddle.take_along_axis(tok, shuffle[:, :keep].unsqueeze(-1), axis=1)
        mask = (restore >= keep).astype('float32')
        cls = (self.cls + self.pos[:, :1]).expand([B, -1, -1])
        z = self.to_dec(self.blocks(paddle.concat([cls, vis], 1)))
        full = paddle.concat([z[:, 1:], self.mask_token.expand([B, self.L - keep, -1])], 1)
        full = paddle.take_along_axis(full, restore.unsqueeze(-1), axis=1)
        y = self.pred(self.dblocks(paddle.concat([z[:, :1], full], 1) + self.dpos))[:, 1:]
        t = self.patchify(x)
        t = (t - t.mean(-1, keepdim=True)) / (t.var(-1, keepdim=True) + 1e-6).sqrt()
        return (((y - t) ** 2).mean(-1) * mask).sum() / mask.sum()


class Tiles(paddle.io.IterableDataset):
    def __init__(self, count, size, bands):
        self.count, self.size, self.bands = count, size, bands

    def __iter__(self):
        rng = np.random.RandomState(11)
        for _ in range(self.count):
            yield rng.randn(self.bands, self.size, self.size).astype('float32')


class Pretrainer:
    def __init__(self, a):
        self.a = a
        self.model = MAE(img=a.tile, dim=a.dim, depth=a.depth)
        decay = [p for p in self.model.parameters() if p.ndim > 1 and not p.stop_gradient]
        rest = [p for p in self.model.parameters() if p.ndim <= 1 and not p.stop_gradient]
        cos = paddle.optimizer.lr.CosineAnnealingDecay(a.blr * a.batch_size * a.accum / 256, a.updates)
        self.sched = paddle.optimizer.lr.LinearWarmup(cos, 2, 0.0, a.blr)
        self.opt = paddle.optimizer.AdamW(
            self.sched, beta2=0.95,
            parameters=[{'params': decay, 'weight_decay': 0.05}, {'params': rest, 'weight_decay': 0.0}])

    def fit(self):
        a = self.a
        dl = paddle.io.DataLoader(Tiles(a.batch_size * a.accum * a.updates, a.tile, 6), batch_size=a.batch_size, drop_last=True)
        for i, x in enumerate(dl):
            loss = self.model(x, a.mask_ratio) / a.accum
            loss.backward()
            if (i + 1) % a.accum == 0:
                self.opt.step()
                self.opt.clear_grad()
                self.sched.step()
                print(f'update {(i + 1) // a.accum} loss {loss.item() * a.accum:.4f}')


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('--batch-size', type=int, default=16)
    ap.add_argument('--tile', type=int, default=96)
    ap.add_argument('--dim', type=int, default=128)
    ap.add_argument('--depth', type=int, default=4)
    ap.add_argument('--mask-ratio', type=float, default=0.75)
    ap.add_argument('--accum', type=int, default=2)
    ap.add_argument('--updates', type=int, default=5)
    ap.add_argument('--blr', type=float, default=1.5e-4)
    Pretrainer(ap.parse_args()).fit()
