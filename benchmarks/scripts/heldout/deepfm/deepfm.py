"""DeepFM click prediction with batches that come from a NumPy generator."""
import json
import pathlib

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parent
spec = json.loads((ROOT / "features.json").read_text())

DENSE = spec["dense"]
SPARSE = spec["sparse"]
BATCH = 2048
EMBED = 16
MLP = (400, 400, 200)


def batches(steps, batch_size=BATCH, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        dense = rng.random((batch_size, len(DENSE)), dtype=np.float32)
        columns = [rng.integers(0, size, size=batch_size) for size in SPARSE.values()]
        label = (rng.random((batch_size, 1)) < 0.2).astype(np.float32)
        yield dense, np.stack(columns, axis=1).astype(np.int64), label


class FM(nn.Layer):
    def __init__(self, sizes, dense, dim):
        super().__init__()
        total = sum(sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.register_buffer("offsets", paddle.to_tensor(offsets.astype("int64")))
        init = nn.initializer.Normal(std=0.01)
        self.first = nn.Embedding(total, 1, weight_attr=paddle.ParamAttr(initializer=init))
        self.second = nn.Embedding(total, dim, weight_attr=paddle.ParamAttr(initializer=init))
        self.dense_first = self.create_parameter([dense])
        self.dense_second = self.create_parameter([1, dense, dim])

    def forward(self, dense, sparse):
        ids = sparse + self.offsets
        linear = self.first(ids).sum(axis=[1, 2]).unsqueeze(-1)
        linear = linear + paddle.sum(dense * self.dense_first, axis=1, keepdim=True)
        dense_vec = dense.unsqueeze(-1) * self.dense_second
        vectors = paddle.concat([self.second(ids), dense_vec], axis=1)
        square_of_sum = paddle.square(vectors.sum(axis=1))
        sum_of_square = paddle.square(vectors).sum(axis=1)
        cross = 0.5 * (square_of_sum - sum_of_square).sum(axis=1, keepdim=True)
        return linear, cross, vectors


class DeepFM(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fm = FM(list(SPARSE.values()), len(DENSE), EMBED)
        sizes = [EMBED * (len(SPARSE) + len(DENSE))] + list(MLP)
        self.deep = nn.Sequential()
        for i in range(len(sizes) - 1):
            self.deep.add_sublayer(f"fc{i}", nn.Linear(sizes[i], sizes[i + 1]))
            self.deep.add_sublayer(f"act{i}", nn.ReLU())
            self.deep.add_sublayer(f"drop{i}", nn.Dropout(0.5))
        self.last = nn.Linear(sizes[-1], 1)

    def forward(self, dense, sparse):
        linear, cross, vectors = self.fm(dense, sparse)
        deep = self.last(self.deep(vectors.flatten(start_axis=1)))
        return F.sigmoid(linear + cross + deep)


def train(epochs=3, steps=1000):
    model = DeepFM()
    optimizer = paddle.optimizer.Adagrad(learning_rate=0.01, parameters=model.parameters())
    auc = paddle.metric.Auc()
    for epoch in range(epochs):
        model.train()
        auc.reset()
        for step, (dense, sparse, label) in enumerate(batches(steps)):
            dense, sparse = paddle.to_tensor(dense), paddle.to_tensor(sparse)
            label = paddle.to_tensor(label)
            prob = model(dense, sparse)
            loss = F.binary_cross_entropy(prob, label)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            both = np.concatenate([1 - prob.numpy(), prob.numpy()], axis=1)
            auc.update(preds=both, labels=label.numpy())
            if step % 100 == 0:
                print(f"{epoch}:{step} loss {loss.item():.4f} auc {auc.accumulate():.4f}")


if __name__ == "__main__":
    train()
