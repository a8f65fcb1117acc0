import argparse
import csv
import os

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

from deepfm import DeepFM

HERE = os.path.dirname(os.path.abspath(__file__))
SPARSE = ['user', 'item', 'genre', 'hour']


class RatingData(Dataset):
    def __init__(self, path):
        with open(path) as f:
            self.rows = list(csv.DictReader(f))
        self.maps = {}
        for col in SPARSE:
            values = sorted(set(r[col] for r in self.rows))
            self.maps[col] = {v: i for i, v in enumerate(values)}
        self.field_sizes = [len(self.maps[c]) for c in SPARSE]

    def __getitem__(self, i):
        r = self.rows[i]
        sparse = np.array([self.maps[c][r[c]] for c in SPARSE], dtype='int64')
        dense = np.array([float(r['age']) / 100.0], dtype='float32')
        label = np.array([float(int(r['rating']) >= 4)], dtype='float32')
        return sparse, dense, label

    def __len__(self):
        return len(self.rows)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--data', default=os.path.join(HERE, 'ratings.csv'))
    ap.add_argument('--batch_size', type=int, default=256)
    ap.add_argument('--emb_dim', type=int, default=32)
    ap.add_argument('--hidden', type=int, nargs='+', default=[400, 400, 200])
    ap.add_argument('--epochs', type=int, default=3)
    ap.add_argument('--lr', type=float, default=1e-3)
    args = ap.parse_args()

    data = RatingData(args.data)
    print('fields', dict(zip(SPARSE, data.field_sizes)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = DeepFM(data.field_sizes, 1, args.emb_dim, args.hidden)
    opt = paddle.optimizer.Adam(args.lr, parameters=model.parameters(), weight_decay=1e-6)
    auc = paddle.metric.Auc()
    for epoch in range(args.epochs):
        auc.reset()
        for step, (sparse, dense, label) in enumerate(loader):
            logit = model(sparse, dense)
            loss = F.binary_cross_entropy_with_logits(logit, label)
            loss.backward()
            opt.step()
            opt.clear_grad()
            prob = F.sigmoid(logit)
            auc.update(paddle.concat([1 - prob, prob], axis=1), label.astype('int64'))
        print('epoch %d loss %.4f auc %.4f' % (epoch, float(loss), auc.accumulate()))


if __name__ == '__main__':
    main()
