import json
import math
from dataclasses import dataclass, fields

import paddle
import paddle.nn as nn
import paddle.nn.functional as F


@dataclass
class BertConfig:
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    pad_token_id: int = 0

    @classmethod
    def from_json(cls, path):
        with open(path) as f:
            raw = json.load(f)
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in raw.items() if k in known})


class BertEmbeddings(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.word_embeddings = nn.Embedding(cfg.vocab_size, cfg.hidden_size)
        self.position_embeddings = nn.Embedding(cfg.max_position_embeddings, cfg.hidden_size)
        self.token_type_embeddings = nn.Embedding(cfg.type_vocab_size, cfg.hidden_size)
        self.layer_norm = nn.LayerNorm(cfg.hidden_size, epsilon=1e-12)
        self.dropout = nn.Dropout(cfg.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids):
        pos = paddle.arange(input_ids.shape[1], dtype="int64").unsqueeze(0)
        x = self.word_embeddings(input_ids) + self.position_embeddings(pos) + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.layer_norm(x))


class BertSelfAttention(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.num_heads = cfg.num_attention_heads
        self.head_dim = cfg.hidden_size // cfg.num_attention_heads
        self.query = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.key = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.value = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.out = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.attn_drop = nn.Dropout(cfg.attention_probs_dropout_prob)

    def _split(self, x):
        b, s, _ = x.shape
        return x.reshape([b, s, self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])

    def forward(self, x, mask):
        q, k, v = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        scores = paddle.matmul(q, k, transpose_y=True) / math.sqrt(self.head_dim)
        probs = self.attn_drop(F.softmax(scores + mask, axis=-1))
        ctx = paddle.matmul(probs, v).transpose([0, 2, 1, 3])
        return self.out(ctx.reshape([x.shape[0], x.shape[1], -1]))


class BertLayer(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.attention = BertSelfAttention(cfg)
        self.norm1 = nn.LayerNorm(cfg.hidden_size, epsilon=1e-12)
        self.intermediate = nn.Linear(cfg.hidden_size, cfg.intermediate_size)
        self.output = nn.Linear(cfg.intermediate_size, cfg.hidden_size)
        self.norm2 = nn.LayerNorm(cfg.hidden_size, epsilon=1e-12)
        self.act = getattr(F, cfg.hidden_act)
        self.drop = nn.Dropout(cfg.hidden_dropout_prob)

    def forward(self, x, mask):
        x = self.norm1(x + self.drop(self.attention(x, mask)))
        return self.norm2(x + self.drop(self.output(self.act(self.intermediate(x)))))


class BertForPretraining(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embeddings = BertEmbeddings(cfg)
        self.encoder = nn.LayerList([BertLayer(cfg) for _ in range(cfg.num_hidden_layers)])
        self.pooler = nn.Sequential(nn.Linear(cfg.hidden_size, cfg.hidden_size), nn.Tanh())
        self.transform = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        self.transform_norm = nn.LayerNorm(cfg.hidden_size, epsilon=1e-12)
        self.decoder_bias = self.create_parameter([cfg.vocab_size], is_bias=True)
        self.nsp = nn.Linear(cfg.hidden_size, 2)
        self.apply(self._init)

    def _init(self, layer):
        if isinstance(layer, (nn.Linear, nn.Embedding)):
            layer.weight.set_value(paddle.normal(0.0, self.cfg.initializer_range, layer.weight.shape))

    def forward(self, input_ids, token_type_ids, masked_positions):
        mask = (input_ids == self.cfg.pad_token_id).astype("float32").unsqueeze([1, 2]) * -1e4
        x = self.embeddings(input_ids, token_type_ids)
        for layer in self.encoder:
            x = layer(x, mask)
        # gather only the masked positions before the vocabulary projection
        b, s, h = x.shape
        flat = x.reshape([b * s, h])
        idx = masked_positions + paddle.arange(b, dtype="int64").unsqueeze(1) * s
        picked = paddle.gather(flat, idx.flatten())
        picked = self.transform_norm(F.gelu(self.transform(picked)))
        mlm = paddle.matmul(picked, self.embeddings.word_embeddings.weight, transpose_y=True) + self.decoder_bias
        return mlm, self.nsp(self.pooler(x[:, 0]))
