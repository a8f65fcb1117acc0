import json
from dataclasses import dataclass, field, fields, asdict
from pathlib import Path
from typing import Tuple


@dataclass
class GPTConfig:
    vocab_size: int = 50304
    block_size: int = 1024
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True

    def __post_init__(self):
        if self.n_embd % self.n_head:
            raise ValueError("n_embd must be a multiple of n_head")

    @property
    def head_dim(self):
        return self.n_embd // self.n_head


@dataclass
class TrainConfig:
    micro_batch: int = 12
    accumulate: int = 1
    max_iters: int = 1000
    lr: float = 6e-4
    min_lr: float = 6e-5
    warmup: int = 100
    weight_decay: float = 0.1
    betas: Tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0


@dataclass
class Config:
    model: GPTConfig = field(default_factory=GPTConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @classmethod
    def from_file(cls, path):
        raw = json.loads(Path(path).read_text())
        known = {f.name for f in fields(TrainConfig)}
        unknown = set(raw["train"]) - known
        if unknown:
            raise KeyError(f"unknown training options: {sorted(unknown)}")
        return cls(model=GPTConfig(**raw["model"]), train=TrainConfig(**raw["train"]))

    def describe(self):
        return "\n".join(f"{k}: {v}" for k, v in asdict(self).items())
