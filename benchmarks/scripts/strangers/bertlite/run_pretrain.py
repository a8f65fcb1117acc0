import argparse
import os
import time
from dataclasses import dataclass

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

from modeling import BertConfig, BertForPretraining


@dataclass
class TrainingArguments:
    batch_size: int = 16
    max_seq_length: int = 96
    max_predictions_per_seq: int = 14
    max_steps: int = 8
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    warmup_steps: int = 2
    accumulate: int = 1
    use_amp: bool = False
    output_dir: str = ""


class PretrainingDataset(Dataset):
    """synthetic sentence pairs: [CLS] a [SEP] b [SEP]"""
    CLS, SEP, MASK = 1, 2, 3

    def __init__(self, size, targs, vocab_size):
        self.size, self.targs, self.vocab_size = size, targs, vocab_size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        L, P = self.targs.max_seq_length, self.targs.max_predictions_per_seq
        ids = rng.randint(4, self.vocab_size, L)
        cut = L // 2
        ids[0], ids[cut], ids[-1] = self.CLS, self.SEP, self.SEP
        types = (np.arange(L) > cut).astype("int64")
        cand = np.setdiff1d(np.arange(L), [0, cut, L - 1])
        pos = np.sort(rng.choice(cand, P, replace=False))
        labels = ids[pos].copy()
        ids[pos] = self.MASK
        return ids.astype("int64"), types, pos.astype("int64"), labels.astype("int64"), np.int64(i % 2)


def parse():
    p = argparse.ArgumentParser()
    here = os.path.dirname(os.path.abspath(__file__))
    p.add_argument("--config", default=os.path.join(here, "bert_config.json"))
    p.add_argument("--per_device_train_batch_size", type=int, default=16)
    p.add_argument("--max_steps", type=int, default=8)
    p.add_argument("--use_amp", action="store_true")
    p.add_argument("--output_dir", default="")
    return p.parse_args()


def main():
    ns = parse()
    targs = TrainingArguments(batch_size=ns.per_device_train_batch_size, max_steps=ns.max_steps,
                              use_amp=ns.use_amp, output_dir=ns.output_dir)
    cfg = BertConfig.from_json(ns.config)
    paddle.seed(42)
    model = BertForPretraining(cfg)
    print("parameters: %.2fM" % (sum(int(np.prod(p.shape)) for p in model.parameters()) / 1e6))
    sched = paddle.optimizer.lr.LambdaDecay(
        targs.learning_rate,
        lambda s: s / max(1, targs.warmup_steps) if s < targs.warmup_steps
        else max(0.0, (targs.max_steps - s) / max(1, targs.max_steps - targs.warmup_steps)))
    decay = [p.name for n, p in model.named_parameters() if not any(nd in n for nd in ["bias", "norm"])]
    optimizer = paddle.optimizer.AdamW(
        learning_rate=sched, parameters=model.parameters(), weight_decay=targs.weight_decay,
        apply_decay_param_fun=lambda n: n in decay, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
    data = PretrainingDataset(targs.max_steps * targs.batch_size, targs, cfg.vocab_size)
    loader = DataLoader(data, batch_size=targs.batch_size, shuffle=True, drop_last=True)
    model.train()
    start = time.time()
    for step, (ids, types, pos, labels, nsp_label) in enumerate(loader, 1):
        with paddle.amp.auto_cast(enable=targs.use_amp, level="O1"):
            mlm, nsp = model(ids, types, pos)
            loss = F.cross_entropy(mlm, labels.flatten()) + F.cross_entropy(nsp, nsp_label)
        loss.backward()
        optimizer.step()
        sched.step()
        optimizer.clear_grad()
        print("step %d loss %.4f lr %.2e avg %.2f s/step" % (step, loss.item(), optimizer.get_lr(), (time.time() - start) / step))
    if targs.output_dir:
        os.makedirs(targs.output_dir, exist_ok=True)
        paddle.save(model.state_dict(), os.path.join(targs.output_dir, "model_state.pdparams"))


if __name__ == "__main__":
    main()
