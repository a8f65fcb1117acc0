import copy

import paddle
from paddle import nn, optimizer as optim


def build_lr(cfg, epochs, step_each_epoch):
    cfg = copy.deepcopy(cfg)
    if cfg["name"] == "Cosine":
        warmup = cfg["warmup_epoch"] * step_each_epoch
        sched = optim.lr.CosineAnnealingDecay(cfg["learning_rate"], T_max=epochs * step_each_epoch - warmup)
        if warmup > 0:
            sched = optim.lr.LinearWarmup(sched, warmup_steps=warmup, start_lr=0.0, end_lr=cfg["learning_rate"])
        return sched
    return cfg["learning_rate"]


def build_optimizer(cfg, epochs, step_each_epoch, parameters):
    cfg = copy.deepcopy(cfg)
    lr = build_lr(cfg.pop("lr"), epochs, step_each_epoch)
    name = cfg.pop("name")
    clip = cfg.pop("clip_norm", None)
    reg = cfg.pop("regularizer", None)
    grad_clip = nn.ClipGradByGlobalNorm(clip) if clip else None
    decay = paddle.regularizer.L2Decay(reg) if reg else None
    opt = getattr(optim, name)(learning_rate=lr, parameters=parameters, grad_clip=grad_clip,
                               weight_decay=decay, **cfg)
    return opt, lr
