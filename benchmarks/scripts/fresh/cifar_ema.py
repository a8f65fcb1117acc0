"""CIFAR-style ResNet training with warmup, label smoothing and an exponential moving average.

Runs on random images so that it can be tried without a download.
"""
import argparse
import time
from copy import deepcopy

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset
from paddle.optimizer.lr import CosineAnnealingDecay, LinearWarmup


class RandomCifar(Dataset):
    def __init__(self, n, train=True, seed=0):
        super().__init__()
        rng = np.random.RandomState(seed)
        self.images = rng.randint(0, 256, size=(n, 3, 32, 32)).astype("uint8")
        self.labels = rng.randint(0, 10, size=(n,)).astype("int64")
        self.train = train
        self.mean = np.array([0.4914, 0.4822, 0.4465], dtype="float32")[:, None, None]
        self.std = np.array([0.247, 0.243, 0.261], dtype="float32")[:, None, None]

    def __getitem__(self, i):
        img = self.images[i].astype("float32") / 255.0
        if self.train and np.random.rand() < 0.5:
            img = img[:, :, ::-1]
        img = (img - self.mean) / self.std
        return np.ascontiguousarray(img), self.labels[i]

    def __len__(self):
        return len(self.images)


class PreActBlock(nn.Layer):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.bn1 = nn.BatchNorm2D(cin)
        self.conv1 = nn.Conv2D(cin, cout, 3, stride=stride, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(cout)
        self.conv2 = nn.Conv2D(cout, cout, 3, padding=1, bias_attr=False)
        self.shortcut = None
        if stride != 1 or cin != cout:
            self.shortcut = nn.Conv2D(cin, cout, 1, stride=stride, bias_attr=False)

    def forward(self, x):
        h = F.relu(self.bn1(x))
        skip = self.shortcut(h) if self.shortcut is not None else x
        h = self.conv1(h)
        h = self.conv2(F.relu(self.bn2(h)))
        return h + skip


class ResNet(nn.Layer):
    def __init__(self, depth=20, widths=(16, 32, 64), num_classes=10):
        super().__init__()
        assert (depth - 2) % 6 == 0, "depth must be 6n+2"
        n = (depth - 2) // 6
        self.stem = nn.Conv2D(3, widths[0], 3, padding=1, bias_attr=False)
        stages = []
        cin = widths[0]
        for s, w in enumerate(widths):
            blocks = []
            for i in range(n):
                blocks.append(PreActBlock(cin, w, stride=2 if (s > 0 and i == 0) else 1))
                cin = w
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.LayerList(stages)
        self.norm = nn.BatchNorm2D(cin)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.fc = nn.Linear(cin, num_classes)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, nn.Conv2D):
            nn.initializer.KaimingNormal()(m.weight)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        x = self.pool(F.relu(self.norm(x)))
        return self.fc(x.flatten(1))


class SmoothCE(nn.Layer):
    def __init__(self, classes, eps=0.1):
        super().__init__()
        self.classes = classes
        self.eps = eps

    def forward(self, logits, target):
        logp = F.log_softmax(logits, axis=-1)
        onehot = F.one_hot(target, self.classes)
        soft = onehot * (1 - self.eps) + self.eps / self.classes
        return -(soft * logp).sum(axis=-1).mean()


class ModelEMA:
    def __init__(self, model, decay=0.999):
        self.module = deepcopy(model)
        self.module.eval()
        self.decay = decay
        self.updates = 0
        for p in self.module.parameters():
            p.stop_gradient = True

    @paddle.no_grad()
    def update(self, model):
        self.updates += 1
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        msd = model.state_dict()
        for k, v in self.module.state_dict().items():
            if v.dtype == paddle.float32:
                v.set_value(v * d + msd[k] * (1.0 - d))


@paddle.no_grad()
def evaluate(model, loader):
    model.eval()
    right, total = 0, 0
    for x, y in loader:
        pred = model(x).argmax(axis=1)
        right += int((pred == y).sum())
        total += y.shape[0]
    return right / max(total, 1)


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("-b", "--batch-size", type=int, default=128)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--depth", type=int, default=20)
    p.add_argument("--train-size", type=int, default=2048)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--no-ema", dest="ema", action="store_false")
    return p.parse_args()


def main():
    args = get_args()
    paddle.seed(42)
    np.random.seed(42)
    train = DataLoader(RandomCifar(args.train_size), batch_size=args.batch_size, shuffle=True,
                       drop_last=True, num_workers=0)
    val = DataLoader(RandomCifar(256, train=False, seed=1), batch_size=args.batch_size)
    model = ResNet(args.depth)
    criterion = SmoothCE(10, args.smoothing)
    total_steps = args.epochs * len(train)
    sched = LinearWarmup(CosineAnnealingDecay(args.lr, total_steps), warmup_steps=5,
                         start_lr=1e-4, end_lr=args.lr)
    opt = paddle.optimizer.Momentum(learning_rate=sched, momentum=0.9, use_nesterov=True,
                                    weight_decay=paddle.regularizer.L2Decay(5e-4),
                                    parameters=model.parameters())
    ema = ModelEMA(model) if args.ema else None
    history = []
    for epoch in range(args.epochs):
        model.train()
        tic = time.time()
        losses = []
        for step, (images, labels) in enumerate(train):
            logits = model(images)
            loss = criterion(logits, labels)
            loss.backward()
            opt.step()
            opt.clear_grad()
            sched.step()
            if ema is not None:
                ema.update(model)
            losses.append(float(loss))
        acc = evaluate(model, val)
        ema_acc = evaluate(ema.module, val) if ema is not None else 0.0
        history.append((sum(losses) / len(losses), acc, ema_acc))
        print(f"epoch {epoch}: loss {history[-1][0]:.4f} acc {acc:.3f} ema {ema_acc:.3f} "
              f"lr {opt.get_lr():.4f} {time.time() - tic:.1f}s")


if __name__ == "__main__":
    main()
