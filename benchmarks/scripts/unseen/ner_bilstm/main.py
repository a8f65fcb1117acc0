"""python main.py --batch-size 32"""
import argparse
import os

import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader

from config import Config
from corpus import load
from model import Tagger

ROOT = os.path.dirname(os.path.abspath(__file__))


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with paddle.no_grad():
        for words, chars, lengths, tags in loader:
            pred = model(words, chars, lengths).argmax(-1)
            mask = tags != -100
            right += int(((pred == tags) & mask).sum())
            total += int(mask.sum())
    model.train()
    return right / max(total, 1)


def train(cfg: Config):
    paddle.seed(cfg.seed)
    dataset, words, chars, tags = load(cfg, ROOT)
    print(f"{len(dataset)} sentences, {len(words)} words, {len(chars)} characters, {len(tags)} tags")
    loader = DataLoader(dataset, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = Tagger(cfg.model, len(words), len(chars), len(tags))
    optimizer = paddle.optimizer.AdamW(
        learning_rate=cfg.lr, parameters=model.parameters(), weight_decay=1e-2,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(cfg.clip))
    step = 0
    for epoch in range(cfg.epochs):
        for word_ids, char_ids, lengths, tag_ids in loader:
            logits = model(word_ids, char_ids, lengths)
            loss = F.cross_entropy(logits, tag_ids.unsqueeze(-1), ignore_index=-100)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            step += 1
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
        print("accuracy", evaluate(model, loader))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=None)
    args = parser.parse_args()
    cfg = Config()
    for key, value in vars(args).items():
        if value is not None:
            setattr(cfg, key, value)
    train(cfg)
