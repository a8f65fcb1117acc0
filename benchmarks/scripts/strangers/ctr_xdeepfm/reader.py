import numpy as np
from paddle.io import IterableDataset


def load_slots(path):
    slots = {}
    with open(path) as f:
        for line in f:
            name, size = line.split()
            slots[name] = int(size)
    return slots


class RecDataset(IterableDataset):
    def __init__(self, file_list, slots):
        super().__init__()
        self.file_list = file_list
        self.slot_names = list(slots)

    def __iter__(self):
        for path in self.file_list:
            with open(path, 'r') as rf:
                for line in rf:
                    feats = dict(kv.split(':') for kv in line.strip().split(' '))
                    sparse = [int(feats.get(s, 0)) for s in self.slot_names]
                    dense = [float(v) for v in feats['dense'].split(',')]
                    yield (np.array(sparse, dtype='int64'), np.array(dense, dtype='float32'),
                           np.array([int(feats['click'])], dtype='float32'))
