"""A transformer encoder that learns which half of a token sequence holds more large numbers.

    python text_encoder.py --batch-size 8 --steps 20

Prints `step=N loss=...` and writes `result.json` into $GPUCONSOLE_RESULTS when that is set.
"""

import argparse
import json
import os

import numpy as np
import paddle
from paddle import nn


class Tokens(paddle.io.Dataset):
    def __init__(self, count, length, vocabulary):
        super().__init__()
        self.count, self.length, self.vocabulary = count, length, vocabulary

    def __getitem__(self, index):
        rng = np.random.RandomState(index)
        ids = rng.randint(0, self.vocabulary, (self.length,)).astype("int64")
        half = self.length // 2
        return ids, np.int64(ids[:half].sum() > ids[half:].sum())

    def __len__(self):
        return self.count


class Classifier(nn.Layer):
    def __init__(self, vocabulary, length, hidden, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.places = nn.Embedding(length, hidden)
        layer = nn.TransformerEncoderLayer(hidden, heads, 4 * hidden, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(hidden, 2)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(paddle.arange(ids.shape[1]))
        return self.head(self.encoder(x).mean(axis=1))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse()
    paddle.seed(11)
    model = Classifier(args.vocabulary, args.length, args.hidden, args.heads, args.layers)
    data = Tokens(args.batch_size * args.steps, args.length, args.vocabulary)
    loader = paddle.io.DataLoader(data, batch_size=args.batch_size, drop_last=True)
    optimizer = paddle.optimizer.AdamW(learning_rate=args.lr, parameters=model.parameters())
    losses = []
    for step, (ids, label) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(ids), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        print(f"step={step + 1} loss={losses[-1]:.4f}", flush=True)
    folder = os.environ.get("GPUCONSOLE_RESULTS")
    if folder:
        with open(os.path.join(folder, "result.json"), "w") as file:
            json.dump({"steps": len(losses), "loss": losses}, file)


if __name__ == "__main__":
    main()
