"""SR-GNN on clicks sessions (course project, group 7).

usage: python srgnn_session.py --batchSize 100 --hiddenSize 100
"""
import argparse
import datetime

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument('--dataset', default='sample', help='diginetica/yoochoose1_64/sample')
parser.add_argument('--batchSize', type=int, default=100, help='input batch size')
parser.add_argument('--hiddenSize', type=int, default=100, help='hidden state size')
parser.add_argument('--epoch', type=int, default=1)
parser.add_argument('--lr', type=float, default=0.001)
parser.add_argument('--lr_dc_step', type=int, default=3)
parser.add_argument('--l2', type=float, default=1e-5)
parser.add_argument('--step', type=int, default=2, help='gnn propagation steps')
parser.add_argument('--nonhybrid', action='store_true')
opt = parser.parse_args()

n_node = {'diginetica': 43098, 'yoochoose1_64': 37484}.get(opt.dataset, 12000)
MAXLEN = 19


class Sessions(Dataset):
    def __init__(self, n):
        rng = np.random.RandomState(0)
        self.seqs = [rng.randint(1, n_node, size=rng.randint(2, MAXLEN + 1)) for _ in range(n)]
        self.tgt = rng.randint(1, n_node, size=n)

    def __len__(self):
        return len(self.seqs)

    def __getitem__(self, i):
        return self.seqs[i], self.tgt[i]


def collate(batch):
    """fixed-size session graphs: unique nodes, in/out adjacency, alias, mask"""
    B = len(batch)
    items = np.zeros((B, MAXLEN), 'int64')
    alias = np.zeros((B, MAXLEN), 'int64')
    mask = np.zeros((B, MAXLEN), 'float32')
    A = np.zeros((B, MAXLEN, 2 * MAXLEN), 'float32')
    for b, (s, _) in enumerate(batch):
        node = np.unique(np.append(s, 0))
        items[b, :len(node[:MAXLEN])] = node[:MAXLEN]
        lut = {v: k for k, v in enumerate(node)}
        idx = np.array([min(lut[v], MAXLEN - 1) for v in s])
        alias[b, :len(s)] = idx
        mask[b, :len(s)] = 1
        u = np.zeros((MAXLEN, MAXLEN), 'float32')
        u[idx[:-1], idx[1:]] = 1
        din = u.sum(0)
        din[din == 0] = 1
        dout = u.sum(1)
        dout[dout == 0] = 1
        A[b] = np.concatenate([(u / din).T, u.T / dout], 1)
    return alias, A, items, mask, np.array([t for _, t in batch], 'int64')


class GNN(nn.Layer):
    def __init__(self, h, step):
        super().__init__()
        self.step, self.h = step, h
        self.fc_in = nn.Linear(h, h)
        self.fc_out = nn.Linear(h, h)
        self.w_ih = nn.Linear(2 * h, 3 * h)
        self.w_hh = nn.Linear(h, 3 * h)

    def cell(self, A, hidden):
        a_in = paddle.matmul(A[:, :, :MAXLEN], self.fc_in(hidden))
        a_out = paddle.matmul(A[:, :, MAXLEN:], self.fc_out(hidden))
        gi = self.w_ih(paddle.concat([a_in, a_out], 2))
        gh = self.w_hh(hidden)
        i_r, i_i, i_n = gi.chunk(3, 2)
        h_r, h_i, h_n = gh.chunk(3, 2)
        r = F.sigmoid(i_r + h_r)
        z = F.sigmoid(i_i + h_i)
        n = paddle.tanh(i_n + r * h_n)
        return n + z * (hidden - n)

    def forward(self, A, hidden):
        for _ in range(self.step):
            hidden = self.cell(A, hidden)
        return hidden


class SessionGraph(nn.Layer):
    def __init__(self, opt, n_node):
        super().__init__()
        h = opt.hiddenSize
        self.hybrid = not opt.nonhybrid
        u = nn.initializer.Uniform(-1 / h ** 0.5, 1 / h ** 0.5)
        self.embedding = nn.Embedding(n_node, h, weight_attr=paddle.ParamAttr(initializer=u))
        self.gnn = GNN(h, opt.step)
        self.q1 = nn.Linear(h, h)
        self.q2 = nn.Linear(h, h)
        self.q3 = nn.Linear(h, 1, bias_attr=False)
        self.tr = nn.Linear(2 * h, h)

    def forward(self, alias, A, items, mask):
        hidden = self.gnn(A, self.embedding(items))
        one_hot = F.one_hot(alias, MAXLEN)
        seq = paddle.bmm(one_hot, hidden)
        last = mask.sum(1).astype('int64') - 1
        ht = (seq * F.one_hot(last, MAXLEN).unsqueeze(-1)).sum(1)
        alpha = self.q3(F.sigmoid(self.q1(ht).unsqueeze(1) + self.q2(seq)))
        a = (alpha * seq * mask.unsqueeze(-1)).sum(1)
        if self.hybrid:
            a = self.tr(paddle.concat([a, ht], 1))
        return paddle.matmul(a, self.embedding.weight[1:], transpose_y=True)


def main():
    data = Sessions(opt.batchSize * 6)
    loader = DataLoader(data, batch_size=opt.batchSize, shuffle=True, collate_fn=collate, drop_last=True)
    model = SessionGraph(opt, n_node)
    sched = paddle.optimizer.lr.StepDecay(opt.lr, opt.lr_dc_step, gamma=0.1)
    optim = paddle.optimizer.Adam(sched, parameters=model.parameters(), weight_decay=paddle.regularizer.L2Decay(opt.l2))
    for ep in range(opt.epoch):
        print('epoch', ep, datetime.datetime.now())
        for j, (alias, A, items, mask, tgt) in enumerate(loader):
            optim.clear_grad()
            scores = model(alias, A, items, mask)
            loss = F.cross_entropy(scores, tgt - 1)
            loss.backward()
            optim.step()
            top = scores.detach().topk(20, axis=1)[1]
            hit = (top == (tgt - 1).unsqueeze(1)).any(1).astype('float32').mean()
            print('[%d] Loss: %.4f  Recall@20 %.4f' % (j, loss.item(), hit.item()))
        sched.step()


if __name__ == '__main__':
    main()
