from .config import ErnieConfig
from .model import ErnieForMaskedLM

__all__ = ["ErnieConfig", "ErnieForMaskedLM"]
