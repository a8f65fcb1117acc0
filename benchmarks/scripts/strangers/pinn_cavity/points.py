import numpy as np


def collocation(n, steps, n_bc, seed=0):
    """Fresh interior points and boundary points for every step."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        t = rng.random((n, 1), dtype="float32")
        x = 2 * rng.random((n, 1), dtype="float32") - 1
        tb = np.concatenate([np.zeros((n_bc // 2, 1)), rng.random((n_bc // 2, 1))]).astype("float32")
        xb = np.concatenate([np.linspace(-1, 1, n_bc // 2)[:, None],
                             rng.choice([-1.0, 1.0], (n_bc // 2, 1))]).astype("float32")
        ub = np.where(tb == 0, -np.sin(np.pi * xb), 0).astype("float32")
        yield t, x, np.concatenate([tb, xb], 1), ub
