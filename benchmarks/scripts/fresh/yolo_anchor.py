import math
import random

import numpy as np
import paddle
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset
import paddle.nn.functional as F

# ---------------------------------------------------------------- settings
INPUT_SIZE = 160
NUM_CLASSES = 6
BATCH_SIZE = 8
EPOCHS = 1
BASE_LR = 1e-3
STRIDES = [8, 16, 32]
ANCHORS = [
    [[10, 13], [16, 30], [33, 23]],
    [[30, 61], [62, 45], [59, 119]],
    [[116, 90], [156, 198], [373, 326]],
]
MAX_BOXES = 12


class ShapesDetection(Dataset):
    """Coloured rectangles on noise."""

    def __init__(self, length=200):
        super(ShapesDetection, self).__init__()
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.RandomState(index)
        image = rng.rand(3, INPUT_SIZE, INPUT_SIZE).astype(np.float32)
        count = rng.randint(1, MAX_BOXES)
        boxes = np.zeros((count, 5), np.float32)
        for k in range(count):
            w, h = rng.randint(10, INPUT_SIZE // 2, size=2)
            cx = rng.randint(w // 2 + 1, INPUT_SIZE - w // 2)
            cy = rng.randint(h // 2 + 1, INPUT_SIZE - h // 2)
            cls = rng.randint(NUM_CLASSES)
            boxes[k] = (cx, cy, w, h, cls)
            x0, y0 = int(cx - w / 2), int(cy - h / 2)
            image[cls % 3, y0:y0 + h, x0:x0 + w] += 0.5
        return image, boxes


def wh_iou(a, b):
    inter = np.minimum(a[0], b[:, 0]) * np.minimum(a[1], b[:, 1])
    return inter / (a[0] * a[1] + b[:, 0] * b[:, 1] - inter + 1e-9)


def assign(boxes):
    all_anchors = np.array(ANCHORS, dtype=np.float32).reshape(-1, 2)
    targets = []
    for stride in STRIDES:
        g = INPUT_SIZE // stride
        targets.append(np.zeros((3, g, g, 6 + NUM_CLASSES), np.float32))
    for cx, cy, w, h, cls in boxes:
        best = int(np.argmax(wh_iou((w, h), all_anchors)))
        level, a = divmod(best, 3)
        stride = STRIDES[level]
        i, j = int(cx / stride), int(cy / stride)
        t = targets[level][a, j, i]
        t[0] = cx / stride - i
        t[1] = cy / stride - j
        t[2] = math.log(w / all_anchors[best][0])
        t[3] = math.log(h / all_anchors[best][1])
        t[4] = 1.0
        t[5] = 2.0 - w * h / INPUT_SIZE ** 2
        t[6 + int(cls)] = 1.0
    return targets


def collate_fn(samples):
    images = np.stack([s[0] for s in samples])
    per_level = [[], [], []]
    for _, boxes in samples:
        for lvl, t in enumerate(assign(boxes)):
            per_level[lvl].append(t)
    return [images] + [np.stack(t) for t in per_level]


class ConvBNLayer(nn.Layer):
    def __init__(self, ch_in, ch_out, k=3, s=1, g=1, act="leaky"):
        super(ConvBNLayer, self).__init__()
        self.conv = nn.Conv2D(ch_in, ch_out, k, s, (k - 1) // 2, groups=g, bias_attr=False)
        self.bn = nn.BatchNorm2D(
            ch_out,
            weight_attr=paddle.ParamAttr(regularizer=paddle.regularizer.L2Decay(0.0)),
            bias_attr=paddle.ParamAttr(regularizer=paddle.regularizer.L2Decay(0.0)))
        self.act = act

    def forward(self, x):
        out = self.bn(self.conv(x))
        if self.act == "leaky":
            out = F.leaky_relu(out, 0.1)
        return out


class Residual(nn.Layer):
    def __init__(self, ch):
        super(Residual, self).__init__()
        self.a = ConvBNLayer(ch, ch // 2, 1)
        self.b = ConvBNLayer(ch // 2, ch, 3)

    def forward(self, x):
        return paddle.add(x, self.b(self.a(x)))


class Darknet(nn.Layer):
    def __init__(self, widths=(16, 32, 64, 128, 256), repeats=(1, 1, 2, 2, 1)):
        super(Darknet, self).__init__()
        self.stem = ConvBNLayer(3, 8)
        self.blocks = []
        ch = 8
        for i, (w, r) in enumerate(zip(widths, repeats)):
            layers = [ConvBNLayer(ch, w, 3, 2)] + [Residual(w) for _ in range(r)]
            self.blocks.append(self.add_sublayer("stage_%d" % i, nn.Sequential(*layers)))
            ch = w

    def forward(self, x):
        feats = []
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i >= 2:
                feats.append(x)
        return feats


class Neck(nn.Layer):
    def __init__(self, chs=(64, 128, 256), out=64):
        super(Neck, self).__init__()
        self.lateral = nn.LayerList([ConvBNLayer(c, out, 1) for c in chs])
        self.fuse = nn.LayerList([ConvBNLayer(2 * out, out, 3) for _ in range(2)])
        self.tips = nn.LayerList([ConvBNLayer(out, 2 * out, 3) for _ in chs])

    def forward(self, feats):
        lat = [l(f) for l, f in zip(self.lateral, feats)]
        outs = [lat[-1]]
        for i in range(len(lat) - 2, -1, -1):
            up = F.interpolate(outs[0], scale_factor=2.0, mode="nearest")
            outs.insert(0, self.fuse[i](paddle.concat([up, lat[i]], axis=1)))
        return [t(o) for t, o in zip(self.tips, outs)]


class YOLO(nn.Layer):
    def __init__(self):
        super(YOLO, self).__init__()
        self.backbone = Darknet()
        self.neck = Neck()
        self.heads = nn.LayerList([
            nn.Conv2D(128, 3 * (5 + NUM_CLASSES), 1) for _ in STRIDES])

    def forward(self, x):
        outs = []
        for head, f in zip(self.heads, self.neck(self.backbone(x))):
            y = head(f)
            b, _, h, w = y.shape
            y = y.reshape([b, 3, 5 + NUM_CLASSES, h, w]).transpose([0, 1, 3, 4, 2])
            outs.append(y)
        return outs


def yolo_loss(pred, target):
    obj = target[..., 4:5]
    scale = target[..., 5:6] * obj
    xy = F.binary_cross_entropy_with_logits(pred[..., 0:2], target[..., 0:2], reduction="none")
    wh = F.l1_loss(pred[..., 2:4], target[..., 2:4], reduction="none")
    conf = F.binary_cross_entropy_with_logits(pred[..., 4:5], obj, reduction="none")
    cls = F.binary_cross_entropy_with_logits(pred[..., 5:], target[..., 6:], reduction="none")
    n = pred.shape[0]
    return {
        "xy": (xy * scale).sum() / n,
        "wh": (wh * scale).sum() / n,
        "obj": conf.sum() / n,
        "cls": (cls * obj).sum() / n,
    }


def train():
    random.seed(0)
    np.random.seed(0)
    paddle.seed(0)
    dataset = ShapesDetection()
    sampler = BatchSampler(dataset, batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate_fn, num_workers=2,
                        return_list=True)
    net = YOLO()
    steps = len(loader) * EPOCHS
    lr = paddle.optimizer.lr.PiecewiseDecay([steps // 2, steps * 3 // 4],
                                            [BASE_LR, BASE_LR * 0.1, BASE_LR * 0.01])
    clip = nn.ClipGradByNorm(clip_norm=35.0)
    optim = paddle.optimizer.Adam(lr, parameters=net.parameters(), weight_decay=5e-4,
                                  grad_clip=clip)
    net.train()
    for epoch in range(EPOCHS):
        for it, data in enumerate(loader):
            image, targets = data[0], data[1:]
            outputs = net(image)
            total = {}
            for o, t in zip(outputs, targets):
                for key, value in yolo_loss(o, t).items():
                    total[key] = total[key] + value if key in total else value
            loss = sum(total.values())
            loss.backward()
            optim.step()
            lr.step()
            optim.clear_grad()
            if it % 5 == 0:
                text = ", ".join("%s %.3f" % (k, v.item()) for k, v in total.items())
                print("epoch %d iter %d loss %.3f (%s)" % (epoch, it, loss.item(), text))


if __name__ == '__main__':
    train()
