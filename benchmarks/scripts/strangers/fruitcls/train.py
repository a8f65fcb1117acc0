import argparse
import os
import sys
import time

import paddle

__dir__ = os.path.dirname(os.path.abspath(__file__))
sys.path.append(__dir__)

from ppfruit.arch import build_model
from ppfruit.data import build_dataloader
from ppfruit.loss import CombinedLoss
from ppfruit.utils.config import get_config


def parse_args():
    parser = argparse.ArgumentParser("fruit classification train script")
    parser.add_argument("-c", "--config", type=str, default=os.path.join(__dir__, "configs", "fruit_mobile_ls.yaml"))
    parser.add_argument("-o", "--override", action="append", default=[])
    return parser.parse_args()


def build_optimizer(cfg, epochs, step_each_epoch, parameters):
    lr_cfg = cfg["lr"]
    lr = paddle.optimizer.lr.CosineAnnealingDecay(lr_cfg["learning_rate"], T_max=epochs * step_each_epoch)
    if lr_cfg.get("warmup_epoch", 0) > 0:
        lr = paddle.optimizer.lr.LinearWarmup(lr, lr_cfg["warmup_epoch"] * step_each_epoch, 0.0, lr_cfg["learning_rate"])
    decay = paddle.regularizer.L2Decay(cfg["regularizer"]["coeff"])
    optimizer = getattr(paddle.optimizer, cfg["name"])(
        learning_rate=lr, momentum=cfg["momentum"], weight_decay=decay, parameters=parameters)
    return optimizer, lr


class Engine(object):
    def __init__(self, config):
        self.config = config
        g = config.Global
        paddle.seed(g.seed)
        self.device = paddle.set_device(g.device)
        self.train_dataloader = build_dataloader(config.DataLoader, "Train", g.class_num, g.image_shape)
        self.model = build_model(config.Arch)
        self.train_loss = CombinedLoss(config.Loss.Train)
        self.optimizer, self.lr_sch = build_optimizer(
            config.Optimizer, g.epochs, len(self.train_dataloader), self.model.parameters())
        self.metric = paddle.metric.Accuracy()

    def train(self):
        g = self.config.Global
        self.model.train()
        for epoch_id in range(1, g.epochs + 1):
            tic = time.time()
            self.metric.reset()
            for iter_id, batch in enumerate(self.train_dataloader):
                images, labels = batch[0], batch[1]
                out = self.model(images)
                loss_dict = self.train_loss(out, labels)
                loss_dict["loss"].backward()
                self.optimizer.step()
                self.optimizer.clear_grad()
                self.lr_sch.step()
                self.metric.update(self.metric.compute(out, labels.unsqueeze(-1)))
                if iter_id % g.print_batch_step == 0:
                    print("[Train][Epoch {}/{}][Iter: {}/{}] lr: {:.5f}, loss: {:.5f}, top1: {:.4f}".format(
                        epoch_id, g.epochs, iter_id, len(self.train_dataloader), self.optimizer.get_lr(),
                        float(loss_dict["loss"]), self.metric.accumulate()))
            print("epoch {} done in {:.2f}s".format(epoch_id, time.time() - tic))
            if g.save:
                os.makedirs(g.output_dir, exist_ok=True)
                paddle.save(self.model.state_dict(), os.path.join(g.output_dir, "latest.pdparams"))


if __name__ == "__main__":
    args = parse_args()
    engine = Engine(get_config(args.config, args.override))
    engine.train()
