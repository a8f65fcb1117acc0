import paddle
import paddle.nn as nn


class DropPath(nn.Layer):
    def __init__(self, p=0.0):
        super().__init__()
        self.p = p

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        keep = 1.0 - self.p
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        mask = paddle.floor(paddle.rand(shape, dtype=x.dtype) + keep)
        return x / keep * mask


class Mlp(nn.Layer):
    def __init__(self, dim, hidden, act=nn.GELU):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = act()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class MixerBlock(nn.Layer):
    def __init__(self, tokens, dim, token_mlp, channel_mlp, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token = Mlp(tokens, token_mlp)
        self.norm2 = nn.LayerNorm(dim)
        self.channel = Mlp(dim, channel_mlp)
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        y = self.norm1(x).transpose([0, 2, 1])
        x = x + self.drop_path(self.token(y).transpose([0, 2, 1]))
        return x + self.drop_path(self.channel(self.norm2(x)))
