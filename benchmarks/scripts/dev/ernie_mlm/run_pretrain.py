import argparse
import os
from functools import partial

import paddle
import paddle.nn.functional as F
from paddle.io import BatchSampler, DataLoader

from ernie import ErnieConfig, ErnieForMaskedLM
from ernie.data import MaskedText, collate


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=str, default="config.json")
    parser.add_argument("--train_batch_size", default=16, type=int)
    parser.add_argument("--max_seq_length", default=128, type=int)
    parser.add_argument("--learning_rate", default=5e-4, type=float)
    parser.add_argument("--weight_decay", default=0.01, type=float)
    parser.add_argument("--warmup_steps", default=100, type=int)
    parser.add_argument("--max_steps", default=1000, type=int)
    parser.add_argument("--logging_steps", default=1, type=int)
    return parser.parse_args()


def main():
    args = parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    cfg = ErnieConfig.from_json(os.path.join(here, args.config))
    model = ErnieForMaskedLM(cfg)
    decay = [p.name for n, p in model.named_parameters() if not any(k in n for k in ["bias", "norm"])]
    schedule = paddle.optimizer.lr.LinearWarmup(
        paddle.optimizer.lr.PolynomialDecay(args.learning_rate, args.max_steps), args.warmup_steps, 0.0,
        args.learning_rate)
    optimizer = paddle.optimizer.AdamW(
        learning_rate=schedule,
        parameters=model.parameters(),
        weight_decay=args.weight_decay,
        apply_decay_param_fun=lambda x: x in decay,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
    )
    dataset = MaskedText(cfg.vocab_size, args.max_seq_length)
    sampler = BatchSampler(dataset, batch_size=args.train_batch_size, shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_sampler=sampler, return_list=True,
                        collate_fn=partial(collate, seq_len=args.max_seq_length))
    step = 0
    while step < args.max_steps:
        for input_ids, token_type_ids, positions, labels in loader:
            step += 1
            logits = model(input_ids, token_type_ids, positions)
            loss = F.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.clear_grad()
            if step % args.logging_steps == 0:
                print("step %d, loss %.4f, lr %.6f" % (step, loss, schedule.get_lr()))
            if step >= args.max_steps:
                break


if __name__ == "__main__":
    main()
