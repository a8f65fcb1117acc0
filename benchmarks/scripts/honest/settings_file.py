import argparse
import dataclasses
import json


@dataclasses.dataclass
class Config:
    width: int = 32
    depth: int = 2
    act: str = "gelu"
    drop: float = 0.1
    names: list = dataclasses.field(default_factory=lambda: ["a", "b"])


REGISTRY = {}


def register(cls):
    REGISTRY[cls.__name__.lower()] = cls
    return cls


import paddle  # noqa: E402


@register
class Mlp(paddle.nn.Layer):
    def __init__(self, width, depth, act, drop, **rest):
        super().__init__()
        self.blocks = paddle.nn.LayerList()
        for _ in range(depth):
            self.blocks.append(paddle.nn.Linear(width, width))
        self.act = getattr(paddle.nn.functional, act)
        self.drop = drop

    def forward(self, x, *, scale=1.0):
        for block in self.blocks:
            x = paddle.nn.functional.dropout(self.act(block(x)), self.drop, training=self.training)
        return x * scale


parser = argparse.ArgumentParser()
parser.add_argument("--set", nargs="*", default=["depth=3"])
args = parser.parse_args()
cfg = dataclasses.asdict(Config())
cfg.update({k: json.loads(v) for k, v in (one.split("=") for one in args.set)})
net = REGISTRY["mlp"](**cfg)
opt = getattr(paddle.optimizer, "AdamW")(parameters=net.parameters(), learning_rate=1e-3)
for _ in range(3):
    net(paddle.rand([11, cfg["width"]]), scale=0.5).std().backward()
    opt.step()
    opt.clear_grad()
