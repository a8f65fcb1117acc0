import numpy as np
from paddle.io import Dataset

from ..utils.registry import DATASETS
from .operators import create_operators, transform


@DATASETS.register
class SyntheticFruit(Dataset):
    """coloured discs; the class decides hue and radius"""

    def __init__(self, total, transform_ops, class_num, image_shape):
        super().__init__()
        self.total = total
        self.class_num = class_num
        self.h, self.w = image_shape[1:]
        self.ops = create_operators(transform_ops)
        self.yy, self.xx = np.mgrid[:self.h, :self.w]

    def _draw(self, idx):
        rng = np.random.RandomState(idx)
        label = idx % self.class_num
        img = rng.randint(0, 60, (self.h, self.w, 3)).astype("uint8")
        r = 8 + 2 * (label % 6)
        mask = (self.yy - self.h / 2) ** 2 + (self.xx - self.w / 2) ** 2 < r * r
        img[mask] = (20 * label, 255 - 20 * label, 120)
        return img, label

    def __getitem__(self, idx):
        img, label = self._draw(idx)
        return transform(img, self.ops), np.int64(label)

    def __len__(self):
        return self.total
