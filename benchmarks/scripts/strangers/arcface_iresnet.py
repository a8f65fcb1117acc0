import argparse
import math

import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F
from paddle.io import Dataset, DataLoader


def conv3x3(i, o, stride=1):
    return nn.Conv2D(i, o, 3, stride=stride, padding=1, bias_attr=False)


class IBasicBlock(nn.Layer):
    def __init__(self, inp, planes, stride=1):
        super(IBasicBlock, self).__init__()
        self.bn1 = nn.BatchNorm2D(inp, epsilon=1e-5)
        self.conv1 = conv3x3(inp, planes)
        self.bn2 = nn.BatchNorm2D(planes, epsilon=1e-5)
        self.prelu = nn.PReLU(planes)
        self.conv2 = conv3x3(planes, planes, stride)
        self.bn3 = nn.BatchNorm2D(planes, epsilon=1e-5)
        self.downsample = None
        if stride != 1 or inp != planes:
            self.downsample = nn.Sequential(
                nn.Conv2D(inp, planes, 1, stride=stride, bias_attr=False), nn.BatchNorm2D(planes))

    def forward(self, x):
        idt = x if self.downsample is None else self.downsample(x)
        y = self.bn3(self.conv2(self.prelu(self.bn2(self.conv1(self.bn1(x))))))
        return y + idt


class IResNet(nn.Layer):
    def __init__(self, layers, widths=(32, 64, 96, 128), feat=256, size=56):
        super(IResNet, self).__init__()
        self.stem = nn.Sequential(conv3x3(3, widths[0]), nn.BatchNorm2D(widths[0]), nn.PReLU(widths[0]))
        inp = widths[0]
        stages = []
        for n, w in zip(layers, widths):
            blocks = [IBasicBlock(inp, w, 2)] + [IBasicBlock(w, w) for _ in range(n - 1)]
            stages.append(nn.Sequential(*blocks))
            inp = w
        self.stages = nn.Sequential(*stages)
        self.bn = nn.BatchNorm2D(inp)
        self.drop = nn.Dropout(0.4)
        side = math.ceil(size / 16)
        self.fc = nn.Linear(inp * side * side, feat)
        self.features = nn.BatchNorm1D(feat)

    def forward(self, x):
        x = self.bn(self.stages(self.stem(x)))
        x = self.drop(x.flatten(1))
        return self.features(self.fc(x))


class ArcFace(nn.Layer):
    def __init__(self, feat, num_classes, s=64.0, m=0.5):
        super(ArcFace, self).__init__()
        self.weight = self.create_parameter([feat, num_classes], default_initializer=nn.initializer.Normal(0, 0.01))
        self.s, self.m = s, m
        self.num_classes = num_classes

    def forward(self, x, label):
        x = F.normalize(x, axis=1)
        w = F.normalize(self.weight, axis=0)
        cos = paddle.matmul(x, w).clip(-1 + 1e-6, 1 - 1e-6)
        theta = paddle.acos(cos)
        one_hot = F.one_hot(label, self.num_classes)
        logits = paddle.cos(theta + one_hot * self.m) * self.s
        return F.cross_entropy(logits, label)


class FaceSet(Dataset):
    def __init__(self, n, ids, size):
        super(FaceSet, self).__init__()
        self.n, self.ids, self.size = n, ids, size

    def __getitem__(self, i):
        r = np.random.RandomState(i)
        img = r.randint(0, 256, (3, self.size, self.size)).astype('float32')
        if r.rand() > 0.5:
            img = img[:, :, ::-1]
        return (img - 127.5) / 127.5, np.int64(i % self.ids)

    def __len__(self):
        return self.n


def parse():
    ap = argparse.ArgumentParser('ArcFace')
    ap.add_argument('--depth', default='r18', choices=['r18', 'r34'])
    ap.add_argument('--num-ids', type=int, default=8500)
    ap.add_argument('--bs', type=int, default=32)
    ap.add_argument('--img-size', type=int, default=56)
    ap.add_argument('--epochs', type=int, default=1)
    ap.add_argument('--iters-per-epoch', type=int, default=5)
    ap.add_argument('--wd', type=float, default=5e-4)
    ap.add_argument('--fp16', action='store_true')
    ap.add_argument('--save', default=None)
    return ap.parse_args()


if __name__ == '__main__':
    opt = parse()
    cfg = {'r18': [2, 2, 2, 2], 'r34': [3, 4, 6, 3]}[opt.depth]
    backbone = IResNet(cfg, size=opt.img_size)
    head = ArcFace(256, opt.num_ids)
    ds = FaceSet(opt.bs * opt.iters_per_epoch, opt.num_ids, opt.img_size)
    loader = DataLoader(ds, batch_size=opt.bs, shuffle=True, drop_last=True, num_workers=0)
    sched = paddle.optimizer.lr.PolynomialDecay(0.02, opt.epochs * len(loader), power=2)
    sgd = paddle.optimizer.Momentum(
        sched, 0.9, parameters=backbone.parameters() + head.parameters(), weight_decay=opt.wd,
        grad_clip=nn.ClipGradByGlobalNorm(5.0))
    scaler = paddle.amp.GradScaler(enable=opt.fp16)
    for ep in range(opt.epochs):
        backbone.train()
        for it, (img, y) in enumerate(loader):
            with paddle.amp.auto_cast(enable=opt.fp16):
                feat = backbone(img)
            loss = head(feat.astype('float32'), y)
            scaler.scale(loss).backward()
            scaler.step(sgd)
            scaler.update()
            sgd.clear_grad()
            sched.step()
            print('epoch %d it %d loss %.3f lr %.5f' % (ep, it, loss.item(), sched.get_lr()))
        if opt.save:
            paddle.save(backbone.state_dict(), opt.save)
