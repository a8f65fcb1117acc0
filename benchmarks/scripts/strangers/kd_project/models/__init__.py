from .teacher import ResNetLike
from .student import MobileLike

ARCHS = {'ResNetLike': ResNetLike, 'MobileLike': MobileLike}


def build_model(cfg, num_classes):
    cfg = dict(cfg)
    return ARCHS[cfg.pop('name')](num_classes=num_classes, **cfg)
