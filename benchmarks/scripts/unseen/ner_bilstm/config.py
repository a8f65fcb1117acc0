from dataclasses import dataclass, field
from typing import List


@dataclass
class DataConfig:
    train_file: str = "data/train.txt"
    max_len: int = 40
    min_freq: int = 2
    lower: bool = True


@dataclass
class ModelConfig:
    embed_dim: int = 100
    char_dim: int = 25
    char_filters: int = 30
    kernel_sizes: List[int] = field(default_factory=lambda: [2, 3])
    max_word: int = 12
    hidden: int = 128
    layers: int = 2
    dropout: float = 0.33


@dataclass
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    batch_size: int = 32
    lr: float = 1e-3
    epochs: int = 2
    clip: float = 5.0
    seed: int = 13
