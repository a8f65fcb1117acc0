import argparse
import os.path as osp

import paddle
import yaml
from paddle.io import BatchSampler, DataLoader

import lib  # noqa: F401
from lib.data import SynthPersons
from lib.registry import LOSSES, MODELS


def pck(out, target, thr=2.0):
    def argmax2d(h):
        w = h.shape[3]
        i = h.flatten(2).argmax(-1)
        return paddle.stack([i % w, i // w], -1).astype("float32")
    return float(((argmax2d(out) - argmax2d(target)).norm(axis=-1) < thr).astype("float32").mean())


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--cfg", default=osp.join(osp.dirname(osp.abspath(__file__)), "experiments/simple_64x48.yaml"))
    p.add_argument("--output", default=None)
    a = p.parse_args()
    cfg = yaml.safe_load(open(a.cfg))
    D, M, L, T = cfg["DATASET"], cfg["MODEL"], cfg["LOSS"], cfg["TRAIN"]

    model = MODELS[M["NAME"]](D["NUM_JOINTS"], **M["EXTRA"])
    crit = LOSSES[L.pop("NAME")](**L)
    ds = SynthPersons(D)
    sampler = BatchSampler(ds, batch_size=T["BATCH_SIZE_PER_GPU"], shuffle=True, drop_last=True)
    loader = DataLoader(ds, batch_sampler=sampler)
    lr = paddle.optimizer.lr.MultiStepDecay(T["LR"], T["MILESTONES"])
    opt = paddle.optimizer.Adam(lr, parameters=model.parameters())
    it = 0
    model.train()
    while it < T["MAX_ITERS"]:
        for data in loader:
            out = model(data["image"])
            loss = crit(out, data["target"], data["weight"])
            opt.clear_grad()
            loss.backward()
            opt.step()
            lr.step()
            it += 1
            print("Iter [%d/%d] lr %.1e loss %.5f PCK %.3f" % (
                it, T["MAX_ITERS"], opt.get_lr(), loss.item(), pck(out.detach(), data["target"])))
            if it >= T["MAX_ITERS"]:
                break
    if a.output:
        paddle.save(model.state_dict(), osp.join(a.output, "final.pdparams"))
