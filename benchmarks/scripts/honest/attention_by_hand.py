import math

import paddle
from paddle import nn


class Attention(nn.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0
        self.h, self.d = heads, dim // heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.register_buffer("mask", paddle.tril(paddle.ones([32, 32])).reshape([1, 1, 32, 32]), persistable=False)

    def forward(self, x, cache=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (one.reshape([b, t, self.h, -1]).transpose([0, 2, 1, 3]) for one in (q, k, v))
        score = q @ k.transpose([0, 1, 3, 2]) / math.sqrt(self.d)
        score = score.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        return (nn.functional.softmax(score, -1) @ v).transpose([0, 2, 1, 3]).flatten(2)


class Lm(nn.Layer):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(64, 32), nn.Embedding(32, 32)
        self.blocks = nn.LayerList([Attention(32, 4) for _ in range(2)])
        self.norm = nn.LayerNorm(32, epsilon=1e-5)

    def forward(self, ids, labels=None):
        x = self.wte(ids) + self.wpe(paddle.arange(ids.shape[1]).unsqueeze(0))
        for block in self.blocks:
            x = x + block(self.norm(x))
        logits = paddle.matmul(x, self.wte.weight, transpose_y=True)
        if labels is None:
            return logits
        return logits, nn.functional.cross_entropy(logits.reshape([-1, logits.shape[-1]]), labels.flatten(), ignore_index=-100)


net = Lm()
opt = paddle.optimizer.AdamW(parameters=net.parameters(), grad_clip=nn.ClipGradByNorm(1.0))
for _ in range(3):
    ids = paddle.randint(0, 64, [4, 20])
    labels = paddle.where(paddle.rand([4, 20]) < 0.15, ids, paddle.full_like(ids, -100))
    _, loss = net(ids, labels)
    loss.backward()
    opt.step()
    opt.clear_grad()
net.eval()
ids = paddle.randint(0, 64, [1, 4])
with paddle.no_grad():
    for _ in range(5):
        ids = paddle.concat([ids, paddle.argmax(net(ids)[:, -1], -1, keepdim=True)], 1)
assert ids.shape == [1, 9]
