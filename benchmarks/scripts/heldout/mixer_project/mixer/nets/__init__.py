from ..registry import MODELS
from .blocks import MixerBlock
from .mlp_mixer import MlpMixer


def create(cfg, **kwargs):
    args = {k: v for k, v in cfg.items() if k != "type"}
    return MODELS[cfg.type](**args, **kwargs)
