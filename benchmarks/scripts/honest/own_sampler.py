import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset, Sampler, WeightedRandomSampler


class Data(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return np.full([3 + i % 2, 5], i, "float32")[:3], np.int64(i % 4)


class Sorted(Sampler):
    def __iter__(self):
        return iter(sorted(range(len(self.data_source)), key=lambda i: -i))


class Pairs(BatchSampler):
    def __init__(self, data):
        self.data, self.epoch = data, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        for i in range(0, len(self.data), 8):
            yield [(i + k + self.epoch) % len(self.data) for k in range(8)]

    def __len__(self):
        return len(self.data) // 8


data, net = Data(), paddle.nn.Linear(5, 4)
opt = paddle.optimizer.RMSProp(0.01, parameters=net.parameters())
pairs = Pairs(data)
loaders = [DataLoader(data, batch_sampler=pairs), DataLoader(data, batch_sampler=BatchSampler(sampler=Sorted(data), batch_size=8)), DataLoader(data, batch_sampler=BatchSampler(sampler=WeightedRandomSampler([1.0] * 40, 16), batch_size=8))]
for epoch, loader in enumerate(loaders):
    pairs.set_epoch(epoch)
    for x, y in loader:
        loss = paddle.nn.functional.cross_entropy(net(x).mean(1), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
