"""What is put on a pretrained model: classifiers of texts, tokens and spans, language modelling.

Every family's class of a kind is the class of that kind here: the name of the pretrained model
tells the rest.
"""

import paddle
from paddle import nn
from paddlenlp.transformers import (
    EncoderModel,
    GPTModel,
    LlamaModel,
    PretrainedConfig,
    T5Model,
    _facts,
)


def _backbone(config):
    kind = config["kind"]
    if kind == "gpt":
        return GPTModel(config)
    if kind == "llama":
        return LlamaModel(config)
    return T5Model(config) if kind == "t5" else EncoderModel(config)


class PretrainedModel(nn.Layer):
    def __init__(self, config):
        super().__init__()
        config = config.facts if isinstance(config, nn.Layer) else config
        self.facts = config
        self.config = PretrainedConfig(config)
        self.add_sublayer(config["prefix"], _backbone(config))

    @classmethod
    def from_pretrained(cls, name, *args, **options):
        return cls(_facts(name), *args, **options)

    @property
    def base_model(self):
        return getattr(self, self.facts["prefix"])

    def states(self, *args, **options):
        out = self.base_model(*args, **options)
        return out[0] if isinstance(out, tuple) else out

    def pooled(self, *args, **options):
        out = self.base_model(*args, **options)
        if isinstance(out, tuple):
            return out[1]
        return out[:, 0]


class Model:
    """The bare model of a family."""

    @classmethod
    def from_pretrained(cls, name, *args, **options):
        return _backbone(_facts(name))

    from_config = from_pretrained


class ForSequenceClassification(PretrainedModel):
    def __init__(self, config, num_classes=2, dropout=0.1, num_labels=None, **options):
        super().__init__(config)
        self.num_classes = num_classes if num_labels is None else num_labels
        self.dropout = nn.Dropout(0.1 if dropout is None else dropout)
        self.classifier = nn.Linear(self.facts["hidden"], self.num_classes)

    def forward(self, input_ids, token_type_ids=None, position_ids=None, attention_mask=None,
                labels=None, **options):  # fmt: skip
        pooled = self.pooled(input_ids, token_type_ids=token_type_ids, position_ids=position_ids,
                             attention_mask=attention_mask)  # fmt: skip
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits, labels), logits


class ForTokenClassification(PretrainedModel):
    def __init__(self, config, num_classes=2, dropout=0.1, num_labels=None, **options):
        super().__init__(config)
        self.num_classes = num_classes if num_labels is None else num_labels
        self.dropout = nn.Dropout(0.1 if dropout is None else dropout)
        self.classifier = nn.Linear(self.facts["hidden"], self.num_classes)

    def forward(self, input_ids, token_type_ids=None, position_ids=None, attention_mask=None,
                labels=None, **options):  # fmt: skip
        states = self.states(input_ids, token_type_ids=token_type_ids, position_ids=position_ids,
                             attention_mask=attention_mask)  # fmt: skip
        states = self.dropout(states)
        logits = self.classifier(states)
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits, labels), logits


class ForQuestionAnswering(PretrainedModel):
    def __init__(self, config, **options):
        super().__init__(config)
        self.classifier = nn.Linear(self.facts["hidden"], 2)

    def forward(self, input_ids, token_type_ids=None, position_ids=None, attention_mask=None,
                **options):  # fmt: skip
        states = self.states(input_ids, token_type_ids=token_type_ids, position_ids=position_ids,
                             attention_mask=attention_mask)  # fmt: skip
        logits = self.classifier(states)
        logits = paddle.transpose(logits, [2, 0, 1])
        start, end = paddle.unstack(logits, axis=0)
        return start, end


class ForMaskedLM(PretrainedModel):
    """Also what generates text: the output layer is the embedding's weight."""

    def __init__(self, config, **options):
        super().__init__(config)
        config = self.facts
        hidden = config.get("embedding", config["hidden"])
        self.encoder = config["kind"] == "encoder"
        if self.encoder:
            self.transform = nn.Linear(config["hidden"], hidden)
            self.layer_norm = nn.LayerNorm(hidden)
            self.decoder_bias = self.create_parameter([config["vocabulary"]], is_bias=True)

    def forward(self, input_ids, token_type_ids=None, position_ids=None, attention_mask=None,
                labels=None, **options):  # fmt: skip
        states = self.states(input_ids, token_type_ids=token_type_ids, position_ids=position_ids,
                             attention_mask=attention_mask)  # fmt: skip
        if self.encoder:
            states = self.layer_norm(nn.functional.gelu(self.transform(states)))
            weight = self.base_model.embeddings.word_embeddings.weight
            logits = paddle.matmul(states, weight, transpose_y=True) + self.decoder_bias
        else:
            weight = self.base_model.output_weight()
            turned = weight.shape[0] != states.shape[-1]
            logits = paddle.matmul(states, weight, transpose_y=turned)
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits, labels), logits
