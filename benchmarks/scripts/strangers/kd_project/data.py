import numpy as np
from paddle.io import Dataset


class StripesDataset(Dataset):
    """Each class is a stripe orientation."""

    def __init__(self, length, size, num_classes, **kwargs):
        self.length, self.size, self.num_classes = length, size, num_classes
        yy, xx = np.mgrid[0:size, 0:size].astype('float32') / size
        self.xx, self.yy = xx, yy

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        c = i % self.num_classes
        theta = np.pi * c / self.num_classes
        wave = np.sin(20 * (self.xx * np.cos(theta) + self.yy * np.sin(theta)) + i)
        img = np.stack([wave, wave ** 2, -wave]).astype('float32')
        img += np.random.RandomState(i).normal(0, 0.2, img.shape).astype('float32')
        return img, c


DATASETS = {'StripesDataset': StripesDataset}


def build_dataset(cfg):
    kwargs = {k: v for k, v in cfg.items() if k not in ('name', 'loader')}
    return DATASETS[cfg['name']](**kwargs)
