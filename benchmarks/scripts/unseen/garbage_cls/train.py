import argparse
import os
import random
import sys
import time

import numpy as np
import paddle
import yaml

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import ppl
from ppl import build_dataloader, build_loss, build_optimizer


class AttrDict(dict):
    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key)

    def __setattr__(self, key, value):
        self[key] = value


def create_attr_dict(d):
    for k, v in d.items():
        if isinstance(v, dict):
            d[k] = AttrDict(v)
            create_attr_dict(d[k])
    return d


def get_config(path):
    with open(path, "r") as f:
        cfg = AttrDict(yaml.load(f, Loader=yaml.SafeLoader))
    create_attr_dict(cfg)
    return cfg


def parse_args():
    parser = argparse.ArgumentParser("image classification")
    parser.add_argument("-c", "--config", type=str, default="configs/ghost_small.yaml")
    return parser.parse_args()


class AverageMeter:
    def __init__(self, name):
        self.name, self.sum, self.count = name, 0.0, 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


class Engine:
    def __init__(self, config):
        self.config = config
        g = config.Global
        paddle.set_device(g.device)
        paddle.seed(g.seed)
        random.seed(g.seed)
        np.random.seed(g.seed)
        self.train_loader = build_dataloader(config["DataLoader"], config.Arch.class_num)
        arch = dict(config.Arch)
        self.model = getattr(ppl, arch.pop("name"))(**arch)
        self.loss_func = build_loss(config.Loss)
        self.optimizer, self.lr_sch = build_optimizer(config.Optimizer, g.epochs, len(self.train_loader),
                                                      self.model.parameters())

    def train(self):
        meters = {"loss": AverageMeter("loss"), "top1": AverageMeter("top1")}
        for epoch_id in range(1, self.config.Global.epochs + 1):
            self.model.train()
            tic = time.time()
            for iter_id, batch in enumerate(self.train_loader):
                out = self.model(batch[0])
                loss_dict = self.loss_func(out, batch[1])
                loss = sum(loss_dict.values())
                loss.backward()
                self.optimizer.step()
                self.optimizer.clear_grad()
                self.lr_sch.step()
                bs = batch[0].shape[0]
                acc = paddle.metric.accuracy(out, batch[1].reshape([-1, 1]), k=1)
                meters["loss"].update(float(loss), bs)
                meters["top1"].update(float(acc), bs)
                if iter_id % self.config.Global.print_interval == 0:
                    msg = ", ".join("{}: {:.4f}".format(k, m.avg) for k, m in meters.items())
                    print("[epoch {}][iter {}] {} ({:.1f}s)".format(epoch_id, iter_id, msg, time.time() - tic))
            out_dir = self.config.Global.output_dir
            os.makedirs(out_dir, exist_ok=True)
            paddle.save(self.model.state_dict(), os.path.join(out_dir, "latest.pdparams"))


if __name__ == "__main__":
    args = parse_args()
    Engine(get_config(args.config)).train()
