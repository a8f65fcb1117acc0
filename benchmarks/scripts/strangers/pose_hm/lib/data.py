import numpy as np
from paddle.io import Dataset


class SynthPersons(Dataset):
    def __init__(self, cfg):
        self.n = cfg["LENGTH"]
        self.k = cfg["NUM_JOINTS"]
        self.w, self.h = cfg["IMAGE_SIZE"]
        self.hw, self.hh = cfg["HEATMAP_SIZE"]
        self.sigma = cfg["SIGMA"]

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        rng = np.random.RandomState(idx)
        img = rng.normal(size=(3, self.h, self.w)).astype("float32")
        joints = rng.rand(self.k, 2) * [self.hw, self.hh]
        vis = (rng.rand(self.k) > 0.15).astype("float32")
        yy, xx = np.mgrid[:self.hh, :self.hw]
        d = (xx[None] - joints[:, 0, None, None]) ** 2 + (yy[None] - joints[:, 1, None, None]) ** 2
        heat = np.exp(-d / (2 * self.sigma ** 2)).astype("float32")
        return {"image": img, "target": heat, "weight": vis}
