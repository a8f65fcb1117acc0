import random

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset


class GarbageDataset(Dataset):
    MEAN = np.array([0.485, 0.456, 0.406], dtype="float32").reshape(3, 1, 1)
    STD = np.array([0.229, 0.224, 0.225], dtype="float32").reshape(3, 1, 1)

    def __init__(self, image_size, num_samples, class_num):
        super().__init__()
        self.image_size = image_size
        self.records = [(i, random.randrange(class_num)) for i in range(num_samples)]

    def _load(self, seed):
        rng = np.random.RandomState(seed)
        return rng.randint(0, 256, (128, 128, 3)).astype("uint8")

    def _crop(self, img):
        s = self.image_size
        top = random.randint(0, img.shape[0] - s)
        left = random.randint(0, img.shape[1] - s)
        img = img[top:top + s, left:left + s]
        return img[:, ::-1] if random.random() < 0.5 else img

    def __getitem__(self, idx):
        seed, label = self.records[idx]
        img = self._crop(self._load(seed)).astype("float32") / 255.0
        img = (img.transpose(2, 0, 1) - self.MEAN) / self.STD
        return img.astype("float32"), label

    def __len__(self):
        return len(self.records)


def build_dataloader(config, class_num, mode="Train"):
    cfg = config[mode]
    dataset = GarbageDataset(cfg["image_size"], cfg["num_samples"], class_num)
    sampler = BatchSampler(dataset, **cfg["sampler"])
    return DataLoader(dataset, batch_sampler=sampler, num_workers=cfg.get("num_workers", 0))
