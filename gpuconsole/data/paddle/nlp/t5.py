"""T5: an encoder and a decoder with relative positions."""

import paddle
from paddle import nn
from paddlenlp.transformers import PretrainedConfig


class T5Norm(nn.Layer):
    def __init__(self, hidden):
        super().__init__()
        self.weight = self.create_parameter([hidden])

    def forward(self, x):
        mean = paddle.mean(paddle.square(x), axis=-1, keepdim=True)
        x = x * paddle.rsqrt(mean + 1e-6)
        return self.weight * x


class T5Attention(nn.Layer):
    def __init__(self, hidden, heads, biased=False):
        super().__init__()
        self.heads, self.width = heads, 64
        inner = heads * 64
        self.layer_norm = T5Norm(hidden)
        self.q = nn.Linear(hidden, inner, bias_attr=False)
        self.k = nn.Linear(hidden, inner, bias_attr=False)
        self.v = nn.Linear(hidden, inner, bias_attr=False)
        self.o = nn.Linear(inner, hidden, bias_attr=False)
        if biased:
            self.relative_attention_bias = nn.Embedding(32, heads)

    def _heads(self, x):
        x = paddle.reshape(x, [x.shape[0], x.shape[1], self.heads, self.width])
        return paddle.transpose(x, [0, 2, 1, 3])

    def bias(self, length):
        ids = paddle.zeros([length, length], "int64")
        return paddle.unsqueeze(paddle.transpose(self.relative_attention_bias(ids), [2, 0, 1]), 0)

    def forward(self, x, memory=None, bias=None):
        y = self.layer_norm(x)
        source = y if memory is None else memory
        q = self._heads(self.q(y))
        k = self._heads(self.k(source))
        v = self._heads(self.v(source))
        scores = paddle.matmul(q, k, transpose_y=True)
        if bias is not None:
            scores = scores + bias
        weights = nn.functional.softmax(scores)
        weights = nn.functional.dropout(weights, 0.1, training=self.training)
        out = paddle.transpose(paddle.matmul(weights, v), [0, 2, 1, 3])
        out = self.o(paddle.reshape(out, [x.shape[0], x.shape[1], self.heads * self.width]))
        return x + nn.functional.dropout(out, 0.1, training=self.training)


class T5FeedForward(nn.Layer):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.layer_norm = T5Norm(hidden)
        self.wi = nn.Linear(hidden, intermediate, bias_attr=False)
        self.wo = nn.Linear(intermediate, hidden, bias_attr=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        y = self.layer_norm(x)
        y = self.wo(self.dropout(nn.functional.relu(self.wi(y))))
        return x + self.dropout(y)


class T5Stack(nn.Layer):
    def __init__(self, config, crossed):
        super().__init__()
        hidden, heads, count = config["hidden"], config["heads"], config["layers"]
        self.attentions = nn.LayerList([T5Attention(hidden, heads, not i) for i in range(count)])
        self.crosses = nn.LayerList([T5Attention(hidden, heads) for _ in range(count)
                                     if crossed])  # fmt: skip
        self.forwards = nn.LayerList([T5FeedForward(hidden, config["intermediate"])
                                      for _ in range(count)])  # fmt: skip
        self.final_layer_norm = T5Norm(hidden)

    def forward(self, x, memory=None):
        bias = self.attentions[0].bias(x.shape[1])
        for place, attention in enumerate(self.attentions):
            x = attention(x, None, bias)
            if memory is not None:
                x = self.crosses[place](x, memory)
            x = self.forwards[place](x)
        return self.final_layer_norm(x)


class T5Model(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.facts = config
        self.config = PretrainedConfig(config)
        self.shared = nn.Embedding(config["vocabulary"], config["hidden"])
        self.encoder = T5Stack(config, False)
        self.decoder = T5Stack(config, True)

    def output_weight(self):
        return self.shared.weight

    def forward(self, input_ids, attention_mask=None, decoder_input_ids=None, **options):
        nn._note_length(input_ids.shape[1])
        memory = self.encoder(self.shared(input_ids))
        target = input_ids if decoder_input_ids is None else decoder_input_ids
        return self.decoder(self.shared(target), memory)
