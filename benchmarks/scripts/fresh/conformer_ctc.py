"""Conformer encoder + CTC on synthetic filterbanks (padded to a cap of MAX_FRAMES)."""
from __future__ import annotations

import argparse
import math
from typing import List, Optional, Tuple

import numpy as np
import paddle
from paddle import Tensor, nn
from paddle.io import DataLoader, Dataset

MAX_FRAMES = 240
MAX_TOKENS = 20
N_MELS = 80
VOCAB = 128


class Utterances(Dataset):
    def __init__(self, n: int = 400) -> None:
        self.lens = np.random.RandomState(3).randint(120, MAX_FRAMES + 1, n)

    def __len__(self) -> int:
        return len(self.lens)

    def __getitem__(self, i: int) -> Tuple[np.ndarray, np.ndarray]:
        frames = int(self.lens[i])
        feats = np.random.randn(frames, N_MELS).astype(np.float32)
        toks = np.random.randint(1, VOCAB, size=np.random.randint(5, MAX_TOKENS)).astype(np.int32)
        return feats, toks


def pad_batch(batch: List[Tuple[np.ndarray, np.ndarray]]):
    x = np.zeros([len(batch), MAX_FRAMES, N_MELS], dtype="float32")
    xl = np.zeros([len(batch)], dtype="int64")
    y = np.zeros([len(batch), MAX_TOKENS], dtype="int32")
    yl = np.zeros([len(batch)], dtype="int64")
    for i, (f, t) in enumerate(batch):
        x[i, : len(f)] = f
        xl[i] = len(f)
        y[i, : len(t)] = t
        yl[i] = len(t)
    return x, xl, y, yl


class Subsampling(nn.Layer):
    """Two strided convolutions: T -> T / 4."""

    def __init__(self, idim: int, odim: int, dropout: float) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2D(1, odim, 3, 2, padding=1), nn.ReLU(),
            nn.Conv2D(odim, odim, 3, 2, padding=1), nn.ReLU())
        self.out = nn.Linear(odim * (idim // 4), odim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x.unsqueeze(1))
        b, c, t, f = x.shape
        x = self.out(x.transpose([0, 2, 1, 3]).reshape([b, t, c * f]))
        return self.dropout(x)


class RelPosition(nn.Layer):
    def __init__(self, dim: int, max_len: int = 512) -> None:
        super().__init__()
        pos = np.arange(max_len - 1, -max_len, -1.0, dtype=np.float32)[:, None]
        div = np.exp(np.arange(0, dim, 2, dtype=np.float32) * -(math.log(10000.0) / dim))
        pe = np.zeros((2 * max_len - 1, dim), dtype=np.float32)
        pe[:, 0::2] = np.sin(pos * div)
        pe[:, 1::2] = np.cos(pos * div)
        self.register_buffer("pe", paddle.to_tensor(pe), persistable=False)
        self.max_len = max_len

    def forward(self, length: int) -> Tensor:
        return self.pe[self.max_len - length: self.max_len + length - 1]


class RelAttention(nn.Layer):
    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.h = heads
        self.d = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.pos = nn.Linear(dim, dim, bias_attr=False)
        self.out = nn.Linear(dim, dim)
        self.u = self.create_parameter([heads, 1, self.d],
                                       default_initializer=nn.initializer.XavierUniform())
        self.v = self.create_parameter([heads, 1, self.d],
                                       default_initializer=nn.initializer.XavierUniform())
        self.dropout = nn.Dropout(dropout)

    def rel_shift(self, x: Tensor) -> Tensor:
        b, h, t, p = x.shape
        zeros = paddle.zeros([b, h, t, 1], dtype=x.dtype)
        x = paddle.concat([zeros, x], axis=-1).reshape([b, h, p + 1, t])
        return x[:, :, 1:].reshape([b, h, t, p])[:, :, :, :t]

    def forward(self, x: Tensor, pos_emb: Tensor, mask: Optional[Tensor]) -> Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).reshape([b, t, 3, self.h, self.d]).transpose([2, 0, 3, 1, 4])
        p = self.pos(pos_emb).reshape([-1, self.h, self.d]).transpose([1, 0, 2]).unsqueeze(0)
        ac = paddle.matmul(q + self.u, k, transpose_y=True)
        bd = self.rel_shift(paddle.matmul(q + self.v, p, transpose_y=True))
        score = (ac + bd) / math.sqrt(self.d)
        if mask is not None:
            score = paddle.where(mask, score, paddle.full_like(score, -1e4))
        attn = self.dropout(nn.functional.softmax(score, axis=-1))
        ctx = paddle.matmul(attn, v).transpose([0, 2, 1, 3]).reshape([b, t, self.h * self.d])
        return self.out(ctx)


class ConvModule(nn.Layer):
    def __init__(self, dim: int, kernel: int = 15) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Conv1D(dim, 2 * dim, 1)
        self.dw = nn.Conv1D(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.bn = nn.BatchNorm1D(dim)
        self.act = nn.Swish()
        self.pw2 = nn.Conv1D(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x).transpose([0, 2, 1])
        y = nn.functional.glu(self.pw1(y), axis=1)
        y = self.act(self.bn(self.dw(y)))
        return self.pw2(y).transpose([0, 2, 1])


def feed_forward(dim: int, mult: int, p: float) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, mult * dim), nn.Swish(), nn.Dropout(p),
                         nn.Linear(mult * dim, dim), nn.Dropout(p))


class ConformerBlock(nn.Layer):
    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ff1 = feed_forward(dim, 4, dropout)
        self.norm_att = nn.LayerNorm(dim)
        self.att = RelAttention(dim, heads, dropout)
        self.conv = ConvModule(dim)
        self.ff2 = feed_forward(dim, 4, dropout)
        self.norm = nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pos, mask):
        x = x + 0.5 * self.ff1(x)
        x = x + self.drop(self.att(self.norm_att(x), pos, mask))
        x = x + self.drop(self.conv(x))
        x = x + 0.5 * self.ff2(x)
        return self.norm(x)


class Conformer(nn.Layer):
    def __init__(self, dim=96, heads=4, layers=4, dropout=0.1) -> None:
        super().__init__()
        self.sub = Subsampling(N_MELS, dim, dropout)
        self.pos = RelPosition(dim)
        self.layers = nn.LayerList([ConformerBlock(dim, heads, dropout) for _ in range(layers)])
        self.ctc = nn.Linear(dim, VOCAB)

    def forward(self, x: Tensor, lens: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.sub(x)
        t = x.shape[1]
        lens = (lens + 3) // 4
        mask = paddle.arange(t).unsqueeze(0) < lens.unsqueeze(1)
        mask = mask.unsqueeze([1, 2])
        pos = self.pos(t)
        for layer in self.layers:
            x = layer(x, pos, mask)
        return self.ctc(x), lens


class Noam(paddle.optimizer.lr.LRScheduler):
    def __init__(self, dim, warm, scale=1.0):
        self.dim, self.warm, self.scale = dim, warm, scale
        super().__init__(learning_rate=scale)

    def get_lr(self):
        step = max(self.last_epoch, 1)
        return self.scale * self.dim ** -0.5 * min(step ** -0.5, step * self.warm ** -1.5)


def main(args) -> None:
    paddle.seed(args.seed)
    loader = DataLoader(Utterances(), batch_size=args.batch, shuffle=True, drop_last=True,
                        collate_fn=pad_batch)
    model = Conformer(layers=args.layers)
    ctc = nn.CTCLoss(blank=0, reduction="mean")
    lr = Noam(96, 1000)
    opt = paddle.optimizer.AdamW(learning_rate=lr, beta2=0.98, parameters=model.parameters(),
                                 weight_decay=1e-2,
                                 apply_decay_param_fun=lambda n: not n.endswith("b_0"),
                                 grad_clip=nn.ClipGradByGlobalNorm(5.0))
    running = None
    for epoch in range(args.epochs):
        for step, (x, xl, y, yl) in enumerate(loader()):
            logits, out_len = model(x, xl)
            loss = ctc(logits.transpose([1, 0, 2]), y, out_len, yl)
            loss.backward()
            opt.step()
            opt.clear_grad()
            lr.step()
            value = loss.numpy().item()
            running = value if running is None else 0.9 * running + 0.1 * value
            if not step % args.log_every:
                print(f"[{epoch}:{step}] ctc={value:.3f} avg={running:.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--layers", type=int, default=4)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--log-every", type=int, default=1)
    main(ap.parse_args())
