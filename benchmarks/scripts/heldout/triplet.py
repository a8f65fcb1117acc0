"""Metric learning: three pictures through one embedding net, batch-hard mining added."""
from argparse import ArgumentParser
from types import SimpleNamespace

import numpy as np
import paddle
from paddle import nn, optimizer
from paddle.nn import functional as F
from paddle.vision.models import ResNet
from paddle.vision.models.resnet import BasicBlock

HP = SimpleNamespace(batch_size=16, side=64, embed=128, margin=0.3, people=200, epochs=5)


class Triplets(paddle.io.Dataset):
    def __init__(self, length=3000):
        super().__init__()
        self.length = length

    def picture(self, person, rng):
        base = np.random.RandomState(person).rand(3, HP.side, HP.side)
        return (base + 0.1 * rng.randn(3, HP.side, HP.side)).astype("float32")

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        a, b = rng.choice(HP.people, 2, replace=False)
        return self.picture(a, rng), self.picture(a, rng), self.picture(b, rng), np.int64(a), np.int64(b)

    def __len__(self):
        return self.length


class GeM(nn.Layer):
    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.p = self.create_parameter([1], default_initializer=nn.initializer.Constant(p))
        self.eps = eps

    def forward(self, x):
        return F.adaptive_avg_pool2d(x.clip(min=self.eps).pow(self.p), 1).pow(1.0 / self.p)


class Embedder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.trunk = ResNet(BasicBlock, depth=18, num_classes=-1, with_pool=False)
        self.pool = GeM()
        self.neck = nn.BatchNorm1D(512)
        self.fc = nn.Linear(512, HP.embed, bias_attr=False)

    def forward(self, x):
        x = self.pool(self.trunk(x)).flatten(1)
        return F.normalize(self.fc(self.neck(x)), axis=1)


def pairwise(x):
    dot = paddle.matmul(x, x.t())
    return paddle.sqrt(paddle.clip(2.0 - 2.0 * dot, min=1e-12))


def batch_hard(embedding, ids, margin):
    dist = pairwise(embedding)
    same = (ids.unsqueeze(0) == ids.unsqueeze(1)).astype("float32")
    far = (dist * same).max(axis=1)
    near = (dist + 10.0 * same).min(axis=1)
    return F.relu(far - near + margin).mean()


def train(hp):
    net = Embedder()
    opt = optimizer.SGD(learning_rate=0.05, parameters=net.parameters(), weight_decay=1e-4)
    loader = paddle.io.DataLoader(Triplets(), batch_size=hp.batch_size, shuffle=True, drop_last=True)
    triplet = nn.TripletMarginLoss(margin=hp.margin)
    for epoch in range(hp.epochs):
        for anchor, positive, negative, a, b in loader:
            ea, ep, en = net(anchor), net(positive), net(negative)
            loss = triplet(ea, ep, en)
            both = paddle.concat([ea, ep, en], axis=0)
            loss = loss + 0.5 * batch_hard(both, paddle.concat([a, a, b]), hp.margin)
            opt.clear_grad()
            loss.backward()
            opt.step()
            with paddle.no_grad():
                right = F.cosine_similarity(ea, ep) > F.cosine_similarity(ea, en)
                print("loss %.3f right %.2f" % (loss.item(), right.astype("float32").mean().item()))


if __name__ == "__main__":
    parser = ArgumentParser()
    for key, value in vars(HP).items():
        parser.add_argument(f"--{key}", type=type(value), default=value)
    HP.__dict__.update(vars(parser.parse_args()))
    train(HP)
