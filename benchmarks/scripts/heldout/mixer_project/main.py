import argparse
import pathlib

import paddle

from mixer import config, nets
from mixer.data import make_loader
from mixer.engine import Engine

CONFIGS = pathlib.Path(__file__).parent / "configs"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-c", "--config", default="mixer_s")
    ap.add_argument("--steps", type=int, default=100)
    args = ap.parse_args()
    cfg = config.load(CONFIGS / f"{args.config}.yaml")
    paddle.seed(cfg.seed)
    model = nets.create(cfg.model, image_size=cfg.data.image_size, num_classes=cfg.data.num_classes)
    Engine(model, cfg.optimizer).train(make_loader(cfg.data), args.steps)


if __name__ == "__main__":
    main()
