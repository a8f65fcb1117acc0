import argparse
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

from model import AttnDecoder, Encoder
from vocab import Vocab, read_jsonl

ROOT = Path(__file__).resolve().parent


class Captions(Dataset):
    def __init__(self, rows, vocab, size):
        self.rows, self.vocab, self.size = rows, vocab, size

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        # images are not shipped with the repo: hash of the name -> picture
        g = np.random.RandomState(int(r["image"][4:8]))
        return g.rand(3, self.size, self.size).astype("float32"), self.vocab.encode(r["caption"])


def pad_to(max_len):
    def fn(samples):
        img = np.stack([s[0] for s in samples])
        cap = np.full((len(samples), max_len), Vocab.PAD, "int64")
        for k, (_, ids) in enumerate(samples):
            cap[k, :min(len(ids), max_len)] = ids[:max_len]
        return img, cap
    return fn


def main(args):
    rows = read_jsonl(args.data)
    vocab = Vocab([r["caption"] for r in rows], extra=args.extra_vocab)
    max_len = max(len(vocab.encode(r["caption"])) for r in rows)
    print("captions", len(rows), "vocab", len(vocab), "max_len", max_len)
    enc, dec = Encoder(tune=args.finetune_cnn), AttnDecoder(len(vocab))
    params = [p for p in enc.parameters() + dec.parameters() if not p.stop_gradient]
    opt = paddle.optimizer.Adam(4e-4, parameters=params, grad_clip=paddle.nn.ClipGradByGlobalNorm(5.0))
    dl = DataLoader(Captions(rows, vocab, args.size), batch_size=args.batch, shuffle=True, drop_last=True,
                    collate_fn=pad_to(max_len))
    n = 0
    for epoch in range(args.epochs):
        for img, cap in dl:
            logits, alpha = dec(enc(img), cap)
            loss = F.cross_entropy(logits, cap[:, 1:], ignore_index=Vocab.PAD)
            loss = loss + args.doubly * ((1 - alpha.sum(1)) ** 2).mean()
            opt.clear_grad()
            loss.backward()
            opt.step()
            n += 1
            print("epoch %d step %d loss %.4f" % (epoch, n, loss.item()))
            if n >= args.max_steps:
                return
        if args.ckpt:
            paddle.save({"enc": enc.state_dict(), "dec": dec.state_dict()}, args.ckpt)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=str(ROOT / "data" / "captions.jsonl"))
    ap.add_argument("--batch", type=int, default=20)
    ap.add_argument("--size", type=int, default=128)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--max-steps", type=int, default=6)
    ap.add_argument("--extra-vocab", type=int, default=4000)
    ap.add_argument("--doubly", type=float, default=1.0)
    ap.add_argument("--finetune-cnn", action="store_true")
    ap.add_argument("--ckpt", default="")
    main(ap.parse_args())
