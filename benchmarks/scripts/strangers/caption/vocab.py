import json


class Vocab:
    PAD, BOS, EOS, UNK = 0, 1, 2, 3

    def __init__(self, captions, min_freq=1, extra=0):
        cnt = {}
        for c in captions:
            for w in c.split():
                cnt[w] = cnt.get(w, 0) + 1
        words = sorted(w for w, n in cnt.items() if n >= min_freq)
        # reserved slots so that a checkpoint can be fine-tuned on a bigger vocabulary
        self.itos = ["<pad>", "<bos>", "<eos>", "<unk>"] + words + ["<extra_%d>" % i for i in range(extra)]
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def encode(self, s):
        return [self.BOS] + [self.stoi.get(w, self.UNK) for w in s.split()] + [self.EOS]

    def __len__(self):
        return len(self.itos)


def read_jsonl(path):
    with open(path, encoding="utf8") as f:
        return [json.loads(l) for l in f if l.strip()]
