"""Long horizon forecasting with patches and a Transformer encoder."""
import argparse
import math

import numpy as np
import paddle
import paddle.nn as nn
from paddle.io import DataLoader, Dataset


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--seq_len", type=int, default=192)
    p.add_argument("--pred_len", type=int, default=48)
    p.add_argument("--channels", type=int, default=7)
    p.add_argument("--patch", type=int, default=16)
    p.add_argument("--stride", type=int, default=8)
    p.add_argument("--d_model", type=int, default=64)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--batch_size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    return p.parse_args()


def make_series(hours, channels):
    t = np.arange(hours)[:, None]
    phase = np.linspace(0, 3, channels)[None]
    series = np.sin(2 * np.pi * t / 24 + phase) + 0.3 * np.sin(2 * np.pi * t / 168) + 0.1 * np.random.randn(hours, channels)
    mean, std = series[: hours // 2].mean(0), series[: hours // 2].std(0)
    return ((series - mean) / std).astype("float32")


class Windows(Dataset):
    def __init__(self, series, seq_len, pred_len):
        self.series, self.seq_len, self.pred_len = series, seq_len, pred_len

    def __len__(self):
        return len(self.series) - self.seq_len - self.pred_len + 1

    def __getitem__(self, i):
        mid = i + self.seq_len
        return self.series[i:mid], self.series[mid:mid + self.pred_len]


class RevIN(nn.Layer):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = self.create_parameter([channels], default_initializer=nn.initializer.Constant(1.0))
        self.beta = self.create_parameter([channels], is_bias=True)

    def norm(self, x):
        self.mean = x.mean(axis=1, keepdim=True).detach()
        self.std = paddle.sqrt(x.var(axis=1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - self.mean) / self.std * self.gamma + self.beta

    def denorm(self, x):
        return (x - self.beta) / (self.gamma + self.eps) * self.std + self.mean


class PatchModel(nn.Layer):
    def __init__(self, a):
        super().__init__()
        self.a = a
        n = (a.seq_len - a.patch) // a.stride + 1
        self.revin = RevIN(a.channels)
        self.embed = nn.Linear(a.patch, a.d_model)
        pos = np.zeros((n, a.d_model), "float32")
        where = np.arange(n)[:, None]
        div = np.exp(np.arange(0, a.d_model, 2) * (-math.log(10000.0) / a.d_model))
        pos[:, 0::2] = np.sin(where * div)
        pos[:, 1::2] = np.cos(where * div)
        self.register_buffer("pos", paddle.to_tensor(pos).unsqueeze(0))
        layer = nn.TransformerEncoderLayer(a.d_model, a.heads, 4 * a.d_model, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, a.layers)
        self.head = nn.Linear(n * a.d_model, a.pred_len)
        self.starts = list(range(0, a.seq_len - a.patch + 1, a.stride))

    def forward(self, x):
        a = self.a
        x = self.revin.norm(x).transpose([0, 2, 1])
        patches = paddle.stack([x[:, :, s:s + a.patch] for s in self.starts], axis=2)
        b, c, n, _ = patches.shape
        z = self.embed(patches.reshape([b * c, n, a.patch])) + self.pos
        z = self.encoder(z)
        y = self.head(z.reshape([b, c, n * a.d_model])).transpose([0, 2, 1])
        return self.revin.denorm(y)


def main():
    args = get_args()
    np.random.seed(0)
    data = make_series(1200, args.channels)
    train = Windows(data[:900], args.seq_len, args.pred_len)
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = PatchModel(args)
    sched = paddle.optimizer.lr.OneCycleLR(max_learning_rate=args.lr, total_steps=args.epochs * len(loader))
    opt = paddle.optimizer.AdamW(sched, parameters=model.parameters(), grad_clip=nn.ClipGradByNorm(1.0))
    mse, mae = nn.MSELoss(), nn.L1Loss()
    for epoch in range(args.epochs):
        losses = []
        for x, y in loader:
            out = model(x)
            loss = mse(out, y) + 0.5 * mae(out, y)
            loss.backward()
            opt.step()
            sched.step()
            opt.clear_grad(set_to_zero=False)
            losses.append(loss.item())
        print(f"epoch {epoch}: {np.mean(losses):.4f}")


if __name__ == "__main__":
    main()
