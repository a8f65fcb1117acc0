"""Random search over the shape of a small network: each start draws another one."""
import argparse
import random

import numpy as np
import paddle
from paddle import nn

ap = argparse.ArgumentParser()
ap.add_argument("--batch", type=int, default=64)
args = ap.parse_args()

depth = random.randint(2, 8)
width = random.choice([64, 128, 256, 512, 1024])
act = random.choice([nn.ReLU, nn.GELU, nn.Tanh])
print("drawn", depth, width, act.__name__)

layers, size = [], 40
for _ in range(depth):
    layers += [nn.Linear(size, width), act()]
    size = width
net = nn.Sequential(*layers, nn.Linear(size, 3))


class Table(paddle.io.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, i):
        x = np.random.rand(40).astype("float32")
        return x, np.int64(x.sum() > 20)


opt = paddle.optimizer.Adam(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Table(), batch_size=args.batch, shuffle=True):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
print(float(loss))
