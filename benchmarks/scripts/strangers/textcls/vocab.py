# -*- coding: utf-8 -*-
import collections


class Vocab(object):
    """token <-> id table counted from a training file"""

    def __init__(self, counter, min_freq=1, max_size=None, pad_token='[PAD]', unk_token='[UNK]'):
        self.pad_token, self.unk_token = pad_token, unk_token
        self.idx_to_token = [pad_token, unk_token]
        ordered = sorted(counter.items(), key=lambda kv: (-kv[1], kv[0]))
        for token, freq in ordered:
            if freq < min_freq:
                break
            if max_size is not None and len(self.idx_to_token) >= max_size:
                break
            self.idx_to_token.append(token)
        self.token_to_idx = {t: i for i, t in enumerate(self.idx_to_token)}

    @classmethod
    def build_from_file(cls, path, **kwargs):
        counter = collections.Counter()
        with open(path, encoding='utf-8') as f:
            for line in f:
                _, text = line.rstrip('\n').split('\t')
                counter.update(text.split())
        return cls(counter, **kwargs)

    def __len__(self):
        return len(self.idx_to_token)

    def __getitem__(self, token):
        return self.token_to_idx.get(token, self.token_to_idx[self.unk_token])

    def to_indices(self, tokens):
        return [self[t] for t in tokens]
