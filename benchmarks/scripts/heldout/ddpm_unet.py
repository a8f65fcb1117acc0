"""Denoising diffusion on small pictures: U-Net with sinusoidal time embedding, attention and an EMA copy."""
import argparse
import copy
import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader
from paddle.vision.transforms import Compose, Normalize, ToTensor


class TimeEmbedding(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.net = nn.Sequential(nn.Linear(dim, dim * 4), nn.Silu(), nn.Linear(dim * 4, dim * 4))

    def forward(self, t):
        half = self.dim // 2
        freq = paddle.exp(paddle.arange(half, dtype="float32") * (-math.log(10000.0) / (half - 1)))
        angle = t.astype("float32").unsqueeze(1) * freq.unsqueeze(0)
        return self.net(paddle.concat([paddle.sin(angle), paddle.cos(angle)], axis=1))


class ResBlock(nn.Layer):
    def __init__(self, cin, cout, temb, dropout=0.1):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(8, cin), nn.Silu(), nn.Conv2D(cin, cout, 3, padding=1))
        self.emb = nn.Linear(temb, 2 * cout)
        self.norm = nn.GroupNorm(8, cout)
        self.out_layers = nn.Sequential(nn.Silu(), nn.Dropout(dropout), nn.Conv2D(cout, cout, 3, padding=1))
        self.skip = nn.Identity() if cin == cout else nn.Conv2D(cin, cout, 1)

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = paddle.chunk(self.emb(F.silu(emb))[:, :, None, None], 2, axis=1)
        h = self.norm(h) * (1 + scale) + shift
        return self.skip(x) + self.out_layers(h)


class SpatialAttention(nn.Layer):
    def __init__(self, ch, heads=4):
        super().__init__()
        self.norm = nn.GroupNorm(8, ch)
        self.qkv = nn.Conv2D(ch, ch * 3, 1)
        self.proj = nn.Conv2D(ch, ch, 1)
        self.heads = heads

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape([b, 3, self.heads, c // self.heads, h * w]).unbind(axis=1)
        weight = F.softmax(paddle.einsum("bhcn,bhcm->bhnm", q, k) * (c // self.heads) ** -0.5, axis=-1)
        out = paddle.einsum("bhnm,bhcm->bhcn", weight, v)
        return x + self.proj(out.reshape([b, c, h, w]))


class UNet(nn.Layer):
    def __init__(self, in_ch=3, ch=32, mult=(1, 2, 2), blocks=1, attn_at=(8,), size=32):
        super().__init__()
        temb = ch * 4
        self.time = TimeEmbedding(ch)
        self.stem = nn.Conv2D(in_ch, ch, 3, padding=1)
        self.down, self.up = nn.LayerList(), nn.LayerList()
        chans, cur, res = [ch], ch, size
        for level, m in enumerate(mult):
            for _ in range(blocks):
                stage = [ResBlock(cur, ch * m, temb)]
                cur = ch * m
                if res in attn_at:
                    stage.append(SpatialAttention(cur))
                self.down.append(nn.LayerList(stage))
                chans.append(cur)
            if level != len(mult) - 1:
                self.down.append(nn.LayerList([nn.Conv2D(cur, cur, 3, stride=2, padding=1)]))
                chans.append(cur)
                res //= 2
        self.mid = nn.LayerList([ResBlock(cur, cur, temb), SpatialAttention(cur), ResBlock(cur, cur, temb)])
        for level, m in reversed(list(enumerate(mult))):
            for i in range(blocks + 1):
                stage = [ResBlock(cur + chans.pop(), ch * m, temb)]
                cur = ch * m
                if level and i == blocks:
                    stage.append(nn.Upsample(scale_factor=2, mode="nearest"))
                    stage.append(nn.Conv2D(cur, cur, 3, padding=1))
                self.up.append(nn.LayerList(stage))
        self.out = nn.Sequential(nn.GroupNorm(8, cur), nn.Silu(), nn.Conv2D(cur, in_ch, 3, padding=1))

    @staticmethod
    def run(stage, x, emb):
        for layer in stage:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
        return x

    def forward(self, x, t):
        emb = self.time(t)
        x = self.stem(x)
        hs = [x]
        for stage in self.down:
            x = self.run(stage, x, emb)
            hs.append(x)
        x = self.run(self.mid, x, emb)
        for stage in self.up:
            x = self.run(stage, paddle.concat([x, hs.pop()], axis=1), emb)
        return self.out(x)


class Diffusion:
    def __init__(self, model, steps=1000, low=1e-4, high=0.02):
        self.model = model
        self.steps = steps
        beta = paddle.linspace(low, high, steps)
        bar = paddle.cumprod(1.0 - beta, dim=0)
        self.root = paddle.sqrt(bar)
        self.rest = paddle.sqrt(1.0 - bar)

    def loss(self, x0):
        t = paddle.randint(0, self.steps, [x0.shape[0]])
        noise = paddle.randn(x0.shape)
        a = paddle.gather(self.root, t).reshape([-1, 1, 1, 1])
        b = paddle.gather(self.rest, t).reshape([-1, 1, 1, 1])
        return F.mse_loss(self.model(a * x0 + b * noise, t), noise)


@paddle.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.set_value(e * decay + p * (1.0 - decay))


class Blobs(paddle.io.Dataset):
    def __init__(self, size):
        self.size = size
        self.transform = Compose([ToTensor(), Normalize([0.5] * 3, [0.5] * 3)])

    def __getitem__(self, i):
        import numpy as np

        img = np.random.RandomState(i).randint(0, 256, size=(self.size, self.size, 3), dtype=np.uint8)
        return self.transform(img), i % 10

    def __len__(self):
        return 8192


def parse():
    p = argparse.ArgumentParser()
    g = p.add_argument_group("training")
    g.add_argument("--bs", type=int, default=32)
    g.add_argument("--lr", type=float, default=2e-4)
    g.add_argument("--ema", type=float, default=0.999)
    m = p.add_argument_group("model")
    m.add_argument("--ch", type=int, default=32)
    m.add_argument("--mult", default="1,2,2", help="channel multipliers, comma separated")
    m.add_argument("--size", type=int, default=32)
    return p.parse_args()


if __name__ == "__main__":
    args = parse()
    mult = tuple(int(m) for m in args.mult.split(","))
    net = UNet(ch=args.ch, mult=mult, size=args.size)
    ema = copy.deepcopy(net)
    ema.eval()
    diffusion = Diffusion(net)
    opt = paddle.optimizer.AdamW(
        args.lr, parameters=net.parameters(), weight_decay=0.0, grad_clip=nn.ClipGradByGlobalNorm(1.0)
    )
    loader = DataLoader(Blobs(args.size), batch_size=args.bs, shuffle=True, drop_last=True)
    step = 0
    while step < 1000:
        for x0, _ in loader:
            loss = diffusion.loss(x0)
            loss.backward()
            opt.step()
            opt.clear_grad(set_to_zero=False)
            update_ema(ema, net, args.ema)
            step += 1
            if step % 10 == 0:
                print(step, loss.item())
