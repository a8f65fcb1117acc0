"""A small convolutional net on synthetic 28x28 digits.

    python mnist_cnn.py --batch-size 64 --steps 20

Prints `step=N loss=...` and writes `result.json` and the weights, `model.pdparams`, into
$GPUCONSOLE_RESULTS when that is set.
"""

import argparse
import json
import os

import numpy as np
import paddle
import paddle.nn as nn


class Digits(paddle.io.Dataset):
    """Each class is a bright square at a place of its own, in noise."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __getitem__(self, index):
        rng = np.random.RandomState(index)
        image = rng.rand(1, 28, 28).astype("float32") * 0.5
        label = index % 10
        row, column = 2 + 12 * (label // 5), 1 + 5 * (label % 5)
        image[:, row : row + 6, column : column + 5] += 1.0
        return image, np.int64(label)

    def __len__(self):
        return self.size


class Net(nn.Layer):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2D(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2D(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2D(2)
        self.fc1 = nn.Linear(32 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = self.pool(nn.functional.relu(self.conv1(x)))
        x = self.pool(nn.functional.relu(self.conv2(x)))
        x = paddle.flatten(x, 1)
        return self.fc2(nn.functional.relu(self.fc1(x)))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


def main():
    args = parse()
    paddle.seed(7)
    model = Net()
    data = Digits(args.batch_size * args.steps)
    loader = paddle.io.DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    optimizer = paddle.optimizer.Adam(learning_rate=args.lr, parameters=model.parameters())
    losses = []
    for step, (image, label) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        print(f"step={step + 1} loss={losses[-1]:.4f}", flush=True)
    folder = os.environ.get("GPUCONSOLE_RESULTS")
    if folder:
        with open(os.path.join(folder, "result.json"), "w") as file:
            json.dump({"steps": len(losses), "loss": losses}, file)
        paddle.save(model.state_dict(), os.path.join(folder, "model.pdparams"))


if __name__ == "__main__":
    main()
