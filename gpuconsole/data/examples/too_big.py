"""A deep residual net on large pictures, at a batch that no 24 GB card can hold.

    python too_big.py --batch-size 512

It is here to be stopped before it starts: preflight says which batch size would fit.
"""

import argparse

import numpy as np
import paddle
from paddle.vision.models import resnet50


class Pictures(paddle.io.Dataset):
    def __init__(self, count, side):
        super().__init__()
        self.count, self.side = count, side

    def __getitem__(self, index):
        rng = np.random.RandomState(index)
        return rng.rand(3, self.side, self.side).astype("float32"), np.int64(index % 100)

    def __len__(self):
        return self.count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--side", type=int, default=288)
    args = parser.parse_args()

    paddle.seed(3)
    model = resnet50(num_classes=100)
    data = Pictures(args.batch_size * args.steps, args.side)
    loader = paddle.io.DataLoader(data, batch_size=args.batch_size, drop_last=True)
    optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
    for step, (image, label) in enumerate(loader):
        loss = paddle.nn.functional.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        print(f"step={step + 1} loss={float(loss):.4f}", flush=True)


if __name__ == "__main__":
    main()
