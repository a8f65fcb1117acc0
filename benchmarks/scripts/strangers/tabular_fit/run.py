# Bank marketing (Tianchi learning competition) - baseline with the high level API
import csv
import os

import numpy as np
import paddle
from paddle import nn
from paddle.static import InputSpec

WORK = os.path.dirname(os.path.abspath(__file__))
BATCH_SIZE = 256
EPOCHS = 1
D_TOKEN = 48
N_BLOCKS = 3
CATS = ['job', 'education', 'month', 'contact']
NUMS = ['age', 'balance', 'duration', 'campaign', 'pdays']


def load():
    with open(os.path.join(WORK, 'data', 'bank.csv')) as f:
        rows = list(csv.DictReader(f))
    num = np.array([[float(r[c]) for c in NUMS] for r in rows], 'float32')
    num = (num - num.mean(0)) / (num.std(0) + 1e-6)
    cat, sizes = [], []
    for c in CATS:
        vals = sorted(set(r[c] for r in rows))
        sizes.append(len(vals))
        cat.append([vals.index(r[c]) for r in rows])
    y = np.array([r['y'] == 'yes' for r in rows]).astype('int64')[:, None]
    return num, np.array(cat, 'int64').T, y, sizes


class Bank(paddle.io.Dataset):
    def __init__(self, num, cat, y):
        self.num, self.cat, self.y = num, cat, y

    def __getitem__(self, i):
        return self.num[i], self.cat[i], self.y[i]

    def __len__(self):
        return len(self.y)


class FTTransformer(nn.Layer):
    def __init__(self, n_num, sizes, d, n_blocks):
        super().__init__()
        self.w = self.create_parameter([1, n_num, d])
        self.b = self.create_parameter([1, n_num + len(sizes), d])
        self.emb = nn.Embedding(int(sum(sizes)), d)
        self.register_buffer('offset', paddle.to_tensor(np.cumsum([0] + sizes[:-1]).astype('int64')))
        self.cls = self.create_parameter([1, 1, d])
        layer = nn.TransformerEncoderLayer(d, 8, d * 4, dropout=0.1, activation='gelu', normalize_before=True)
        self.enc = nn.TransformerEncoder(layer, n_blocks)
        self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, 2))

    def forward(self, num, cat):
        tok = paddle.concat([num.unsqueeze(-1) * self.w, self.emb(cat + self.offset)], axis=1) + self.b
        cls = paddle.expand(self.cls, [tok.shape[0], 1, tok.shape[2]])
        return self.head(self.enc(paddle.concat([cls, tok], axis=1))[:, 0])


num, cat, y, sizes = load()
print('rows', len(y), 'positive', y.mean(), 'cardinality', sizes)
net = FTTransformer(num.shape[1], sizes, D_TOKEN, N_BLOCKS)
model = paddle.Model(net,
                     inputs=[InputSpec([None, len(NUMS)], 'float32', 'num'), InputSpec([None, len(CATS)], 'int64', 'cat')],
                     labels=[InputSpec([None, 1], 'int64', 'y')])
opt = paddle.optimizer.AdamW(paddle.optimizer.lr.NoamDecay(D_TOKEN, 100), parameters=model.parameters(), weight_decay=1e-5)
model.prepare(opt, nn.CrossEntropyLoss(weight=paddle.to_tensor([0.4, 0.6])), paddle.metric.Accuracy())
model.fit(Bank(num, cat, y), batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=2, log_freq=4, drop_last=True, shuffle=True)
