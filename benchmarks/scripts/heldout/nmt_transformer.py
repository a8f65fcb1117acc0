"""Translation with nn.Transformer: shared vocabulary, label smoothing, Noam schedule, padding masks."""
import argparse
import math

import numpy as np
import paddle
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset
from paddle.nn import functional as F

PAD, BOS, EOS = 0, 1, 2


class ToyPairs(Dataset):
    def __init__(self, vocab, min_len, max_len, n):
        rng = np.random.RandomState(11)
        self.pairs = []
        for _ in range(n):
            a = rng.randint(3, vocab, rng.randint(min_len, max_len + 1)).tolist()
            b = [(x * 7) % (vocab - 3) + 3 for x in reversed(a)]
            self.pairs.append((a, b))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


def make_collate(max_len):
    def collate(rows):
        src = np.full((len(rows), max_len + 1), PAD, "int64")
        trg = np.full((len(rows), max_len + 2), PAD, "int64")
        for i, (a, b) in enumerate(rows):
            src[i, : len(a) + 1] = a + [EOS]
            trg[i, : len(b) + 2] = [BOS] + b + [EOS]
        return src, trg

    return collate


class PositionalEncoding(nn.Layer):
    def __init__(self, d_model, dropout, max_len=256):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        pe = np.zeros((max_len, d_model), dtype="float32")
        pos = np.arange(max_len)[:, None]
        div = np.exp(np.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = np.sin(pos * div)
        pe[:, 1::2] = np.cos(pos * div)
        self.register_buffer("pe", paddle.to_tensor(pe[None]), persistable=False)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.shape[1]])


class Translator(nn.Layer):
    def __init__(self, vocab, d_model=256, heads=8, layers=3, ff=512, dropout=0.1):
        super().__init__()
        self.d_model = d_model
        self.embed = nn.Embedding(vocab, d_model, padding_idx=PAD)
        self.position = PositionalEncoding(d_model, dropout)
        self.core = nn.Transformer(
            d_model,
            heads,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            dim_feedforward=ff,
            dropout=dropout,
            activation="relu",
            normalize_before=True,
        )
        self.project = nn.Linear(d_model, vocab)

    def encode(self, ids):
        return self.position(self.embed(ids) * math.sqrt(self.d_model))

    def forward(self, src, trg):
        src_mask = paddle.cast(src == PAD, "float32").unsqueeze([1, 2]) * -1e9
        causal = self.core.generate_square_subsequent_mask(trg.shape[1])
        out = self.core(self.encode(src), self.encode(trg), src_mask, causal, src_mask)
        return self.project(out)


def smooth_loss(logits, labels, vocab, eps=0.1):
    target = F.label_smooth(F.one_hot(labels, vocab), epsilon=eps)
    cost = F.cross_entropy(logits, target, soft_label=True, reduction="none").squeeze(-1)
    weight = (labels != PAD).astype(cost.dtype)
    return (cost * weight).sum() / weight.sum()


def main():
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--batch-size", type=int, default=24)
    add("--vocab", type=int, default=4000)
    add("--max-len", type=int, default=48)
    add("--d-model", type=int, default=256)
    add("--layers", type=int, default=3)
    add("--warmup", type=int, default=400)
    add("--accumulate", type=int, default=1)
    add("--no-smoothing", action="store_false", dest="smoothing")
    cfg = vars(parser.parse_args())

    data = ToyPairs(cfg["vocab"], 8, cfg["max_len"], 4000)
    loader = DataLoader(
        data,
        batch_sampler=BatchSampler(data, shuffle=True, batch_size=cfg["batch_size"], drop_last=True),
        collate_fn=make_collate(cfg["max_len"]),
    )
    model = Translator(cfg["vocab"], d_model=cfg["d_model"], layers=cfg["layers"])
    schedule = paddle.optimizer.lr.NoamDecay(cfg["d_model"], cfg["warmup"])
    opt = paddle.optimizer.Adam(schedule, 0.9, 0.98, 1e-9, parameters=model.parameters())
    total = sum(int(np.prod(p.shape)) for p in model.parameters())
    print("parameters: %.2f M" % (total / 1e6))
    for epoch in range(4):
        for step, (src, trg) in enumerate(loader, 1):
            logits = model(src, trg[:, :-1])
            gold = trg[:, 1:]
            if cfg["smoothing"]:
                loss = smooth_loss(logits, gold, cfg["vocab"])
            else:
                loss = F.cross_entropy(logits, gold, ignore_index=PAD)
            (loss / cfg["accumulate"]).backward()
            if step % cfg["accumulate"] == 0:
                opt.step()
                opt.clear_grad()
                schedule.step()
            if step % 20 == 0:
                print(epoch, step, "ppl %.2f" % math.exp(min(20.0, loss.item())))


if __name__ == "__main__":
    main()
