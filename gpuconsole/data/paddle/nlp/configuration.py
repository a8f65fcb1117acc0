"""What scripts read of a pretrained model's configuration, under PaddleNLP's own names."""

from paddlenlp.transformers import _unknown_setting

NAMES = {
    "hidden_size": "hidden",
    "d_model": "hidden",
    "num_hidden_layers": "layers",
    "num_layers": "layers",
    "num_attention_heads": "heads",
    "num_heads": "heads",
    "intermediate_size": "intermediate",
    "d_ff": "intermediate",
    "vocab_size": "vocabulary",
    "max_position_embeddings": "positions",
    "type_vocab_size": "types",
    "task_type_vocab_size": "tasks",
    "embedding_size": "embedding",
}


class PretrainedConfig:
    """Its sizes; the rest of a configuration is not known."""

    def __init__(self, facts):
        self.facts = facts

    def __getitem__(self, name):
        own = NAMES.get(name)
        if own is not None and own in self.facts:
            return self.facts[own]
        return _unknown_setting(name)

    def get(self, name, default=None):
        return self[name]

    def __contains__(self, name):
        return NAMES.get(name) in self.facts or _unknown_setting(name)

    def __getattr__(self, name):
        return self[name]
