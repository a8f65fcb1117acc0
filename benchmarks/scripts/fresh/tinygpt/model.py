import math

import paddle
from paddle import nn
from paddle.nn import functional as F

from config import GPTConfig


class CausalSelfAttention(nn.Layer):
    def __init__(self, cfg: GPTConfig):
        super().__init__()
        self.cfg = cfg
        bias = None if cfg.bias else False
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias_attr=bias)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd, bias_attr=bias)
        self.attn_dropout = nn.Dropout(cfg.dropout)
        self.resid_dropout = nn.Dropout(cfg.dropout)
        mask = paddle.tril(paddle.ones([cfg.block_size, cfg.block_size]))
        self.register_buffer("mask", mask.reshape([1, 1, cfg.block_size, cfg.block_size]))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = paddle.split(self.c_attn(x), 3, axis=2)
        split = lambda t: t.reshape([B, T, self.cfg.n_head, self.cfg.head_dim]).transpose([0, 2, 1, 3])
        q, k, v = split(q), split(k), split(v)
        att = (q @ k.transpose([0, 1, 3, 2])) * (1.0 / math.sqrt(k.shape[-1]))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, axis=-1)
        att = self.attn_dropout(att)
        y = (att @ v).transpose([0, 2, 1, 3]).reshape([B, T, C])
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        bias = None if cfg.bias else False
        self.c_fc = nn.Linear(cfg.n_embd, 4 * cfg.n_embd, bias_attr=bias)
        self.c_proj = nn.Linear(4 * cfg.n_embd, cfg.n_embd, bias_attr=bias)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, x):
        x = self.c_fc(x)
        x = F.gelu(x, approximate=True)
        return self.dropout(self.c_proj(x))


class Block(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.ln_1 = nn.LayerNorm(cfg.n_embd)
        self.attn = CausalSelfAttention(cfg)
        self.ln_2 = nn.LayerNorm(cfg.n_embd)
        self.mlp = MLP(cfg)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Layer):
    def __init__(self, cfg: GPTConfig):
        super().__init__()
        self.cfg = cfg
        self.transformer = nn.LayerDict({
            "wte": nn.Embedding(cfg.vocab_size, cfg.n_embd),
            "wpe": nn.Embedding(cfg.block_size, cfg.n_embd),
            "drop": nn.Dropout(cfg.dropout),
            "h": nn.LayerList([Block(cfg) for _ in range(cfg.n_layer)]),
            "ln_f": nn.LayerNorm(cfg.n_embd),
        })
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                p.set_value(paddle.normal(0.0, 0.02 / math.sqrt(2 * cfg.n_layer), p.shape))

    def _init_weights(self, layer):
        if isinstance(layer, (nn.Linear, nn.Embedding)):
            layer.weight.set_value(paddle.normal(0.0, 0.02, layer.weight.shape))

    def num_params(self):
        return sum(p.numel().item() for p in self.parameters())

    def forward(self, idx, targets=None):
        _, t = idx.shape
        pos = paddle.arange(0, t, dtype="int64")
        x = self.transformer["wte"](idx) + self.transformer["wpe"](pos)
        x = self.transformer["drop"](x)
        for block in self.transformer["h"]:
            x = block(x)
        x = self.transformer["ln_f"](x)
        logits = paddle.matmul(x, self.transformer["wte"].weight, transpose_y=True)
        if targets is None:
            return logits, None
        loss = F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), targets.reshape([-1]))
        return logits, loss

    def configure_optimizer(self, train, lr):
        decay = [p for p in self.parameters() if p.ndim >= 2]
        no_decay = [p for p in self.parameters() if p.ndim < 2]
        groups = [{"params": decay, "weight_decay": train.weight_decay},
                  {"params": no_decay, "weight_decay": 0.0}]
        b1, b2 = train.betas
        return paddle.optimizer.AdamW(learning_rate=lr, beta1=b1, beta2=b2, parameters=groups,
                                      grad_clip=nn.ClipGradByGlobalNorm(train.clip))
