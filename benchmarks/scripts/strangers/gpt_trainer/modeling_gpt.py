import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class CausalSelfAttention(nn.Layer):
    def __init__(self, n_embd, n_head, block_size, dropout):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_drop = nn.Dropout(dropout)
        self.resid_drop = nn.Dropout(dropout)
        self.register_buffer('bias', paddle.tril(paddle.ones([block_size, block_size])).reshape(
            [1, 1, block_size, block_size]), persistable=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(3, axis=-1)
        q, k, v = [z.reshape([B, T, self.n_head, C // self.n_head]).transpose([0, 2, 1, 3]) for z in (q, k, v)]
        att = q.matmul(k, transpose_y=True) / (C // self.n_head)**0.5
        mask = self.bias[:, :, :T, :T]
        att = att * mask - 1e4 * (1 - mask)
        att = self.attn_drop(F.softmax(att, axis=-1))
        y = att.matmul(v).transpose([0, 2, 1, 3]).reshape([B, T, C])
        return self.resid_drop(self.c_proj(y))


class Block(nn.Layer):
    def __init__(self, n_embd, n_head, block_size, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size, dropout)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.c_fc = nn.Linear(n_embd, 4 * n_embd)
        self.c_out = nn.Linear(4 * n_embd, n_embd)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.drop(self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate=True)))


class GPT(nn.Layer):
    def __init__(self, vocab_size, n_layer, n_head, n_embd, block_size, dropout, tie_weights):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd, weight_attr=paddle.ParamAttr(
            initializer=nn.initializer.Normal(0.0, 0.02)))
        self.wpe = nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(dropout)
        self.h = nn.LayerList([Block(n_embd, n_head, block_size, dropout) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.head = None if tie_weights else nn.Linear(n_embd, vocab_size, bias_attr=False)

    def forward(self, ids, labels=None):
        pos = paddle.arange(ids.shape[1]).unsqueeze(0)
        x = self.drop(self.wte(ids) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        logits = x.matmul(self.wte.weight, transpose_y=True) if self.head is None else self.head(x)
        if labels is None:
            return logits
        return F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), labels.reshape([-1]))
