import paddle
import paddle.nn as nn


class FM(nn.Layer):
    def forward(self, emb):
        square_of_sum = paddle.sum(emb, axis=1) ** 2
        sum_of_square = paddle.sum(emb * emb, axis=1)
        return 0.5 * paddle.sum(square_of_sum - sum_of_square, axis=1, keepdim=True)


class DNN(nn.Layer):
    def __init__(self, dims, dropout):
        super().__init__()
        self.layers = []
        for i in range(len(dims) - 1):
            fc = self.add_sublayer('fc_%d' % i, nn.Linear(
                dims[i], dims[i + 1],
                weight_attr=paddle.ParamAttr(initializer=nn.initializer.XavierNormal())))
            self.layers.append(fc)
            self.layers.append(self.add_sublayer('act_%d' % i, nn.PReLU()))
            self.layers.append(self.add_sublayer('drop_%d' % i, nn.Dropout(dropout)))
        self.last = nn.Linear(dims[-1], 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


class DeepFM(nn.Layer):
    def __init__(self, field_sizes, dense_num, dim=16, hidden=(256, 128, 64), dropout=0.1):
        super().__init__()
        self.offsets = [sum(field_sizes[:i]) for i in range(len(field_sizes))]
        total = sum(field_sizes)
        self.first = nn.Embedding(total, 1)
        self.second = nn.Embedding(total, dim)
        self.dense_w = nn.Linear(dense_num, 1)
        self.fm = FM()
        self.dnn = DNN([len(field_sizes) * dim + dense_num] + list(hidden), dropout)

    def forward(self, sparse, dense):
        sparse = sparse + paddle.to_tensor(self.offsets, dtype='int64')
        y_first = paddle.sum(self.first(sparse), axis=1) + self.dense_w(dense)
        emb = self.second(sparse)
        y_fm = self.fm(emb)
        y_dnn = self.dnn(paddle.concat([paddle.flatten(emb, start_axis=1), dense], axis=1))
        return y_first + y_fm + y_dnn
