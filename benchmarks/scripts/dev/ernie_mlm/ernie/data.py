import numpy as np
from paddle.io import Dataset


class MaskedText(Dataset):
    """Random ids; every sequence is full, and 15 % of its tokens are to be guessed."""

    MASK = 3

    def __init__(self, vocab_size, max_seq_len, n=20000, share=0.15):
        self.vocab_size, self.max_seq_len, self.n = vocab_size, max_seq_len, n
        self.n_masked = int(max_seq_len * share)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        ids = rng.randint(5, self.vocab_size, size=self.max_seq_len).astype("int64")
        where = np.sort(rng.choice(self.max_seq_len, self.n_masked, replace=False))
        labels = ids[where].copy()
        ids[where] = self.MASK
        types = (np.arange(self.max_seq_len) >= self.max_seq_len // 2).astype("int64")
        return ids, types, where.astype("int64"), labels


def collate(batch, seq_len):
    ids, types, where, labels = (np.stack(x) for x in zip(*batch))
    where = where + np.arange(len(batch))[:, None] * seq_len
    return ids, types, where.reshape(-1), labels.reshape(-1)
