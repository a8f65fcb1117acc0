# -*- coding: utf-8 -*-
"""Static graph: a small classifier with convolution branch and table branch."""
from __future__ import print_function

import argparse

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle.static as static

paddle.enable_static()


def parse_args():
    parser = argparse.ArgumentParser("static")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--use_gpu", action="store_true")
    return parser.parse_args()


class Net(paddle.nn.Layer):
    def __init__(self, class_num=6):
        super(Net, self).__init__()
        self.conv1 = paddle.nn.Conv2D(1, 16, 5, padding=2)
        self.conv2 = paddle.nn.Conv2D(16, 32, 3, padding=1)
        self.bn = paddle.nn.BatchNorm2D(32)
        self.pool = paddle.nn.MaxPool2D(2, 2)
        self.fc_img = paddle.nn.Linear(32 * 12 * 12, 128)
        self.fc_tab = paddle.nn.Linear(13, 64)
        self.fc = paddle.nn.Linear(128 + 64, 256)
        self.drop = paddle.nn.Dropout(0.2)
        self.out = paddle.nn.Linear(256, class_num)

    def forward(self, img, table):
        x = self.pool(F.relu(self.conv1(img)))
        x = self.pool(F.relu(self.bn(self.conv2(x))))
        x = F.relu(self.fc_img(paddle.flatten(x, 1)))
        t = paddle.tanh(self.fc_tab(table))
        both = F.relu(self.fc(paddle.concat([x, t], axis=1)))
        return self.out(self.drop(both))


def reader(n=1600):
    rng = np.random.RandomState(7)
    for _ in range(n):
        yield (rng.rand(1, 48, 48).astype("float32"), rng.rand(13).astype("float32"),
               rng.randint(0, 6, (1,)).astype("int64"))


def batched(batch_size):
    buf = []
    for one in reader():
        buf.append(one)
        if len(buf) == batch_size:
            yield [np.stack(col) for col in zip(*buf)]
            buf = []


def main():
    args = parse_args()
    main_prog = static.Program()
    startup = static.Program()
    with static.program_guard(main_prog, startup):
        img = static.data(name="img", shape=[None, 1, 48, 48], dtype="float32")
        table = static.data(name="table", shape=[None, 13], dtype="float32")
        label = static.data(name="label", shape=[None, 1], dtype="int64")
        logits = Net()(img, table)
        cost = F.cross_entropy(logits, label)
        avg_cost = paddle.mean(cost)
        acc = paddle.metric.accuracy(input=F.softmax(logits), label=label)
        opt = paddle.optimizer.Adam(learning_rate=args.lr)
        opt.minimize(avg_cost)

    place = paddle.CUDAPlace(0) if args.use_gpu else paddle.CPUPlace()
    exe = static.Executor(place)
    exe.run(startup)
    for epoch in range(args.num_epochs):
        for step, (x, t, y) in enumerate(batched(args.batch_size)):
            loss_v, acc_v = exe.run(main_prog, feed={"img": x, "table": t, "label": y},
                                    fetch_list=[avg_cost, acc])
            if step % 10 == 0:
                print("epoch %d step %d loss %.4f acc %.3f" % (epoch, step, float(loss_v), float(acc_v)))


if __name__ == "__main__":
    main()
