# R(2+1)D / C3D style action recognition on synthetic clips.
# usage: python video_r2plus1d.py --arch r2plus1d --batch_size 4 --frames 8
import argparse

import numpy as np
import paddle
import paddle.nn as nn
from paddle.io import DataLoader, IterableDataset, Dataset

MODELS = {}


def register(name):
    def deco(fn):
        MODELS[name] = fn
        return fn
    return deco


class MovingSquares(Dataset):
    """A bright square that moves in one of `num_classes` directions."""

    def __init__(self, n_clips, frames, size, num_classes):
        super(MovingSquares, self).__init__()
        self.n_clips, self.frames, self.size, self.num_classes = n_clips, frames, size, num_classes

    def __getitem__(self, index):
        label = index % self.num_classes
        ang = 2 * np.pi * label / self.num_classes
        rng = np.random.RandomState(index)
        clip = rng.rand(3, self.frames, self.size, self.size).astype(np.float32) * 0.3
        pos = np.array([self.size / 2.0, self.size / 2.0])
        for f in range(self.frames):
            y, x = np.clip(pos, 0, self.size - 9).astype(int)
            clip[:, f, y:y + 8, x:x + 8] = 1.0
            pos += 2.5 * np.array([np.sin(ang), np.cos(ang)])
        return clip, np.int64(label)

    def __len__(self):
        return self.n_clips


class Conv2Plus1D(nn.Layer):
    def __init__(self, cin, cout, stride=1):
        super(Conv2Plus1D, self).__init__()
        mid = (cin * cout * 27) // (cin * 9 + 3 * cout)
        self.spatial = nn.Conv3D(cin, mid, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias_attr=False)
        self.bn = nn.BatchNorm3D(mid)
        self.relu = nn.ReLU()
        self.temporal = nn.Conv3D(mid, cout, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias_attr=False)

    def forward(self, x):
        return self.temporal(self.relu(self.bn(self.spatial(x))))


class Plain3D(nn.Layer):
    def __init__(self, cin, cout, stride=1):
        super(Plain3D, self).__init__()
        self.conv = nn.Conv3D(cin, cout, 3, stride, 1, bias_attr=False)

    def forward(self, x):
        return self.conv(x)


class ResBlock3D(nn.Layer):
    def __init__(self, conv, cin, cout, stride):
        super(ResBlock3D, self).__init__()
        self.conv1, self.bn1 = conv(cin, cout, stride), nn.BatchNorm3D(cout)
        self.conv2, self.bn2 = conv(cout, cout), nn.BatchNorm3D(cout)
        self.relu = nn.ReLU()
        if stride != 1 or cin != cout:
            self.proj = nn.Sequential(nn.Conv3D(cin, cout, 1, stride, bias_attr=False), nn.BatchNorm3D(cout))
        else:
            self.proj = None

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        res = self.proj(x) if self.proj is not None else x
        return self.relu(out + res)


class VideoNet(nn.Layer):
    def __init__(self, conv, num_classes, width=16, dropout=0.3):
        super(VideoNet, self).__init__()
        self.stem = nn.Sequential(
            nn.Conv3D(3, width, (3, 5, 5), (1, 2, 2), (1, 2, 2), bias_attr=False),
            nn.BatchNorm3D(width), nn.ReLU())
        self.layer1 = ResBlock3D(conv, width, width, 1)
        self.layer2 = ResBlock3D(conv, width, width * 2, 2)
        self.layer3 = ResBlock3D(conv, width * 2, width * 4, 2)
        self.pool = nn.AdaptiveAvgPool3D(1)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(width * 4, num_classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        x = paddle.flatten(self.pool(x), 1)
        return self.fc(self.dropout(x))


@register('r2plus1d')
def r2plus1d(num_classes, width):
    return VideoNet(Conv2Plus1D, num_classes, width)


@register('r3d')
def r3d(num_classes, width):
    return VideoNet(Plain3D, num_classes, width)


class AverageMeter(object):
    def __init__(self):
        self.sum, self.cnt = 0.0, 0

    def update(self, v, n=1):
        self.sum += v * n
        self.cnt += n

    @property
    def avg(self):
        return self.sum / max(self.cnt, 1)


def train_one_epoch(model, loader, opt, criterion, epoch, args):
    model.train()
    losses, top1 = AverageMeter(), AverageMeter()
    for i, (clips, labels) in enumerate(loader):
        logits = model(clips)
        loss = criterion(logits, labels)
        opt.clear_grad()
        loss.backward()
        opt.step()
        acc = paddle.metric.accuracy(logits, labels.unsqueeze(1))
        losses.update(loss.item(), clips.shape[0])
        top1.update(acc.item(), clips.shape[0])
        if i % args.print_freq == 0:
            print('Epoch [{}][{}/{}] loss {:.4f} top1 {:.3f}'.format(epoch, i, len(loader), losses.avg, top1.avg))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--arch', choices=sorted(MODELS), default='r2plus1d')
    parser.add_argument('--batch_size', '-b', type=int, default=4)
    parser.add_argument('--frames', type=int, default=8)
    parser.add_argument('--size', type=int, default=56)
    parser.add_argument('--width', type=int, default=16)
    parser.add_argument('--num_classes', type=int, default=8)
    parser.add_argument('--clips', type=int, default=48)
    parser.add_argument('--epochs', type=int, default=1)
    parser.add_argument('--lr', type=float, default=0.01)
    parser.add_argument('--print_freq', type=int, default=2)
    args = parser.parse_args()

    paddle.seed(100)
    data = MovingSquares(args.clips, args.frames, args.size, args.num_classes)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = MODELS[args.arch](args.num_classes, args.width)
    sched = paddle.optimizer.lr.MultiStepDecay(args.lr, milestones=[10, 20], gamma=0.1)
    opt = paddle.optimizer.Momentum(sched, 0.9, parameters=model.parameters(), weight_decay=5e-4,
                                    use_nesterov=True)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        train_one_epoch(model, loader, opt, criterion, epoch, args)
        sched.step()


if __name__ == '__main__':
    main()
