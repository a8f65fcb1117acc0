#!/usr/bin/env python
"""Momentum contrast on small pictures (research code)."""
import argparse
import copy
import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.vision.models.resnet import BasicBlock, ResNet


class TwoViews(paddle.io.Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def view(self, img):
        s = self.size
        y, x = np.random.randint(0, img.shape[1] - s + 1, 2)
        img = img[:, y:y + s, x:x + s]
        if np.random.rand() > 0.5:
            img = img[:, :, ::-1]
        gain = np.random.uniform(0.6, 1.4, (3, 1, 1))
        return (img * gain).astype('float32')

    def __getitem__(self, i):
        img = np.random.RandomState(i).randn(3, self.size + 8, self.size + 8)
        return self.view(img), self.view(img)


class Encoder(ResNet):
    """ResNet-18 with a small stem and a projection instead of the classifier."""

    def __init__(self, dim):
        super().__init__(BasicBlock, depth=18, num_classes=dim)
        self.conv1 = nn.Conv2D(3, 64, 3, stride=1, padding=1, bias_attr=False)
        self.maxpool = nn.Identity()
        self.fc = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, dim))


class MoCo(nn.Layer):
    def __init__(self, dim=64, K=2048, m=0.99, T=0.1):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = Encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.stop_gradient = True
        self.register_buffer('queue', F.normalize(paddle.randn([dim, K]), axis=0))
        self.ptr = 0

    @paddle.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.set_value(k * self.m + q * (1.0 - self.m))

    @paddle.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert self.K % n == 0
        self.queue[:, self.ptr:self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), axis=1)
        with paddle.no_grad():
            self.momentum_update()
            idx = paddle.randperm(im_k.shape[0])
            k = self.encoder_k(paddle.index_select(im_k, idx, axis=0))
            k = F.normalize(k, axis=1)
            k = paddle.index_select(k, paddle.argsort(idx), axis=0)
        l_pos = paddle.sum(q * k, axis=1, keepdim=True)
        l_neg = paddle.matmul(q, self.queue.clone().detach())
        logits = paddle.concat([l_pos, l_neg], axis=1) / self.T
        labels = paddle.zeros([logits.shape[0]], dtype='int64')
        self.enqueue(k)
        return F.cross_entropy(logits, labels)


def adjust_lr(optimizer, base, epoch, args):
    optimizer.set_lr(base * 0.5 * (1.0 + math.cos(math.pi * epoch / args.epochs)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('-b', '--batch-size', default=64, type=int)
    parser.add_argument('--size', default=24, type=int)
    parser.add_argument('--epochs', default=2, type=int)
    parser.add_argument('--lr', default=0.06, type=float)
    parser.add_argument('--moco-dim', default=64, type=int)
    parser.add_argument('--moco-k', default=2048, type=int)
    parser.add_argument('--moco-m', default=0.99, type=float)
    parser.add_argument('--moco-t', default=0.1, type=float)
    args = parser.parse_args()

    model = MoCo(args.moco_dim, args.moco_k, args.moco_m, args.moco_t)
    optimizer = paddle.optimizer.Momentum(args.lr, 0.9, parameters=model.encoder_q.parameters(), weight_decay=5e-4)
    loader = paddle.io.DataLoader(TwoViews(512, args.size), batch_size=args.batch_size, shuffle=True,
                                  drop_last=True, num_workers=4)
    for epoch in range(args.epochs):
        adjust_lr(optimizer, args.lr, epoch, args)
        total_loss, total_num = 0.0, 0
        for im_1, im_2 in loader:
            loss = model(im_1, im_2)
            optimizer.clear_grad()
            loss.backward()
            optimizer.step()
            total_num += args.batch_size
            total_loss += loss.item() * args.batch_size
            print('Train Epoch: [{}/{}], Loss: {:.4f}'.format(epoch, args.epochs, total_loss / total_num))


if __name__ == '__main__':
    main()
