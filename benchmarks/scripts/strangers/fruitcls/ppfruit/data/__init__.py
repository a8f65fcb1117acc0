import paddle
from paddle.io import BatchSampler, DataLoader

from ..utils.registry import DATASETS
from . import fruit, operators  # noqa: F401


def build_dataloader(cfg, mode, class_num, image_shape):
    section = cfg[mode]
    ds_cfg = dict(section["dataset"])
    dataset = DATASETS.build(ds_cfg, class_num=class_num, image_shape=image_shape)
    sp = dict(section["sampler"])
    sampler_name = sp.pop("name")
    assert sampler_name in ("BatchSampler", "DistributedBatchSampler")
    sampler_cls = getattr(paddle.io, sampler_name)
    batch_sampler = sampler_cls(dataset, **sp)
    return DataLoader(dataset=dataset, batch_sampler=batch_sampler, return_list=True, **section["loader"])
