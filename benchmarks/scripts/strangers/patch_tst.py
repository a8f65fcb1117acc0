"""Channel-independent patch transformer for electricity load (long-horizon forecasting)."""
from __future__ import annotations

import sys
import math
from dataclasses import dataclass, fields

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset


@dataclass
class Config:
    batch_size: int = 16
    seq_len: int = 192
    pred_len: int = 48
    n_vars: int = 12
    patch: int = 16
    stride: int = 8
    d_model: int = 64
    n_heads: int = 4
    e_layers: int = 3
    d_ff: int = 128
    dropout: float = 0.1
    lr: float = 5e-4
    epochs: int = 1
    max_steps: int = 6

    @classmethod
    def from_cli(cls, argv):
        cfg = cls()
        types = {f.name: type(getattr(cfg, f.name)) for f in fields(cls)}
        it = iter(argv)
        for tok in it:
            key = tok.lstrip("-")
            if key not in types:
                raise SystemExit(f"unknown option {tok}")
            setattr(cfg, key, types[key](next(it)))
        return cfg


class Electricity(Dataset):
    def __init__(self, cfg: Config, flag="train"):
        T = 2400
        t = np.arange(T)[:, None]
        ph = np.linspace(0, 3, cfg.n_vars)[None]
        x = np.sin(2 * np.pi * t / 24 + ph) + 0.3 * np.sin(2 * np.pi * t / 168 + ph)
        lo, hi = (0, int(T * 0.8)) if flag == "train" else (int(T * 0.8), T)
        self.x = x[lo:hi].astype("float32")
        self.cfg = cfg

    def __len__(self):
        return len(self.x) - self.cfg.seq_len - self.cfg.pred_len + 1

    def __getitem__(self, i):
        s = self.cfg.seq_len
        return self.x[i:i + s], self.x[i + s:i + s + self.cfg.pred_len]


class RevIN(nn.Layer):
    def __init__(self, n):
        super().__init__()
        self.g = self.create_parameter([n], default_initializer=nn.initializer.Constant(1.0))
        self.b = self.create_parameter([n], is_bias=True)

    def norm(self, x):
        self.mu = x.mean(1, keepdim=True).detach()
        self.sd = paddle.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        return (x - self.mu) / self.sd * self.g + self.b

    def denorm(self, x):
        return (x - self.b) / (self.g + 1e-10) * self.sd + self.mu


class EncLayer(nn.Layer):
    def __init__(self, c: Config):
        super().__init__()
        self.h = c.n_heads
        self.dk = c.d_model // c.n_heads
        self.qkv = nn.Linear(c.d_model, 3 * c.d_model)
        self.o = nn.Linear(c.d_model, c.d_model)
        self.ff = nn.Sequential(nn.Linear(c.d_model, c.d_ff), nn.GELU(), nn.Dropout(c.dropout), nn.Linear(c.d_ff, c.d_model))
        # the paper normalises over batch, not over features
        self.n1 = nn.BatchNorm1D(c.d_model, data_format="NLC")
        self.n2 = nn.BatchNorm1D(c.d_model, data_format="NLC")
        self.drop = nn.Dropout(c.dropout)

    def forward(self, x, prev=None):
        B, N, D = x.shape
        q, k, v = self.qkv(x).reshape([B, N, 3, self.h, self.dk]).transpose([2, 0, 3, 1, 4]).unbind(0)
        score = paddle.matmul(q, k, transpose_y=True) / math.sqrt(self.dk)
        if prev is not None:          # realformer style residual attention
            score = score + prev
        a = paddle.matmul(F.softmax(score, -1), v).transpose([0, 2, 1, 3]).reshape([B, N, D])
        x = self.n1(x + self.drop(self.o(a)))
        x = self.n2(x + self.drop(self.ff(x)))
        return x, score


class PatchTST(nn.Layer):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.n_patch = (c.seq_len - c.patch) // c.stride + 2
        self.rev = RevIN(c.n_vars)
        self.embed = nn.Linear(c.patch, c.d_model)
        self.pos = self.create_parameter([1, self.n_patch, c.d_model], default_initializer=nn.initializer.Uniform(-0.02, 0.02))
        self.layers = nn.LayerList([EncLayer(c) for _ in range(c.e_layers)])
        self.head = nn.Linear(self.n_patch * c.d_model, c.pred_len)

    def forward(self, x):
        c = self.c
        B = x.shape[0]
        z = self.rev.norm(x).transpose([0, 2, 1])
        z = F.pad(z, [0, c.stride], mode="replicate", data_format="NCL")
        z = z.unfold(2, c.patch, c.stride)
        z = z.reshape([B * c.n_vars, self.n_patch, c.patch])
        z = self.embed(z) + self.pos
        sc = None
        for l in self.layers:
            z, sc = l(z, sc)
        y = self.head(z.flatten(1)).reshape([B, c.n_vars, c.pred_len]).transpose([0, 2, 1])
        return self.rev.denorm(y)


def run(cfg: Config):
    loader = DataLoader(Electricity(cfg), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = PatchTST(cfg)
    sch = paddle.optimizer.lr.OneCycleLR(cfg.lr, total_steps=1000)
    opt = paddle.optimizer.AdamW(sch, parameters=model.parameters(), weight_decay=1e-2)
    done = 0
    for _ in range(cfg.epochs):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            opt.clear_grad(set_to_zero=False)
            sch.step()
            done += 1
            print(f"iter {done} mse {loss.item():.4f}")
            if done >= cfg.max_steps:
                return


if __name__ == "__main__":
    run(Config.from_cli(sys.argv[1:]))
