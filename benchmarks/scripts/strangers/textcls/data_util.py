import numpy as np
from paddle.io import Dataset


class NewsDataset(Dataset):
    def __init__(self, path, label_path, vocab, max_seq_len):
        with open(label_path) as f:
            self.label_map = {l.strip(): i for i, l in enumerate(f) if l.strip()}
        self.examples = []
        with open(path, encoding='utf-8') as f:
            for line in f:
                label, text = line.rstrip('\n').split('\t')
                ids = vocab.to_indices(text.split())[:max_seq_len]
                self.examples.append((ids, self.label_map[label]))

    def __getitem__(self, idx):
        return self.examples[idx]

    def __len__(self):
        return len(self.examples)


class PadCollate(object):
    def __init__(self, pad_id=0):
        self.pad_id = pad_id

    def __call__(self, samples):
        longest = max(len(ids) for ids, _ in samples)
        input_ids = np.full((len(samples), longest), self.pad_id, dtype='int64')
        for row, (ids, _) in enumerate(samples):
            input_ids[row, :len(ids)] = ids
        seq_lens = np.array([len(ids) for ids, _ in samples], dtype='int64')
        labels = np.array([y for _, y in samples], dtype='int64')
        return input_ids, seq_lens, labels
