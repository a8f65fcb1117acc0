import json


class ErnieConfig:
    def __init__(self, **kwargs):
        self.hidden_size = kwargs.pop("hidden_size", 256)
        self.num_hidden_layers = kwargs.pop("num_hidden_layers", 4)
        self.num_attention_heads = kwargs.pop("num_attention_heads", 4)
        self.intermediate_size = kwargs.pop("intermediate_size", 4 * self.hidden_size)
        self.hidden_dropout_prob = kwargs.pop("hidden_dropout_prob", 0.1)
        self.attention_dropout_prob = kwargs.pop("attention_dropout_prob", 0.1)
        self.max_position_embeddings = kwargs.pop("max_position_embeddings", 512)
        self.type_vocab_size = kwargs.pop("type_vocab_size", 2)
        self.vocab_size = kwargs.pop("vocab_size", 12000)
        self.initializer_range = kwargs.pop("initializer_range", 0.02)

    @classmethod
    def from_json(cls, path):
        with open(path) as f:
            return cls(**json.load(f))
