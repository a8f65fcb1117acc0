# Batch-hard triplet + supervised contrastive learning, PK sampling (P identities x K images)
from dataclasses import dataclass

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import BatchSampler, DataLoader, Dataset

BATCH_SIZE = 32          # must be a multiple of INSTANCES


@dataclass
class Cfg:
    instances: int = 4
    num_ids: int = 60
    per_id: int = 10
    height: int = 96
    width: int = 48
    width_mult: int = 32
    feat_dim: int = 256
    margin: float = 0.3
    temperature: float = 0.1
    steps: int = 8
    lr: float = 3.5e-4


class ReIDDataset(Dataset):
    def __init__(self, cfg):
        self.cfg = cfg
        self.pids = np.repeat(np.arange(cfg.num_ids), cfg.per_id)
        self.proto = np.random.RandomState(0).rand(cfg.num_ids, 3, 6, 3).astype('float32')

    def __getitem__(self, i):
        pid = self.pids[i]
        up = np.kron(self.proto[pid], np.ones((1, self.cfg.height // 6, self.cfg.width // 3), 'float32'))
        noise = np.random.RandomState(i).normal(0, 0.1, up.shape).astype('float32')
        return up + noise, np.int64(pid)

    def __len__(self):
        return len(self.pids)


class PKSampler(BatchSampler):
    def __init__(self, pids, batch_size, k, steps):
        assert batch_size % k == 0
        self.p, self.k, self.steps = batch_size // k, k, steps
        self.index = {}
        for i, pid in enumerate(pids):
            self.index.setdefault(int(pid), []).append(i)
        self.ids = sorted(self.index)
        self.rng = np.random.RandomState(3)

    def __iter__(self):
        for _ in range(self.steps):
            chosen = self.rng.choice(self.ids, self.p, replace=False)
            batch = []
            for pid in chosen:
                batch.extend(self.rng.choice(self.index[int(pid)], self.k, replace=False).tolist())
            yield batch

    def __len__(self):
        return self.steps


class Bottleneck(nn.Layer):
    def __init__(self, cin, mid, stride=1):
        super().__init__()
        cout = mid * 2
        self.body = nn.Sequential(
            nn.Conv2D(cin, mid, 1, bias_attr=False), nn.BatchNorm2D(mid), nn.ReLU(),
            nn.Conv2D(mid, mid, 3, stride, 1, bias_attr=False), nn.InstanceNorm2D(mid), nn.ReLU(),
            nn.Conv2D(mid, cout, 1, bias_attr=False), nn.BatchNorm2D(cout))
        self.short = None
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2D(cin, cout, 1, stride, bias_attr=False), nn.BatchNorm2D(cout))

    def forward(self, x):
        return F.relu(self.body(x) + (x if self.short is None else self.short(x)))


class ReIDNet(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width_mult
        self.stem = nn.Sequential(nn.Conv2D(3, w, 5, 2, 2, bias_attr=False), nn.BatchNorm2D(w), nn.ReLU())
        self.stages = nn.Sequential(Bottleneck(w, w), Bottleneck(2 * w, w), Bottleneck(2 * w, 2 * w, 2),
                                    Bottleneck(4 * w, 2 * w), Bottleneck(4 * w, 4 * w, 2))
        self.embed = nn.Linear(8 * w, cfg.feat_dim)
        self.bnneck = nn.BatchNorm1D(cfg.feat_dim)
        self.classifier = nn.Linear(cfg.feat_dim, cfg.num_ids, bias_attr=False)

    def forward(self, x):
        f = self.stages(self.stem(x))
        f = F.adaptive_avg_pool2d(f, 1) + F.adaptive_max_pool2d(f, 1)
        feat = self.embed(f.flatten(1))
        return feat, self.classifier(self.bnneck(feat))


def batch_hard_triplet(feat, pid, margin):
    sq = (feat * feat).sum(1, keepdim=True)
    dist = (sq + sq.t() - 2 * paddle.matmul(feat, feat, transpose_y=True)).clip(min=1e-12).sqrt()
    same = (pid.unsqueeze(0) == pid.unsqueeze(1)).astype('float32')
    hardest_pos = (dist * same).max(axis=1)
    hardest_neg = (dist + same * 1e6).min(axis=1)
    return F.relu(hardest_pos - hardest_neg + margin).mean()


def supcon(feat, pid, temperature):
    z = F.normalize(feat, axis=1)
    n = z.shape[0]
    eye = paddle.eye(n)
    logits = paddle.matmul(z, z, transpose_y=True) / temperature - eye * 1e9
    log_prob = F.log_softmax(logits, axis=1)
    pos = (pid.unsqueeze(0) == pid.unsqueeze(1)).astype('float32') - eye
    return -((log_prob * pos).sum(1) / pos.sum(1)).mean()


def train(cfg):
    paddle.seed(0)
    ds = ReIDDataset(cfg)
    loader = DataLoader(ds, batch_sampler=PKSampler(ds.pids, BATCH_SIZE, cfg.instances, cfg.steps))
    net = ReIDNet(cfg)
    opt = paddle.optimizer.Adam(cfg.lr, parameters=net.parameters(), weight_decay=5e-4)
    net.train()
    for step, (img, pid) in enumerate(loader):
        feat, logit = net(img)
        id_loss = F.cross_entropy(logit, pid)
        tri = batch_hard_triplet(feat, pid, cfg.margin)
        con = supcon(feat, pid, cfg.temperature)
        loss = id_loss + tri + 0.5 * con
        opt.clear_grad()
        loss.backward()
        opt.step()
        print(f'step {step}: id {float(id_loss):.3f} tri {float(tri):.3f} con {float(con):.3f}')


if __name__ == '__main__':
    train(Cfg())
