"""Attention and the transformer, with explicit score matrices as Paddle 3.3.1 computes them."""

import copy

import paddle
from paddle import nn


def _bias(mask, like):
    """Turn a boolean or whole-number mask into what is added to the scores."""
    if mask is not None and mask.dtype != like.dtype:
        if mask.dtype in (paddle.bool, paddle.int32, paddle.int64):
            mask = (paddle.cast(mask, like.dtype) - 1.0) * 1e9
        else:
            mask = paddle.cast(mask, like.dtype)
    return mask


def _copies(layer, count):
    return nn.LayerList([layer, *[copy.deepcopy(layer) for _ in range(count - 1)]])


class KeysAndValues:
    """What a cache holds."""

    def __init__(self, k, v):
        self.k, self.v = k, v


class GrowingKeysAndValues(KeysAndValues):
    """A cache that each step adds to."""


class MultiHeadAttention(nn.Layer):
    Cache = GrowingKeysAndValues
    StaticCache = KeysAndValues

    def __init__(self, embed_dim, num_heads, dropout=0.0, kdim=None, vdim=None, need_weights=False,
                 weight_attr=None, bias_attr=None):  # fmt: skip
        super().__init__()
        assert embed_dim % num_heads == 0
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.need_weights = need_weights
        self.q_proj = nn.Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = nn.Linear(kdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.v_proj = nn.Linear(vdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.out_proj = nn.Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x):
        x = paddle.reshape(x, [0, 0, self.num_heads, self.head_dim])
        return paddle.transpose(x, [0, 2, 1, 3])

    def compute_kv(self, key, value):
        k = self.k_proj(key)
        v = self.v_proj(value)
        return self._heads(k), self._heads(v)

    def gen_cache(self, key, value=None, type=GrowingKeysAndValues):
        if type is KeysAndValues:
            return KeysAndValues(*self.compute_kv(key, value))
        if value is not None:
            return GrowingKeysAndValues(key, value)
        shape = [key.shape[0], self.num_heads, 0, self.head_dim]
        return GrowingKeysAndValues(paddle.full(shape, 0, key.dtype),
                                    paddle.full(shape, 0, key.dtype))  # fmt: skip

    def _project(self, query, key, value, cache):
        q = self._heads(self.q_proj(query))
        if cache is not None and not isinstance(cache, GrowingKeysAndValues):
            return q, cache.k, cache.v, cache
        k, v = self.compute_kv(key, value)
        if cache is not None:
            k = paddle.concat([cache.k, k], axis=2)
            v = paddle.concat([cache.v, v], axis=2)
            cache = GrowingKeysAndValues(k, v)
        return q, k, v, cache

    def forward(self, query, key=None, value=None, attn_mask=None, cache=None):
        key = query if key is None else key
        value = query if value is None else value
        q, k, v, cache = self._project(query, key, value, cache)
        scores = paddle.matmul(q * self.head_dim**-0.5, k, transpose_y=True)
        if attn_mask is not None:
            attn_mask = _bias(attn_mask, scores)
            scores = scores + attn_mask
        weights = nn.functional.softmax(scores)
        if self.dropout:
            weights = nn.functional.dropout(weights, self.dropout, training=self.training)
        out = paddle.matmul(weights, v)
        out = paddle.transpose(out, [0, 2, 1, 3])
        out = paddle.reshape(out, [0, 0, self.embed_dim])
        out = self.out_proj(out)
        given = [out]
        if self.need_weights:
            given.append(weights)
        if cache is not None:
            given.append(cache)
        return out if len(given) == 1 else tuple(given)


class TransformerEncoderLayer(nn.Layer):
    def __init__(self, d_model, nhead, dim_feedforward, dropout=0.1, activation="relu",
                 attn_dropout=None, act_dropout=None, normalize_before=False, weight_attr=None,
                 bias_attr=None, layer_norm_eps=1e-5):  # fmt: skip
        super().__init__()
        self.normalize_before = normalize_before
        self.self_attn = MultiHeadAttention(
            d_model, nhead, dropout if attn_dropout is None else attn_dropout
        )
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.dropout = nn.Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)
        self.activation = getattr(nn.functional, activation)

    def forward(self, src, src_mask=None, cache=None):
        src_mask = _bias(src_mask, src)
        residual = src
        if self.normalize_before:
            src = self.norm1(src)
        if cache is None:
            src = self.self_attn(src, src, src, src_mask)
        else:
            src, grown = self.self_attn(src, src, src, src_mask, cache)
        src = residual + self.dropout1(src)
        if not self.normalize_before:
            src = self.norm1(src)
        residual = src
        if self.normalize_before:
            src = self.norm2(src)
        src = self.linear2(self.dropout(self.activation(self.linear1(src))))
        src = residual + self.dropout2(src)
        if not self.normalize_before:
            src = self.norm2(src)
        return src if cache is None else (src, grown)

    def gen_cache(self, src):
        return self.self_attn.gen_cache(src)


class TransformerEncoder(nn.Layer):
    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src, src_mask=None, cache=None):
        src_mask = _bias(src_mask, src)
        nn._note_length(src.shape[1])
        output = src
        grown = []
        for place, layer in enumerate(self.layers):
            if cache is None:
                output = layer(output, src_mask=src_mask)
            else:
                output, new = layer(output, src_mask=src_mask, cache=cache[place])
                grown.append(new)
        if self.norm is not None:
            output = self.norm(output)
        return output if cache is None else (output, grown)

    def gen_cache(self, src):
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoderLayer(nn.Layer):
    def __init__(self, d_model, nhead, dim_feedforward, dropout=0.1, activation="relu",
                 attn_dropout=None, act_dropout=None, normalize_before=False, weight_attr=None,
                 bias_attr=None, layer_norm_eps=1e-5):  # fmt: skip
        super().__init__()
        attn_dropout = dropout if attn_dropout is None else attn_dropout
        self.normalize_before = normalize_before
        self.self_attn = MultiHeadAttention(d_model, nhead, attn_dropout)
        self.cross_attn = MultiHeadAttention(d_model, nhead, attn_dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.dropout = nn.Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)
        self.dropout3 = nn.Dropout(dropout)
        self.activation = getattr(nn.functional, activation)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, cache=None):
        tgt_mask = _bias(tgt_mask, tgt)
        memory_mask = _bias(memory_mask, memory)
        residual = tgt
        if self.normalize_before:
            tgt = self.norm1(tgt)
        if cache is None:
            tgt = self.self_attn(tgt, tgt, tgt, tgt_mask)
        else:
            tgt, grown = self.self_attn(tgt, tgt, tgt, tgt_mask, cache[0])
        tgt = residual + self.dropout1(tgt)
        if not self.normalize_before:
            tgt = self.norm1(tgt)
        residual = tgt
        if self.normalize_before:
            tgt = self.norm2(tgt)
        if cache is None:
            tgt = self.cross_attn(tgt, memory, memory, memory_mask)
        else:
            tgt, kept = self.cross_attn(tgt, memory, memory, memory_mask, cache[1])
        tgt = residual + self.dropout2(tgt)
        if not self.normalize_before:
            tgt = self.norm2(tgt)
        residual = tgt
        if self.normalize_before:
            tgt = self.norm3(tgt)
        tgt = self.linear2(self.dropout(self.activation(self.linear1(tgt))))
        tgt = residual + self.dropout3(tgt)
        if not self.normalize_before:
            tgt = self.norm3(tgt)
        return tgt if cache is None else (tgt, (grown, kept))

    def gen_cache(self, memory):
        return (self.self_attn.gen_cache(memory),
                self.cross_attn.gen_cache(memory, memory, KeysAndValues))  # fmt: skip


class TransformerDecoder(nn.Layer):
    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, cache=None):
        tgt_mask = _bias(tgt_mask, tgt)
        memory_mask = _bias(memory_mask, memory)
        output = tgt
        grown = []
        for place, layer in enumerate(self.layers):
            if cache is None:
                output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask)
            else:
                output, new = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                                    cache=cache[place])  # fmt: skip
                grown.append(new)
        if self.norm is not None:
            output = self.norm(output)
        return output if cache is None else (output, grown)

    def gen_cache(self, memory, do_zip=False):
        made = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*made)) if do_zip else made  # noqa: B905 - all have two


class Transformer(nn.Layer):
    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6,
                 dim_feedforward=2048, dropout=0.1, activation="relu", attn_dropout=None,
                 act_dropout=None, normalize_before=False, weight_attr=None, bias_attr=None,
                 custom_encoder=None, custom_decoder=None):  # fmt: skip
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout,
                 normalize_before)  # fmt: skip
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*sizes), num_encoder_layers, nn.LayerNorm(d_model)
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*sizes), num_decoder_layers, nn.LayerNorm(d_model)
            )
        self.d_model = d_model
        self.nhead = nhead

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None):
        src_mask = _bias(src_mask, src)
        memory = self.encoder(src, src_mask=src_mask)
        tgt_mask = _bias(tgt_mask, tgt)
        memory_mask = _bias(memory_mask, memory)
        output = self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask)
        return output

    def generate_square_subsequent_mask(self, length):
        return paddle.triu(paddle.full([length, length], -1e9), 1)
