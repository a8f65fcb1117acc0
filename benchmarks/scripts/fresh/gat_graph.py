"""Graph attention on a synthetic citation graph, full batch (so --nodes is what scales)."""
import argparse

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.geometric import segment_max, segment_sum, send_u_recv

parser = argparse.ArgumentParser()
parser.add_argument("--nodes", type=int, default=4000)
parser.add_argument("--degree", type=int, default=8)
parser.add_argument("--feats", type=int, default=128)
parser.add_argument("--hidden", type=int, default=16)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--classes", type=int, default=7)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--drop", type=float, default=0.5)
args = parser.parse_args()


def make_graph(n, degree, feats, classes, seed=7):
    rng = np.random.default_rng(seed)
    dst = np.repeat(np.arange(n, dtype=np.int64), degree)
    src = rng.integers(0, n, size=n * degree)
    src = np.concatenate([src, np.arange(n)])
    dst = np.concatenate([dst, np.arange(n)])
    order = np.argsort(dst, kind="stable")
    x = rng.standard_normal((n, feats)).astype(np.float32)
    y = rng.integers(0, classes, size=n)
    mask = rng.random(n) < 0.6
    return x, y.astype(np.int64), src[order], dst[order], mask


def edge_softmax(score, dst):
    peak = segment_max(score, dst)
    e = paddle.exp(score - paddle.gather(peak, dst))
    total = segment_sum(e, dst)
    return e / (paddle.gather(total, dst) + 1e-9)


class GATConv(nn.Layer):
    def __init__(self, in_dim, out_dim, heads, drop, concat=True):
        super().__init__()
        self.heads, self.out_dim, self.concat = heads, out_dim, concat
        self.fc = nn.Linear(in_dim, heads * out_dim, bias_attr=False)
        init = nn.initializer.XavierNormal()
        self.att_src = self.create_parameter(shape=[1, heads, out_dim], default_initializer=init)
        self.att_dst = self.create_parameter(shape=[1, heads, out_dim], default_initializer=init)
        width = heads * out_dim if concat else out_dim
        self.bias = self.create_parameter(shape=[width], is_bias=True)
        self.feat_drop = nn.Dropout(drop)
        self.attn_drop = nn.Dropout(drop)

    def forward(self, x, src, dst):
        h = self.fc(self.feat_drop(x)).reshape([-1, self.heads, self.out_dim])
        a_src = (h * self.att_src).sum(-1)
        a_dst = (h * self.att_dst).sum(-1)
        score = F.leaky_relu(a_src[src] + a_dst[dst], 0.2)
        alpha = self.attn_drop(edge_softmax(score, dst))
        msg = paddle.gather(h, src) * alpha.unsqueeze(-1)
        out = segment_sum(msg, dst)
        out = out.flatten(1) if self.concat else out.mean(axis=1)
        return out + self.bias


class GAT(nn.Layer):
    def __init__(self):
        super().__init__()
        self.l1 = GATConv(args.feats, args.hidden, args.heads, args.drop)
        self.l2 = GATConv(args.hidden * args.heads, args.classes, 1, args.drop, concat=False)
        self.skip = nn.Linear(args.feats, args.classes)

    def forward(self, x, src, dst):
        h = F.elu(self.l1(x, src, dst))
        smooth = send_u_recv(x, src, dst, reduce_op="mean")
        return self.l2(h, src, dst) + self.skip(smooth)


def main():
    paddle.seed(1)
    x, y, src, dst, mask = make_graph(args.nodes, args.degree, args.feats, args.classes)
    x, y = paddle.to_tensor(x), paddle.to_tensor(y)
    src, dst = paddle.to_tensor(src), paddle.to_tensor(dst)
    weight = paddle.to_tensor(mask.astype("float32"))
    net = GAT()
    adam = paddle.optimizer.Adam(5e-3, parameters=net.parameters(), weight_decay=5e-4)
    best = 0.0
    for epoch in range(args.epochs):
        net.train()
        logits = net(x, src, dst)
        per_node = F.cross_entropy(logits, y, reduction="none").squeeze(-1)
        loss = (per_node * weight).sum() / weight.sum()
        loss.backward()
        adam.step()
        adam.clear_grad()
        net.eval()
        with paddle.no_grad():
            pred = net(x, src, dst).argmax(-1)
            acc = ((pred == y).astype("float32") * (1 - weight)).sum() / (1 - weight).sum()
        best = max(best, acc.item())
        print(f"{epoch:03d} loss {loss.item():.4f} test {acc.item():.4f}")
    print("best", best)


main()
