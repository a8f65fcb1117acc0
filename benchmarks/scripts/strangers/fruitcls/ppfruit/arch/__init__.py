from ..utils.registry import ARCHS
from . import mobile_fruit  # noqa: F401  (fills the registry)


def build_model(cfg):
    return ARCHS.build(cfg)
