import numpy as np
from paddle.io import Dataset


def normalise(adj):
    """D^-1/2 (A + I) D^-1/2."""
    adj = adj + np.eye(adj.shape[0], dtype=adj.dtype)
    scale = 1.0 / np.sqrt(np.maximum(adj.sum(axis=1), 1.0))
    return adj * scale[:, None] * scale[None, :]


class RandomGraphs(Dataset):
    """Random graphs padded to max_nodes: (features, adjacency, node mask, label)."""

    def __init__(self, cfg, seed=0):
        self.cfg = cfg
        self.seed = seed

    def __len__(self):
        return self.cfg["graphs"]

    def __getitem__(self, idx):
        rng = np.random.RandomState(self.seed + idx)
        top = self.cfg["max_nodes"]
        n = rng.randint(top // 4, top + 1)
        adj = np.zeros((top, top), dtype="float32")
        edges = (rng.rand(n, n) < 0.1).astype("float32")
        adj[:n, :n] = np.maximum(edges, edges.T)
        x = np.zeros((top, self.cfg["node_features"]), dtype="float32")
        x[:n] = rng.randn(n, self.cfg["node_features"])
        mask = (np.arange(top) < n).astype("float32")
        label = np.array(n * self.cfg["classes"] // (top + 1), dtype="int64")
        return x, normalise(adj), mask, label
