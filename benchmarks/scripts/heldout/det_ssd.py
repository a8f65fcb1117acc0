"""Single-shot detector on synthetic rectangles: three feature levels, prior boxes, hard negative mining."""

import argparse
import itertools
import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset


def conv(cin, cout, k=3, s=1, p=None):
    return nn.Sequential(
        nn.Conv2D(cin, cout, k, stride=s, padding=k // 2 if p is None else p, bias_attr=False),
        nn.BatchNorm2D(cout),
        nn.ReLU(),
    )


def make_priors(size, strides, scales, ratios):
    boxes = []
    for stride, scale in zip(strides, scales):
        cells = size // stride
        for i, j in itertools.product(range(cells), repeat=2):
            cx, cy = (j + 0.5) / cells, (i + 0.5) / cells
            for r in ratios:
                boxes.append([cx, cy, scale * math.sqrt(r), scale / math.sqrt(r)])
    return np.clip(np.array(boxes, dtype="float32"), 0, 1)


class Rectangles(Dataset):
    def __init__(self, priors, size, num_classes, count):
        self.priors, self.size, self.num_classes, self.count = priors, size, num_classes, count

    def __getitem__(self, idx):
        rng = np.random.RandomState(idx)
        image = rng.rand(3, self.size, self.size).astype("float32")
        centre = rng.uniform(0.3, 0.7, 2)
        extent = rng.uniform(0.1, 0.5, 2)
        box = np.concatenate([centre, extent]).astype("float32")
        cls = rng.randint(1, self.num_classes)
        lo = np.maximum(self.priors[:, :2] - self.priors[:, 2:] / 2, box[:2] - box[2:] / 2)
        hi = np.minimum(self.priors[:, :2] + self.priors[:, 2:] / 2, box[:2] + box[2:] / 2)
        inter = np.prod(np.clip(hi - lo, 0, None), axis=1)
        union = np.prod(self.priors[:, 2:], axis=1) + box[2] * box[3] - inter
        iou = inter / union
        iou[iou.argmax()] = 1.0
        labels = np.where(iou > 0.5, cls, 0).astype("int64")
        offsets = np.concatenate(
            [
                (box[:2] - self.priors[:, :2]) / (0.1 * self.priors[:, 2:]),
                np.log(box[2:] / self.priors[:, 2:]) / 0.2,
            ],
            axis=1,
        ).astype("float32")
        return image, offsets, labels

    def __len__(self):
        return self.count


class SSD(nn.Layer):
    def __init__(self, num_classes, num_anchors, width=32):
        super().__init__()
        self.num_classes = num_classes
        self.stem = nn.Sequential(conv(3, width, s=2), conv(width, width), conv(width, 2 * width, s=2))
        self.stages = nn.LayerList()
        self.loc = nn.LayerList()
        self.conf = nn.LayerList()
        cin = 2 * width
        for cout in (4 * width, 4 * width, 6 * width):
            self.stages.append(nn.Sequential(conv(cin, cout, s=2), conv(cout, cout)))
            self.loc.append(nn.Conv2D(cout, num_anchors * 4, 3, padding=1))
            self.conf.append(nn.Conv2D(cout, num_anchors * num_classes, 3, padding=1))
            cin = cout

    def forward(self, x):
        x = self.stem(x)
        locs, confs = [], []
        for stage, loc, conf in zip(self.stages, self.loc, self.conf):
            x = stage(x)
            l, c = loc(x), conf(x)
            locs.append(l.transpose([0, 2, 3, 1]).reshape([l.shape[0], -1, 4]))
            confs.append(c.transpose([0, 2, 3, 1]).reshape([c.shape[0], -1, self.num_classes]))
        return paddle.concat(locs, axis=1), paddle.concat(confs, axis=1)


class MultiBoxLoss(nn.Layer):
    def __init__(self, neg_ratio=3):
        super().__init__()
        self.neg_ratio = neg_ratio

    def forward(self, loc, conf, gt_loc, gt_cls):
        positive = (gt_cls > 0).astype("float32")
        n_pos = paddle.clip(positive.sum(), min=1.0)
        reg = F.smooth_l1_loss(loc, gt_loc, reduction="none").sum(axis=-1)
        reg = (reg * positive).sum() / n_pos
        ce = F.cross_entropy(conf, gt_cls.unsqueeze(-1), reduction="none").squeeze(-1)
        with paddle.no_grad():
            mining = ce * (1.0 - positive)
            rank = paddle.argsort(paddle.argsort(mining, axis=1, descending=True), axis=1)
            k = self.neg_ratio * positive.sum(axis=1, keepdim=True)
            negative = (rank.astype("float32") < k).astype("float32")
        cls = (ce * (positive + negative)).sum() / n_pos
        return reg, cls


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-b", "--batch-size", type=int, default=16, metavar="N")
    ap.add_argument("--image-size", type=int, default=128)
    ap.add_argument("--num-classes", type=int, default=8)
    ap.add_argument("--ratios", type=float, nargs="+", default=[1.0, 2.0, 0.5])
    ap.add_argument("--momentum", type=float, default=0.9)
    ap.add_argument("--iters", type=int, default=500)
    args = ap.parse_args(argv)

    strides = [8, 16, 32]
    scales = [0.15, 0.35, 0.6]
    priors = make_priors(args.image_size, strides, scales, args.ratios)
    model = SSD(args.num_classes, len(args.ratios))
    loss_fn = MultiBoxLoss()
    lr = paddle.optimizer.lr.PiecewiseDecay([300, 400], [1e-2, 1e-3, 1e-4])
    optimizer = paddle.optimizer.Momentum(
        learning_rate=lr, momentum=args.momentum, parameters=model.parameters(), weight_decay=5e-4
    )
    data = Rectangles(priors, args.image_size, args.num_classes, args.iters * args.batch_size)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True, num_workers=4)
    model.train()
    for it, (image, gt_loc, gt_cls) in enumerate(loader):
        loc, conf = model(image)
        reg, cls = loss_fn(loc, conf, gt_loc, gt_cls)
        total = reg + cls
        optimizer.clear_grad()
        total.backward()
        optimizer.step()
        lr.step()
        if it % 10 == 0:
            print("iter {:4d}  loc {:.3f}  conf {:.3f}".format(it, reg.item(), cls.item()))


if __name__ == "__main__":
    main()
