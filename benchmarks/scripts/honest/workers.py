import numpy as np
import paddle
from paddle.io import DataLoader, Dataset, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(start, 64, step):
            yield np.random.rand(7).astype("float32"), i % 2


class Mapped(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return np.random.rand(7).astype("float32"), i % 2


if __name__ == "__main__":
    net = paddle.nn.Linear(7, 2)
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    for data in (Mapped(), Stream()):
        loader = DataLoader(data, batch_size=8, num_workers=2, persistent_workers=False, worker_init_fn=lambda i: np.random.seed(i))
        for x, y in loader:
            loss = paddle.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            opt.clear_grad()
