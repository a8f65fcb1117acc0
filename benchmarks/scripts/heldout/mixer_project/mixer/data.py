import numpy as np
from paddle.io import DataLoader, Dataset, RandomSampler, BatchSampler


class Pictures(Dataset):
    def __init__(self, image_size, num_classes, length):
        self.shape = (3, image_size, image_size)
        self.num_classes = num_classes
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        return {"image": rng.rand(*self.shape).astype("float32"), "label": rng.randint(self.num_classes)}


def make_loader(cfg):
    data = Pictures(cfg.image_size, cfg.num_classes, cfg.length)
    sampler = BatchSampler(sampler=RandomSampler(data), batch_size=cfg.batch_size, drop_last=True)
    return DataLoader(data, batch_sampler=sampler)
