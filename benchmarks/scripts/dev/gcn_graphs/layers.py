import paddle
import paddle.nn as nn
import paddle.nn.functional as F

NORMS = {"layer": nn.LayerNorm, "none": lambda width: nn.Identity()}


class GraphConv(nn.Layer):
    def __init__(self, in_dim, out_dim, norm="layer", dropout=0.0):
        super().__init__()
        self.weight = self.create_parameter(
            [in_dim, out_dim], default_initializer=nn.initializer.XavierUniform()
        )
        self.bias = self.create_parameter([out_dim], is_bias=True)
        self.norm = NORMS[norm](out_dim)
        self.p = dropout
        self.skip = nn.Linear(in_dim, out_dim, bias_attr=False) if in_dim != out_dim else None

    def forward(self, x, adj):
        h = paddle.matmul(x, self.weight)
        h = paddle.bmm(adj, h) + self.bias
        h = F.relu(self.norm(h))
        h = F.dropout(h, self.p, training=self.training)
        return h + (x if self.skip is None else self.skip(x))


class Readout(nn.Layer):
    def __init__(self, how):
        super().__init__()
        self.how = how

    @property
    def factor(self):
        return 2 if self.how == "mean_max" else 1

    def forward(self, x, mask):
        m = mask.unsqueeze(-1)
        mean = (x * m).sum(axis=1) / m.sum(axis=1)
        if self.how != "mean_max":
            return mean
        low = (1.0 - m) * -1e9
        return paddle.concat([mean, (x + low).max(axis=1)], axis=-1)


class GraphClassifier(nn.Layer):
    def __init__(self, in_dim, classes, hidden=(64, 64), dropout=0.5, norm="layer", readout="mean"):
        super().__init__()
        dims = [in_dim, *hidden]
        self.convs = nn.LayerList(
            [GraphConv(a, b, norm, dropout) for a, b in zip(dims[:-1], dims[1:])]
        )
        self.readout = Readout(readout)
        self.head = nn.Linear(hidden[-1] * self.readout.factor, classes)

    def forward(self, x, adj, mask):
        for conv in self.convs:
            x = conv(x, adj)
        return self.head(self.readout(x, mask))
