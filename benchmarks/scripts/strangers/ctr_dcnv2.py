# -*- coding: utf-8 -*-
"""DCN-V2 on display-ads logs. Offline training job, day-level increments."""
import argparse
import logging
import os
import time

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("ctr")

# slot name -> number of hash buckets
SLOTS = {
    "user_id": 60000, "item_id": 40000, "cate": 1200, "brand": 9000, "city": 400,
    "hour": 24, "week": 7, "device": 3000, "os": 12, "net": 6, "pos": 16, "query": 30000,
}
N_DENSE = 13
HIST_LEN = 30


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--batch_size", "-b", type=int, default=512)
    p.add_argument("--emb_dim", type=int, default=16)
    p.add_argument("--cross_layers", type=int, default=3)
    p.add_argument("--low_rank", type=int, default=64)
    p.add_argument("--hidden", type=str, default="400,400,200")
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--print_every", type=int, default=2)
    p.add_argument("--model_dir", default="")
    return p.parse_args()


class LowRankCross(nn.Layer):
    def __init__(self, dim, rank, n):
        super().__init__()
        self.us = nn.LayerList([nn.Linear(rank, dim) for _ in range(n)])
        self.vs = nn.LayerList([nn.Linear(dim, rank, bias_attr=False) for _ in range(n)])

    def forward(self, x0):
        x = x0
        for u, v in zip(self.us, self.vs):
            x = x0 * u(v(x)) + x
        return x


class DIN(nn.Layer):
    """attention pooling over clicked items"""

    def __init__(self, d):
        super().__init__()
        self.att = nn.Sequential(nn.Linear(4 * d, 36), nn.PReLU(), nn.Linear(36, 1))

    def forward(self, q, seq, mask):
        q = q.unsqueeze(1).expand([-1, HIST_LEN, -1])
        a = self.att(paddle.concat([q, seq, q - seq, q * seq], -1)).squeeze(-1)
        a = paddle.where(mask, a, paddle.full_like(a, -1e9))
        return paddle.bmm(F.softmax(a, -1).unsqueeze(1), seq).squeeze(1)


class DCNv2(nn.Layer):
    def __init__(self, args):
        super().__init__()
        d = args.emb_dim
        self.embs = nn.LayerDict({k: nn.Embedding(v, d) for k, v in SLOTS.items()})
        self.din = DIN(d)
        dim = len(SLOTS) * d + d + N_DENSE
        self.bn = nn.BatchNorm1D(N_DENSE)
        self.cross = LowRankCross(dim, args.low_rank, args.cross_layers)
        mlp, last = [], dim
        for h in [int(x) for x in args.hidden.split(",")]:
            mlp += [nn.Linear(last, h), nn.BatchNorm1D(h), nn.ReLU(), nn.Dropout(0.1)]
            last = h
        self.deep = nn.Sequential(*mlp)
        self.out = nn.Linear(dim + last, 1)

    def forward(self, sparse, dense, hist):
        es = [self.embs[k](sparse[:, i]) for i, k in enumerate(SLOTS)]
        h = self.embs["item_id"](hist)
        pooled = self.din(es[1], h, hist > 0)
        x = paddle.concat(es + [pooled, self.bn(dense)], axis=1)
        return self.out(paddle.concat([self.cross(x), self.deep(x)], 1)).squeeze(-1)


def read_day(bs, steps):
    rng = np.random.RandomState(20210)
    caps = np.array(list(SLOTS.values()))
    for _ in range(steps):
        sp = (rng.rand(bs, len(caps)) * caps).astype("int64")
        de = np.log1p(rng.gamma(2.0, 3.0, (bs, N_DENSE))).astype("float32")
        hi = rng.randint(0, SLOTS["item_id"], (bs, HIST_LEN)).astype("int64")
        y = (rng.rand(bs) < 0.2).astype("float32")
        yield sp, de, hi, y


def main():
    args = get_args()
    paddle.seed(1)
    net = DCNv2(args)
    opt = paddle.optimizer.Adagrad(args.lr, parameters=net.parameters(), initial_accumulator_value=0.1)
    auc = paddle.metric.Auc()
    t0 = time.time()
    net.train()
    for i, batch in enumerate(read_day(args.batch_size, args.steps)):
        sp, de, hi, y = [paddle.to_tensor(t) for t in batch]
        logit = net(sp, de, hi)
        loss = F.binary_cross_entropy_with_logits(logit, y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        p = F.sigmoid(logit).detach().unsqueeze(-1)
        auc.update(preds=paddle.concat([1 - p, p], 1), labels=y.unsqueeze(-1))
        if i % args.print_every == 0:
            log.info("step %d loss %.4f auc %.4f qps %.1f", i, float(loss), auc.accumulate(),
                     (i + 1) * args.batch_size / (time.time() - t0))
    if args.model_dir:
        os.makedirs(args.model_dir, exist_ok=True)
        paddle.save(net.state_dict(), os.path.join(args.model_dir, "dcn.pdparams"))


if __name__ == "__main__":
    main()
