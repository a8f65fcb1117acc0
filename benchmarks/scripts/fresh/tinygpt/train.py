"""Train a small GPT on random tokens: python train.py --config config.json"""
import argparse
import math
import os

import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

from config import Config
from model import GPT

HERE = os.path.dirname(os.path.abspath(__file__))


class TokenWindows(Dataset):
    def __init__(self, tokens, block):
        self.tokens, self.block = tokens, block

    def __len__(self):
        return (len(self.tokens) - 1) // self.block

    def __getitem__(self, i):
        at = i * self.block
        chunk = self.tokens[at:at + self.block + 1].astype(np.int64)
        return chunk[:-1], chunk[1:]


def lr_at(step, cfg):
    if step < cfg.warmup:
        return cfg.lr * (step + 1) / cfg.warmup
    ratio = (step - cfg.warmup) / max(1, cfg.max_iters - cfg.warmup)
    return cfg.min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (cfg.lr - cfg.min_lr)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default=os.path.join(HERE, "config.json"))
    ap.add_argument("--micro-batch", type=int, default=None)
    args = ap.parse_args()
    cfg = Config.from_file(args.config)
    if args.micro_batch:
        cfg.train.micro_batch = args.micro_batch
    print(cfg.describe())
    tokens = np.random.randint(0, cfg.model.vocab_size, size=200_000, dtype=np.uint16)
    loader = DataLoader(TokenWindows(tokens, cfg.model.block_size),
                        batch_size=cfg.train.micro_batch, shuffle=True, drop_last=True)
    model = GPT(cfg.model)
    print(f"{model.num_params() / 1e6:.2f}M parameters")
    optimizer = model.configure_optimizer(cfg.train, cfg.train.lr)
    model.train()
    it, micro, shown = 0, 0, 0.0
    while it < cfg.train.max_iters:
        for x, y in loader:
            _, loss = model(x, y)
            (loss / cfg.train.accumulate).backward()
            shown += loss.item() / cfg.train.accumulate
            micro += 1
            if micro % cfg.train.accumulate == 0:
                optimizer.set_lr(lr_at(it, cfg.train))
                optimizer.step()
                optimizer.clear_grad()
                print(f"iter {it}: loss {shown:.4f}")
                shown = 0.0
                it += 1
                if it >= cfg.train.max_iters:
                    break


if __name__ == "__main__":
    main()
