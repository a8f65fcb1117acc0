import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle import ParamAttr


def init_attr(cfg):
    return ParamAttr(initializer=nn.initializer.TruncatedNormal(std=cfg.initializer_range))


class Embeddings(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.hidden_size
        self.word_embeddings = nn.Embedding(cfg.vocab_size, d, weight_attr=init_attr(cfg))
        self.position_embeddings = nn.Embedding(cfg.max_position_embeddings, d, weight_attr=init_attr(cfg))
        self.token_type_embeddings = nn.Embedding(cfg.type_vocab_size, d, weight_attr=init_attr(cfg))
        self.layer_norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(cfg.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids=None, position_ids=None):
        if position_ids is None:
            ones = paddle.ones_like(input_ids, dtype="int64")
            position_ids = paddle.cumsum(ones, axis=-1) - ones
            position_ids.stop_gradient = True
        if token_type_ids is None:
            token_type_ids = paddle.zeros_like(input_ids, dtype="int64")
        x = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)
        x = x + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.layer_norm(x))


class SelfAttention(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.num_attention_heads
        self.dim = cfg.hidden_size // self.heads
        self.q = nn.Linear(cfg.hidden_size, cfg.hidden_size, weight_attr=init_attr(cfg))
        self.k = nn.Linear(cfg.hidden_size, cfg.hidden_size, weight_attr=init_attr(cfg))
        self.v = nn.Linear(cfg.hidden_size, cfg.hidden_size, weight_attr=init_attr(cfg))
        self.out = nn.Linear(cfg.hidden_size, cfg.hidden_size, weight_attr=init_attr(cfg))
        self.dropout = nn.Dropout(cfg.attention_dropout_prob)

    def split(self, x):
        return x.reshape([0, 0, self.heads, self.dim]).transpose([0, 2, 1, 3])

    def forward(self, x, mask=None):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        score = paddle.matmul(q, k, transpose_y=True) * (1.0 / math.sqrt(self.dim))
        if mask is not None:
            score = score + mask
        prob = self.dropout(F.softmax(score, axis=-1))
        ctx = paddle.matmul(prob, v).transpose([0, 2, 1, 3])
        return self.out(ctx.reshape([0, 0, self.heads * self.dim]))


class Block(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.attn = SelfAttention(cfg)
        self.norm1 = nn.LayerNorm(cfg.hidden_size, epsilon=1e-12)
        self.ffn1 = nn.Linear(cfg.hidden_size, cfg.intermediate_size)
        self.ffn2 = nn.Linear(cfg.intermediate_size, cfg.hidden_size)
        self.norm2 = nn.LayerNorm(cfg.hidden_size, epsilon=1e-12)
        self.dropout = nn.Dropout(cfg.hidden_dropout_prob)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attn(x, mask)))
        h = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + self.dropout(h))


class ErnieModel(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.embeddings = Embeddings(cfg)
        self.encoder = nn.LayerList([Block(cfg) for _ in range(cfg.num_hidden_layers)])

    def forward(self, input_ids, token_type_ids=None, attention_mask=None):
        if attention_mask is None:
            attention_mask = (input_ids == 0).astype("float32").unsqueeze([1, 2]) * -1e4
        x = self.embeddings(input_ids, token_type_ids)
        for block in self.encoder:
            x = block(x, attention_mask)
        return x


class MLMHead(nn.Layer):
    def __init__(self, cfg, tied):
        super().__init__()
        self.transform = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.norm = nn.LayerNorm(cfg.hidden_size)
        self.decoder_weight = tied
        self.decoder_bias = self.create_parameter([cfg.vocab_size], is_bias=True)

    def forward(self, x, positions):
        x = x.reshape([-1, x.shape[-1]])
        x = paddle.gather(x, positions)
        x = self.norm(F.gelu(self.transform(x)))
        return paddle.matmul(x, self.decoder_weight, transpose_y=True) + self.decoder_bias


class ErnieForMaskedLM(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.ernie = ErnieModel(cfg)
        self.cls = MLMHead(cfg, self.ernie.embeddings.word_embeddings.weight)

    def forward(self, input_ids, token_type_ids, positions):
        return self.cls(self.ernie(input_ids, token_type_ids), positions)
