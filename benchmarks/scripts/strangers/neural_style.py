#!/usr/bin/env python
# Fast neural style (Johnson et al.) -- perceptual loss from a frozen VGG trunk.
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

BATCH = 4
CROP = 96
STYLE_W = 1e5
CONTENT_W = 1.0
TV_W = 1e-6
TOTAL_ITERS = 5
VGG_PLAN = [32, 32, "M", 64, 64, "M", 128, 128, 128, "M", 256, 256]
TAPS = {1: "relu1_2", 4: "relu2_2", 8: "relu3_3"}


class Vgg(nn.Layer):
    def __init__(self):
        super().__init__()
        c = 3
        self.body = nn.LayerList()
        for p in VGG_PLAN:
            if p == "M":
                self.body.append(nn.MaxPool2D(2))
            else:
                self.body.append(nn.Sequential(nn.Conv2D(c, p, 3, padding=1), nn.ReLU()))
                c = p
        for w in self.parameters():
            w.stop_gradient = True
        self.register_buffer("mean", paddle.to_tensor([0.485, 0.456, 0.406]).reshape([1, 3, 1, 1]))
        self.register_buffer("std", paddle.to_tensor([0.229, 0.224, 0.225]).reshape([1, 3, 1, 1]))

    def forward(self, x):
        x = (x - self.mean) / self.std
        feats = {}
        last = max(TAPS)
        for i, l in enumerate(self.body):
            x = l(x)
            if i in TAPS:
                feats[TAPS[i]] = x
            if i == last:
                break
        return feats


class ConvIN(nn.Layer):
    def __init__(self, i, o, k, s=1, act=True):
        super().__init__()
        self.pad = nn.Pad2D(k // 2, mode="reflect")
        self.conv = nn.Conv2D(i, o, k, stride=s)
        self.norm = nn.InstanceNorm2D(o)
        self.act = act

    def forward(self, x):
        x = self.norm(self.conv(self.pad(x)))
        return F.relu(x) if self.act else x


class Res(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.a = ConvIN(c, c, 3)
        self.b = ConvIN(c, c, 3, act=False)

    def forward(self, x):
        return x + self.b(self.a(x))


class UpConv(nn.Layer):
    def __init__(self, i, o):
        super().__init__()
        self.c = ConvIN(i, o, 3)

    def forward(self, x):
        return self.c(F.interpolate(x, scale_factor=2, mode="nearest"))


class TransformerNet(nn.Layer):
    def __init__(self, ch=16, n_res=3):
        super().__init__()
        self.net = nn.Sequential(
            ConvIN(3, ch, 9), ConvIN(ch, ch * 2, 3, 2), ConvIN(ch * 2, ch * 4, 3, 2),
            *[Res(ch * 4) for _ in range(n_res)],
            UpConv(ch * 4, ch * 2), UpConv(ch * 2, ch),
            nn.Pad2D(4, mode="reflect"), nn.Conv2D(ch, 3, 9))

    def forward(self, x):
        return F.sigmoid(self.net(x))


def gram(f):
    b, c, h, w = f.shape
    f = f.reshape([b, c, h * w])
    return paddle.bmm(f, f.transpose([0, 2, 1])) / (c * h * w)


def coco_crops():
    """would read COCO; here smooth noise images of the same shape"""
    rs = np.random.RandomState(7)
    for _ in range(TOTAL_ITERS):
        small = rs.rand(BATCH, 3, CROP // 8, CROP // 8).astype("float32")
        yield np.repeat(np.repeat(small, 8, axis=2), 8, axis=3)


paddle.seed(42)
vgg = Vgg()
vgg.eval()
net = TransformerNet()
optim = paddle.optimizer.Adam(1e-3, parameters=net.parameters())

style_img = paddle.rand([1, 3, 128, 128])
with paddle.no_grad():
    style_grams = {k: gram(v) for k, v in vgg(style_img).items()}

step = 0
for batch in coco_crops():
    x = paddle.to_tensor(batch)
    y = net(x)
    fy = vgg(y)
    with paddle.no_grad():
        fx = vgg(x)
    content = CONTENT_W * F.mse_loss(fy["relu2_2"], fx["relu2_2"])
    style = 0.0
    for k in style_grams:
        g = gram(fy[k])
        style = style + F.mse_loss(g, style_grams[k].expand_as(g))
    tv = paddle.abs(y[:, :, 1:] - y[:, :, :-1]).sum() + paddle.abs(y[:, :, :, 1:] - y[:, :, :, :-1]).sum()
    total = content + STYLE_W * style + TV_W * tv
    optim.clear_grad()
    total.backward()
    optim.step()
    step += 1
    print(f"[{step}/{TOTAL_ITERS}] total={total.item():.4f} content={content.item():.4f} style={float(style):.6f}")
