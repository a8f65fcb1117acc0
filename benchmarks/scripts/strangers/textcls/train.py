# -*- coding: utf-8 -*-
import argparse
import os
import time

import paddle
from paddle.io import BatchSampler, DataLoader

from data_util import NewsDataset, PadCollate
from model import BiGRUAttention
from vocab import Vocab

here = os.path.dirname(os.path.abspath(__file__))

# yapf: disable
parser = argparse.ArgumentParser(__doc__)
parser.add_argument("--epochs", type=int, default=1, help="Number of epoches for training.")
parser.add_argument('--device', choices=['cpu', 'gpu'], default="cpu", help="Select which device to train model.")
parser.add_argument("--lr", type=float, default=5e-4, help="Learning rate used to train.")
parser.add_argument("--save_dir", type=str, default=None, help="Directory to save model checkpoint")
parser.add_argument("--batch_size", type=int, default=32, help="Total examples' number of a batch for training.")
parser.add_argument("--max_seq_len", type=int, default=96)
parser.add_argument("--min_freq", type=int, default=2)
parser.add_argument("--train_path", type=str, default=os.path.join(here, "data", "news_train.txt"))
parser.add_argument("--init_from_ckpt", type=str, default=None)
args = parser.parse_args()
# yapf: enable


def create_dataloader(dataset, mode='train', batch_size=1, collate_fn=None):
    shuffle = True if mode == 'train' else False
    sampler = BatchSampler(dataset, batch_size=batch_size, shuffle=shuffle, drop_last=(mode == 'train'))
    return DataLoader(dataset, batch_sampler=sampler, collate_fn=collate_fn, return_list=True)


def train():
    paddle.set_device(args.device)
    paddle.seed(102)
    vocab = Vocab.build_from_file(args.train_path, min_freq=args.min_freq)
    print('vocab size', len(vocab))
    train_ds = NewsDataset(args.train_path, os.path.join(here, 'data', 'label_list.txt'), vocab, args.max_seq_len)
    train_loader = create_dataloader(train_ds, 'train', args.batch_size, PadCollate(vocab['[PAD]']))

    model = BiGRUAttention(len(vocab), len(train_ds.label_map))
    if args.init_from_ckpt:
        model.set_dict(paddle.load(args.init_from_ckpt))
    num_training_steps = args.epochs * len(train_loader)
    lr = paddle.optimizer.lr.LinearWarmup(args.lr, warmup_steps=max(1, num_training_steps // 10),
                                          start_lr=0.0, end_lr=args.lr)
    optimizer = paddle.optimizer.AdamW(learning_rate=lr, parameters=model.parameters(), weight_decay=0.01,
                                       grad_clip=paddle.nn.ClipGradByGlobalNorm(5.0))
    criterion = paddle.nn.CrossEntropyLoss()
    metric = paddle.metric.Accuracy()

    global_step = 0
    tic = time.time()
    for epoch in range(1, args.epochs + 1):
        metric.reset()
        for step, (input_ids, seq_lens, labels) in enumerate(train_loader, start=1):
            logits = model(input_ids, seq_lens)
            loss = criterion(logits, labels)
            correct = metric.compute(logits, labels)
            metric.update(correct)
            loss.backward()
            optimizer.step()
            lr.step()
            optimizer.clear_grad()
            global_step += 1
            if global_step % 4 == 0:
                print("global step %d, epoch: %d, batch: %d, loss: %.5f, acc: %.5f, speed: %.2f step/s" %
                      (global_step, epoch, step, loss.item(), metric.accumulate(), 4 / (time.time() - tic)))
                tic = time.time()
        if args.save_dir:
            os.makedirs(args.save_dir, exist_ok=True)
            paddle.save(model.state_dict(), os.path.join(args.save_dir, 'model_%d.pdparams' % epoch))


if __name__ == "__main__":
    train()
