"""Decoders: GPT with learned positions, LLaMA with rotary positions and gated layers."""

import paddle
from paddle import nn
from paddlenlp.transformers import PretrainedConfig


class GPTLayer(nn.Layer):
    def __init__(self, hidden, heads, intermediate):
        super().__init__()
        self.self_attn = nn.MultiHeadAttention(hidden, heads, 0.1)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.linear1 = nn.Linear(hidden, intermediate)
        self.linear2 = nn.Linear(intermediate, hidden)
        self.dropout1 = nn.Dropout(0.1)
        self.dropout2 = nn.Dropout(0.1)

    def forward(self, x, mask):
        residual = x
        x = self.norm1(x)
        x = self.self_attn(x, x, x, mask)
        x = residual + self.dropout1(x)
        residual = x
        x = self.norm2(x)
        x = self.dropout2(self.linear2(nn.functional.gelu(self.linear1(x))))
        x = residual + x
        return x


class GPTModel(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.facts = config
        self.config = PretrainedConfig(config)
        hidden = config["hidden"]
        self.word_embeddings = nn.Embedding(config["vocabulary"], hidden)
        self.position_embeddings = nn.Embedding(config["positions"], hidden)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.LayerList([GPTLayer(hidden, config["heads"], config["intermediate"])
                                    for _ in range(config["layers"])])  # fmt: skip
        self.norm = nn.LayerNorm(hidden)

    def output_weight(self):
        return self.word_embeddings.weight

    def forward(self, input_ids, position_ids=None, attention_mask=None, **options):
        length = input_ids.shape[1]
        nn._note_length(length)
        if position_ids is None:
            ones = paddle.ones_like(input_ids)
            position_ids = paddle.cumsum(ones, axis=-1) - ones
        x = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)
        x = self.dropout(x)
        mask = paddle.triu(paddle.full([length, length], -1e4), 1)
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x)
        return x


class RMSNorm(nn.Layer):
    def __init__(self, hidden):
        super().__init__()
        self.weight = self.create_parameter([hidden])

    def forward(self, x):
        mean = paddle.mean(paddle.square(x), axis=-1, keepdim=True)
        x = paddle.rsqrt(mean + 1e-6) * x
        return x * self.weight


def _rotate(x):
    half = x.shape[-1] // 2
    return paddle.concat([-x[..., half:], x[..., :half]], axis=-1)


class LlamaLayer(nn.Layer):
    def __init__(self, hidden, heads, groups, intermediate):
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, hidden // heads
        self.input_layernorm = RMSNorm(hidden)
        self.q_proj = nn.Linear(hidden, hidden, bias_attr=False)
        self.k_proj = nn.Linear(hidden, groups * self.width, bias_attr=False)
        self.v_proj = nn.Linear(hidden, groups * self.width, bias_attr=False)
        self.o_proj = nn.Linear(hidden, hidden, bias_attr=False)
        self.post_attention_layernorm = RMSNorm(hidden)
        self.gate_proj = nn.Linear(hidden, intermediate, bias_attr=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias_attr=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias_attr=False)

    def attend(self, x, cos, sin, mask):
        n, length, hidden = x.shape
        q = paddle.reshape(self.q_proj(x), [n, length, self.heads, self.width])
        k = paddle.reshape(self.k_proj(x), [n, length, self.groups, self.width])
        v = paddle.reshape(self.v_proj(x), [n, length, self.groups, self.width])
        q = q * cos + _rotate(q) * sin
        k = k * cos + _rotate(k) * sin
        if self.groups != self.heads:
            k = paddle.repeat_interleave(k, self.heads // self.groups, axis=2)
            v = paddle.repeat_interleave(v, self.heads // self.groups, axis=2)
        q, k, v = (paddle.transpose(one, [0, 2, 1, 3]) for one in (q, k, v))
        scores = paddle.matmul(q * self.width**-0.5, k, transpose_y=True) + mask
        out = paddle.matmul(nn.functional.softmax(scores), v)
        out = paddle.reshape(paddle.transpose(out, [0, 2, 1, 3]), [n, length, hidden])
        return self.o_proj(out)

    def forward(self, x, cos, sin, mask):
        x = x + self.attend(self.input_layernorm(x), cos, sin, mask)
        y = self.post_attention_layernorm(x)
        y = self.down_proj(nn.functional.silu(self.gate_proj(y)) * self.up_proj(y))
        x = x + y
        return x


class LlamaModel(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.facts = config
        self.config = PretrainedConfig(config)
        hidden, heads = config["hidden"], config["heads"]
        self.embed_tokens = nn.Embedding(config["vocabulary"], hidden)
        self.layers = nn.LayerList([
            LlamaLayer(hidden, heads, config.get("groups", heads), config["intermediate"])
            for _ in range(config["layers"])
        ])  # fmt: skip
        self.norm = RMSNorm(hidden)
        self.lm_head = nn.Linear(hidden, config["vocabulary"], bias_attr=False)

    def output_weight(self):
        return self.lm_head.weight

    def forward(self, input_ids, position_ids=None, attention_mask=None, **options):
        length = input_ids.shape[1]
        nn._note_length(length)
        width = self.facts["hidden"] // self.facts["heads"]
        cos, sin = paddle.ones([1, length, 1, width]), paddle.ones([1, length, 1, width])
        x = self.embed_tokens(input_ids)
        mask = paddle.triu(paddle.full([length, length], -1e4), 1)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        x = self.norm(x)
        return x
