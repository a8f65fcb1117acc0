"""Reading of column files, vocabularies, and the data set."""
import os
from collections import Counter

import numpy as np
from paddle.io import Dataset

PAD, UNK = "<pad>", "<unk>"


def read_conll(path, lower=True):
    sentences, words, tags = [], [], []
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.rstrip("\n")
            if not line:
                if words:
                    sentences.append((words, tags))
                words, tags = [], []
                continue
            word, tag = line.split("\t")
            words.append(word.lower() if lower else word)
            tags.append(tag)
    if words:
        sentences.append((words, tags))
    return sentences


class Vocab:
    def __init__(self, counter, min_freq=1, specials=(PAD, UNK)):
        self.itos = list(specials)
        for token, freq in sorted(counter.items(), key=lambda kv: (-kv[1], kv[0])):
            if freq >= min_freq:
                self.itos.append(token)
        self.stoi = {t: i for i, t in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def __getitem__(self, token):
        return self.stoi.get(token, self.stoi.get(UNK, 0))


def build_vocabs(sentences, min_freq):
    words = Counter(w for ws, _ in sentences for w in ws)
    chars = Counter(c for ws, _ in sentences for w in ws for c in w)
    tags = Counter(t for _, ts in sentences for t in ts)
    return Vocab(words, min_freq), Vocab(chars), Vocab(tags, specials=())


class TaggingDataset(Dataset):
    def __init__(self, sentences, words, chars, tags, max_len, max_word):
        super().__init__()
        self.sentences = sentences
        self.words, self.chars, self.tags = words, chars, tags
        self.max_len, self.max_word = max_len, max_word

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, i):
        ws, ts = self.sentences[i]
        ws, ts = ws[: self.max_len], ts[: self.max_len]
        word_ids = np.zeros(self.max_len, dtype="int64")
        char_ids = np.zeros((self.max_len, self.max_word), dtype="int64")
        tag_ids = np.full(self.max_len, -100, dtype="int64")
        for j, (w, t) in enumerate(zip(ws, ts)):
            word_ids[j] = self.words[w]
            tag_ids[j] = self.tags[t]
            for k, c in enumerate(w[: self.max_word]):
                char_ids[j, k] = self.chars[c]
        return word_ids, char_ids, np.int64(len(ws)), tag_ids


def load(cfg, root):
    sentences = read_conll(os.path.join(root, cfg.data.train_file), cfg.data.lower)
    words, chars, tags = build_vocabs(sentences, cfg.data.min_freq)
    ds = TaggingDataset(sentences, words, chars, tags, cfg.data.max_len, cfg.model.max_word)
    return ds, words, chars, tags
