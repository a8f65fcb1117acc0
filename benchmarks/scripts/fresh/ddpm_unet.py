"""Denoising diffusion on 32x32 noise images."""
import copy
import math
from contextlib import nullcontext
from functools import partial

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

cfg = dict(
    image_size=32,
    channels=32,
    mult=(1, 2, 4),
    attn_at=(8,),
    blocks=1,
    timesteps=400,
    batch_size=16,
    lr=2e-4,
    amp=False,
    ema=0.995,
    steps=12,
)
batch_size = 16
cfg.update(batch_size=batch_size)


def exists(x):
    return x is not None


def default(v, d):
    return v if exists(v) else d() if callable(d) else d


class SinusoidalEmbedding(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        freq = paddle.exp(paddle.arange(half, dtype="float32") * -(math.log(10000) / (half - 1)))
        arg = t.astype("float32")[:, None] * freq[None, :]
        return paddle.concat([paddle.sin(arg), paddle.cos(arg)], axis=-1)


class ResBlock(nn.Layer):
    def __init__(self, cin, cout, tdim, groups=8, dropout=0.0):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, cin)
        self.conv1 = nn.Conv2D(cin, cout, 3, padding=1)
        self.temb = nn.Sequential(nn.Silu(), nn.Linear(tdim, 2 * cout))
        self.norm2 = nn.GroupNorm(groups, cout)
        self.drop = nn.Dropout(dropout)
        self.conv2 = nn.Conv2D(cout, cout, 3, padding=1)
        self.skip = nn.Conv2D(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.temb(t)[:, :, None, None].chunk(2, axis=1)
        h = self.norm2(h) * (scale + 1) + shift
        h = self.conv2(self.drop(F.silu(h)))
        return h + self.skip(x)


class SelfAttention(nn.Layer):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, dim)
        self.to_qkv = nn.Conv2D(dim, dim * 3, 1, bias_attr=False)
        self.proj = nn.Conv2D(dim, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(self.norm(x)).reshape([b, 3, self.heads, c // self.heads, h * w])
        q, k, v = qkv.unbind(1)
        q = q * (c // self.heads) ** -0.5
        sim = paddle.einsum("bhdi,bhdj->bhij", q, k)
        sim = sim - sim.max(axis=-1, keepdim=True).detach()
        attn = F.softmax(sim, axis=-1)
        out = paddle.einsum("bhij,bhdj->bhdi", attn, v)
        return x + self.proj(out.reshape([b, c, h, w]))


class UNet(nn.Layer):
    def __init__(self, image_size, channels, mult, attn_at, blocks, in_ch=3, tdim=None):
        super().__init__()
        tdim = default(tdim, channels * 4)
        block = partial(ResBlock, tdim=tdim)
        self.time = nn.Sequential(SinusoidalEmbedding(channels), nn.Linear(channels, tdim),
                                  nn.GELU(), nn.Linear(tdim, tdim))
        self.stem = nn.Conv2D(in_ch, channels, 3, padding=1)
        self.downs = nn.LayerList()
        self.ups = nn.LayerList()
        size, ch, skips = image_size, channels, [channels]
        for level, m in enumerate(mult):
            out = channels * m
            for _ in range(blocks):
                layers = [block(ch, out)]
                if size in attn_at:
                    layers.append(SelfAttention(out))
                self.downs.append(nn.LayerList(layers))
                ch = out
                skips.append(ch)
            if level != len(mult) - 1:
                self.downs.append(nn.LayerList([nn.Conv2D(ch, ch, 3, stride=2, padding=1)]))
                skips.append(ch)
                size //= 2
        self.mid1 = block(ch, ch)
        self.mid_attn = SelfAttention(ch)
        self.mid2 = block(ch, ch)
        for level, m in reversed(list(enumerate(mult))):
            out = channels * m
            for i in range(blocks + 1):
                layers = [block(ch + skips.pop(), out)]
                if size in attn_at:
                    layers.append(SelfAttention(out))
                if level and i == blocks:
                    layers.append(nn.Conv2DTranspose(out, out, 4, stride=2, padding=1))
                    size *= 2
                self.ups.append(nn.LayerList(layers))
                ch = out
        self.final = nn.Sequential(nn.GroupNorm(8, ch), nn.Silu(), nn.Conv2D(ch, in_ch, 3, padding=1))

    def run(self, layers, x, t):
        for layer in layers:
            x = layer(x, t) if isinstance(layer, ResBlock) else layer(x)
        return x

    def forward(self, x, t):
        t = self.time(t)
        x = self.stem(x)
        hs = [x]
        for layers in self.downs:
            x = self.run(layers, x, t)
            hs.append(x)
        x = self.mid2(self.mid_attn(self.mid1(x, t)), t)
        for layers in self.ups:
            x = paddle.concat([x, hs.pop()], axis=1)
            x = self.run(layers, x, t)
        return self.final(x)


def cosine_betas(T, s=0.008):
    x = np.linspace(0, T, T + 1)
    a = np.cos(((x / T) + s) / (1 + s) * math.pi * 0.5) ** 2
    a = a / a[0]
    return np.clip(1 - a[1:] / a[:-1], 0, 0.999)


class Diffusion(nn.Layer):
    def __init__(self, net, timesteps):
        super().__init__()
        self.net = net
        self.T = timesteps
        abar = np.cumprod(1.0 - cosine_betas(timesteps))
        reg = lambda n, v: self.register_buffer(n, paddle.to_tensor(v.astype("float32")))
        reg("sqrt_abar", np.sqrt(abar))
        reg("sqrt_1m", np.sqrt(1 - abar))

    def q_sample(self, x0, t, noise):
        a = paddle.gather(self.sqrt_abar, t).reshape([-1, 1, 1, 1])
        b = paddle.gather(self.sqrt_1m, t).reshape([-1, 1, 1, 1])
        return a * x0 + b * noise

    def forward(self, x0):
        t = paddle.randint(0, self.T, shape=[x0.shape[0]])
        noise = paddle.randn(x0.shape)
        return F.mse_loss(self.net(self.q_sample(x0 * 2 - 1, t, noise), t), noise)


class Pictures(paddle.io.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, i):
        return np.random.rand(3, cfg["image_size"], cfg["image_size"]).astype("float32")


def cycle(loader):
    while True:
        for data in loader:
            yield data


keys = ("image_size", "channels", "mult", "attn_at", "blocks")
model = Diffusion(UNet(**{k: cfg[k] for k in keys}), cfg["timesteps"])
ema = copy.deepcopy(model)
ema.eval()
opt = paddle.optimizer.Adam(learning_rate=cfg["lr"], beta1=0.9, beta2=0.99,
                            parameters=model.parameters())
scaler = paddle.amp.GradScaler(init_loss_scaling=1024, enable=cfg["amp"])
loader = paddle.io.DataLoader(Pictures(), batch_size=cfg["batch_size"], shuffle=True, drop_last=True)
data = cycle(loader)
for step in range(cfg["steps"]):
    images = next(data)
    if isinstance(images, (list, tuple)):
        images = images[0]
    ctx = paddle.amp.auto_cast() if cfg["amp"] else nullcontext()
    with ctx:
        loss = model(images)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.clear_grad()
    with paddle.no_grad():
        for p, q in zip(ema.parameters(), model.parameters()):
            p.set_value(cfg["ema"] * p + (1 - cfg["ema"]) * q)
    print("step %3d loss %.4f" % (step, loss.item()))
