"""English -> German toy translation with paddle.nn.Transformer.

    python train_nmt.py --batch-size 64 --d-model 128
"""
import argparse
import collections
import math
import os

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

PAD, BOS, EOS, UNK = 0, 1, 2, 3


def get_parser():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "pairs.tsv"))
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-len", type=int, default=24, help="pad / truncate both sides to this length")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--nhead", type=int, default=8)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--ffn", type=int, default=512)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--min-vocab", type=int, default=2000, help="round vocabulary up to at least this many rows")
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--max-steps", type=int, default=7)
    parser.add_argument("--save-dir", default=None)
    return parser


class Vocab:
    def __init__(self, sentences, min_size):
        counter = collections.Counter(w for s in sentences for w in s)
        self.itos = ["<pad>", "<bos>", "<eos>", "<unk>"] + [w for w, _ in counter.most_common()]
        self.stoi = {w: i for i, w in enumerate(self.itos)}
        self.size = max(min_size, len(self.itos))

    def encode(self, words, max_len):
        ids = [BOS] + [self.stoi.get(w, UNK) for w in words][:max_len - 2] + [EOS]
        return np.array(ids + [PAD] * (max_len - len(ids)), dtype="int64")


class ParallelCorpus(Dataset):
    def __init__(self, path, max_len, min_vocab):
        with open(path) as f:
            pairs = [line.strip("\n").split("\t") for line in f]
        self.src = [p[0].split() for p in pairs]
        self.tgt = [p[1].split() for p in pairs]
        self.src_vocab = Vocab(self.src, min_vocab)
        self.tgt_vocab = Vocab(self.tgt, min_vocab)
        self.max_len = max_len

    def __len__(self):
        return len(self.src)

    def __getitem__(self, i):
        src = self.src_vocab.encode(self.src[i], self.max_len)
        tgt = self.tgt_vocab.encode(self.tgt[i], self.max_len + 1)
        return src, tgt[:-1], tgt[1:]


class PositionalEncoding(nn.Layer):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        pos = np.arange(max_len)[:, None]
        div = np.exp(np.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = np.zeros((1, max_len, d_model), dtype="float32")
        pe[0, :, 0::2] = np.sin(pos * div)
        pe[0, :, 1::2] = np.cos(pos * div)
        self.register_buffer("pe", paddle.to_tensor(pe))

    def forward(self, x):
        return x + self.pe[:, :x.shape[1]]


class NMTModel(nn.Layer):
    def __init__(self, src_size, tgt_size, args):
        super().__init__()
        self.d_model = args.d_model
        self.src_emb = nn.Embedding(src_size, args.d_model, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(tgt_size, args.d_model, padding_idx=PAD)
        self.pos = PositionalEncoding(args.d_model)
        self.drop = nn.Dropout(args.dropout)
        self.transformer = nn.Transformer(args.d_model, args.nhead, args.layers, args.layers,
                                          args.ffn, args.dropout, normalize_before=True)
        self.generator = nn.Linear(args.d_model, tgt_size)

    def embed(self, emb, ids):
        return self.drop(self.pos(emb(ids) * math.sqrt(self.d_model)))

    def forward(self, src, tgt):
        # additive masks, broadcast over heads
        src_mask = ((src == PAD).astype("float32") * -1e9).unsqueeze([1, 2])
        causal = paddle.triu(paddle.full([tgt.shape[1], tgt.shape[1]], -1e9), diagonal=1)
        tgt_mask = ((tgt == PAD).astype("float32") * -1e9).unsqueeze([1, 2]) + causal
        out = self.transformer(self.embed(self.src_emb, src), self.embed(self.tgt_emb, tgt),
                               src_mask, tgt_mask, src_mask)
        return self.generator(out)


class LabelSmoothedCE(nn.Layer):
    def __init__(self, vocab_size, eps):
        super().__init__()
        self.vocab_size, self.eps = vocab_size, eps

    def forward(self, logits, labels):
        target = F.label_smooth(F.one_hot(labels, self.vocab_size), epsilon=self.eps)
        loss = F.cross_entropy(logits, target, soft_label=True, reduction="none").squeeze(-1)
        mask = (labels != PAD).astype("float32")
        return (loss * mask).sum() / mask.sum()


@paddle.no_grad()
def greedy_translate(model, corpus, sentence, max_len):
    model.eval()
    src = paddle.to_tensor(corpus.src_vocab.encode(sentence.split(), max_len)[None])
    ys = paddle.full([1, 1], BOS, dtype="int64")
    for _ in range(10):
        nxt = model(src, ys)[:, -1].argmax(-1, keepdim=True)
        ys = paddle.concat([ys, nxt], axis=1)
        if nxt.item() == EOS:
            break
    names = corpus.tgt_vocab.itos
    return " ".join(names[i] if i < len(names) else "?" for i in ys[0].tolist()[1:])


def main(args):
    paddle.seed(1)
    corpus = ParallelCorpus(args.data, args.max_len, args.min_vocab)
    loader = DataLoader(corpus, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = NMTModel(corpus.src_vocab.size, corpus.tgt_vocab.size, args)
    criterion = LabelSmoothedCE(corpus.tgt_vocab.size, args.label_smoothing)
    noam = paddle.optimizer.lr.NoamDecay(args.d_model, args.warmup)
    optimizer = paddle.optimizer.Adam(noam, beta1=0.9, beta2=0.98, epsilon=1e-9,
                                      parameters=model.parameters())
    step = 0
    while step < args.max_steps:
        for src, tgt_in, tgt_out in loader:
            loss = criterion(model(src, tgt_in), tgt_out)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            noam.step()
            step += 1
            print(f"step {step} loss {loss.item():.4f} ppl {math.exp(min(loss.item(), 20)):.1f}")
            if step >= args.max_steps:
                break
    print(greedy_translate(model, corpus, "we see the big house today", args.max_len))
    if args.save_dir:
        paddle.save(model.state_dict(), os.path.join(args.save_dir, "nmt.pdparams"))
        paddle.save(optimizer.state_dict(), os.path.join(args.save_dir, "nmt.pdopt"))


if __name__ == "__main__":
    main(get_parser().parse_args())
