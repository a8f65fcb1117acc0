"""Encoders of the BERT kind: BERT, ERNIE, RoBERTa, ELECTRA, ALBERT, DistilBERT and their like."""

import paddle
from paddle import nn
from paddlenlp.transformers import PretrainedConfig


class Embeddings(nn.Layer):
    def __init__(self, config, width):
        super().__init__()
        self.word_embeddings = nn.Embedding(config["vocabulary"], width)
        self.position_embeddings = nn.Embedding(config["positions"], width)
        self.typed = config["types"] > 0
        if self.typed:
            self.token_type_embeddings = nn.Embedding(config["types"], width)
        self.tasked = config.get("tasks", 0) > 0
        if self.tasked:
            self.task_type_embeddings = nn.Embedding(config["tasks"], width)
        self.layer_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, input_ids, token_type_ids=None, position_ids=None):
        embedded = self.word_embeddings(input_ids)
        if position_ids is None:
            ones = paddle.ones_like(input_ids)
            position_ids = paddle.cumsum(ones, axis=-1) - ones
        embedded = embedded + self.position_embeddings(position_ids)
        if self.typed:
            if token_type_ids is None:
                token_type_ids = paddle.zeros_like(input_ids)
            embedded = embedded + self.token_type_embeddings(token_type_ids)
        if self.tasked:
            embedded = embedded + self.task_type_embeddings(paddle.zeros_like(input_ids))
        embedded = self.layer_norm(embedded)
        embedded = self.dropout(embedded)
        return embedded


class Pooler(nn.Layer):
    def __init__(self, hidden):
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.activation = nn.Tanh()

    def forward(self, states):
        first = states[:, 0]
        pooled = self.dense(first)
        pooled = self.activation(pooled)
        return pooled


class SharedEncoder(nn.Layer):
    """ALBERT's: one layer, used again and again."""

    def __init__(self, layer, count):
        super().__init__()
        self.layer = layer
        self.count = count

    def forward(self, states, mask=None):
        for _ in range(self.count):
            states = self.layer(states, mask)
        return states


class EncoderModel(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.facts = config
        self.config = PretrainedConfig(config)
        hidden = config["hidden"]
        width = config.get("embedding", hidden)
        self.embeddings = Embeddings(config, width)
        if width != hidden:
            self.embeddings_project = nn.Linear(width, hidden)
        layer = nn.TransformerEncoderLayer(hidden, config["heads"], config["intermediate"], 0.1,
                                           config.get("activation", "gelu"))  # fmt: skip
        if config.get("shared", False):
            self.encoder = SharedEncoder(layer, config["layers"])
        else:
            self.encoder = nn.TransformerEncoder(layer, config["layers"])
        self.pooled = config.get("pooler", True)
        if self.pooled:
            self.pooler = Pooler(hidden)

    def forward(self, input_ids, token_type_ids=None, position_ids=None, attention_mask=None,
                **options):  # fmt: skip
        if attention_mask is None:
            attention_mask = paddle.unsqueeze((input_ids == 0).astype("float32") * -1e4, [1, 2])
        elif attention_mask.ndim == 2:
            attention_mask = paddle.unsqueeze(attention_mask, [1, 2]).astype("float32")
            attention_mask = (1.0 - attention_mask) * -1e4
        states = self.embeddings(input_ids, token_type_ids, position_ids)
        if self.embeddings.word_embeddings.weight.shape[1] != self.facts["hidden"]:
            states = self.embeddings_project(states)
        states = self.encoder(states, attention_mask)
        return (states, self.pooler(states)) if self.pooled else states
