import math

import paddle
import paddle.nn as nn


class Linear1(nn.Layer):
    def __init__(self, total_ids, dense_dim):
        super().__init__()
        self.w = nn.Embedding(total_ids, 1, sparse=False,
                              weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, 0.01)))
        self.dense_w = self.create_parameter([dense_dim, 1])

    def forward(self, ids, dense):
        return self.w(ids).squeeze(-1).sum(axis=1, keepdim=True) + paddle.matmul(dense, self.dense_w)


class CIN(nn.Layer):
    """compressed interaction network"""

    def __init__(self, num_field, layer_sizes):
        super().__init__()
        self.num_field = num_field
        self.convs = nn.LayerList()
        last = num_field
        for size in layer_sizes:
            self.convs.append(nn.Conv1D(last * num_field, size, 1, bias_attr=False))
            last = size
        self.out = nn.Linear(sum(layer_sizes), 1)

    def forward(self, x0):
        # x0: [B, F, D]
        xk, pooled = x0, []
        dim = x0.shape[-1]
        for conv in self.convs:
            z = paddle.einsum('bhd,bmd->bhmd', xk, x0)
            z = z.reshape([-1, z.shape[1] * z.shape[2], dim])
            xk = nn.functional.relu(conv(z))
            pooled.append(xk.sum(axis=-1))
        return self.out(paddle.concat(pooled, axis=1))


class DNN(nn.Layer):
    def __init__(self, in_dim, sizes, dropout):
        super().__init__()
        dims = [in_dim] + list(sizes)
        self.layers = []
        for i in range(len(sizes)):
            fc = nn.Linear(dims[i], dims[i + 1], weight_attr=paddle.ParamAttr(
                initializer=nn.initializer.Normal(std=1.0 / math.sqrt(dims[i]))))
            self.add_sublayer('linear_%d' % i, fc)
            self.layers.append(fc)
            act = nn.ReLU()
            self.add_sublayer('act_%d' % i, act)
            self.layers.append(act)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(dims[-1], 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(self.drop(x))


class XDeepFM(nn.Layer):
    def __init__(self, slot_sizes, dense_dim, emb_dim, cin_sizes, dnn_sizes, dropout=0.1):
        super().__init__()
        total = sum(slot_sizes)
        offsets = [0]
        for s in slot_sizes[:-1]:
            offsets.append(offsets[-1] + s)
        self.register_buffer('offsets', paddle.to_tensor(offsets, dtype='int64').unsqueeze(0))
        self.linear = Linear1(total, dense_dim)
        self.embedding = nn.Embedding(total, emb_dim)
        self.cin = CIN(len(slot_sizes), cin_sizes)
        self.dnn = DNN(len(slot_sizes) * emb_dim + dense_dim, dnn_sizes, dropout)

    def forward(self, sparse, dense):
        ids = sparse + self.offsets
        emb = self.embedding(ids)
        flat = paddle.concat([emb.flatten(1), dense], axis=1)
        logit = self.linear(ids, dense) + self.cin(emb) + self.dnn(flat)
        return nn.functional.sigmoid(logit)
