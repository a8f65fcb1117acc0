# two tower retrieval, in-batch negatives + popularity correction
import argparse, collections, os, sys
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

Feature = collections.namedtuple("Feature", ["name", "vocab", "dim", "length"])

USER = [
    Feature("user_id", 60000, 32, 1),
    Feature("age", 12, 8, 1),
    Feature("city", 2000, 16, 1),
    Feature("history", 20000, 32, 20),
]
ITEM = [
    Feature("item_id", 20000, 32, 1),
    Feature("brand", 5000, 16, 1),
    Feature("tags", 800, 8, 5),
]


class Clicks(paddle.io.IterableDataset):
    def __init__(self, batches, batch_size):
        self.batches = batches
        self.batch_size = batch_size

    def __iter__(self):
        for i in range(self.batches * self.batch_size):
            row = []
            for f in USER + ITEM:
                if f.length == 1:
                    row.append(np.int64(np.random.randint(f.vocab)))
                else:
                    row.append(np.random.randint(0, f.vocab, size=f.length, dtype=np.int64))
            row.append(np.float32(np.random.rand()))
            yield tuple(row)


class Tower(nn.Layer):
    def __init__(self, features, hidden, out, dropout=0.0):
        super().__init__()
        self.features = features
        self.tables = nn.LayerDict()
        for f in features:
            attr = paddle.ParamAttr(name="emb_%s" % f.name,
                                    initializer=nn.initializer.Normal(std=0.01))
            self.tables[f.name] = nn.Embedding(f.vocab, f.dim, sparse=True, weight_attr=attr)
        width = sum(f.dim for f in features)
        mlp = []
        for h in hidden:
            mlp += [nn.Linear(width, h), nn.BatchNorm1D(h), nn.PReLU()]
            if dropout > 0:
                mlp.append(nn.Dropout(dropout))
            width = h
        mlp.append(nn.Linear(width, out))
        self.mlp = nn.Sequential(*mlp)

    def forward(self, inputs):
        vecs = []
        for f, ids in zip(self.features, inputs):
            e = self.tables[f.name](ids)
            if f.length > 1:
                e = e.mean(axis=1)
            vecs.append(e)
        h = self.mlp(paddle.concat(vecs, axis=-1))
        return F.normalize(h, p=2, axis=-1)


class TwoTower(nn.Layer):
    def __init__(self, dim=64, temperature=0.05):
        super().__init__()
        self.user = Tower(USER, [256, 128], dim)
        self.item = Tower(ITEM, [128], dim, dropout=0.1)
        self.temperature = temperature

    def forward(self, user, item, logq):
        u, v = self.user(user), self.item(item)
        scores = paddle.matmul(u, v, transpose_y=True) / self.temperature
        scores = scores - paddle.log(logq + 1e-6).unsqueeze(0)
        labels = paddle.arange(scores.shape[0], dtype="int64")
        loss = F.cross_entropy(scores, labels)
        with paddle.no_grad():
            hit = (scores.argmax(axis=1) == labels).astype("float32").mean()
        return loss, hit


def run(opt):
    model = TwoTower(dim=opt.dim)
    dense = [p for n, p in model.named_parameters() if "tables" not in n]
    sparse = [p for n, p in model.named_parameters() if "tables" in n]
    print("dense %d sparse %d" % (sum(int(np.prod(p.shape)) for p in dense),
                                  sum(int(np.prod(p.shape)) for p in sparse)))
    optimizer = paddle.optimizer.Adagrad(learning_rate=opt.lr, parameters=model.parameters(),
                                         initial_accumulator_value=0.1)
    data = paddle.io.DataLoader(Clicks(opt.steps, opt.batch_size), batch_size=opt.batch_size)
    nu = len(USER)
    ni = len(ITEM)
    for i, batch in enumerate(data):
        user, item, q = batch[:nu], batch[nu:nu + ni], batch[-1]
        loss, hit = model(user, item, q)
        optimizer.clear_grad()
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            print("step", i, "loss", float(loss), "hit@1", float(hit))
            sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch_size", default=512, type=int)
    parser.add_argument("--dim", default=64, type=int)
    parser.add_argument("--lr", default=0.05, type=float)
    parser.add_argument("--steps", default=20, type=int)
    run(parser.parse_args())
