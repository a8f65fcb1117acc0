from .backbone import SmallVGG
from .head import AttentionHead
from .recogniser import Recogniser

_MODELS = {cls.__name__: cls for cls in (SmallVGG, AttentionHead)}


def build(cfg, **extra):
    cfg = dict(cfg)
    name = cfg.pop("name")
    return _MODELS[name](**cfg, **extra)


def build_model(cfg, num_classes, max_text_length):
    backbone = build(cfg["Backbone"])
    hidden = cfg["Encoder"]["hidden_size"]
    head = build(
        cfg["Head"], in_channels=2 * hidden, num_classes=num_classes, max_text_length=max_text_length
    )
    return Recogniser(backbone, hidden, head)
