#!/usr/bin/env python
import argparse
import json
import logging
import os
import time

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset

from modeling_gpt import GPT

logger = logging.getLogger(__name__)
BASE = os.path.dirname(os.path.abspath(__file__))


class CharDataset(Dataset):
    def __init__(self, path, block_size, n_windows):
        with open(path, encoding='utf-8') as f:
            text = f.read()
        self.chars = sorted(set(text))
        table = {c: i for i, c in enumerate(self.chars)}
        self.data = np.array([table[c] for c in text], dtype=np.int64)
        self.block_size = block_size
        self.n_windows = n_windows
        self.stride = max(1, (len(self.data) - block_size - 1) // n_windows)

    @property
    def vocab_size(self):
        return len(self.chars)

    def __len__(self):
        return self.n_windows

    def __getitem__(self, i):
        s = i * self.stride
        chunk = self.data[s:s + self.block_size + 1]
        return chunk[:-1], chunk[1:]


class Trainer(object):
    def __init__(self, cfg, args):
        self.args = args
        self.cfg = cfg['train']
        mcfg, dcfg = cfg['model'], cfg['data']
        self.dataset = CharDataset(os.path.join(BASE, dcfg['file']), mcfg['block_size'], dcfg['n_windows'])
        self.model = GPT(self.dataset.vocab_size, **mcfg)
        self.global_step = 0     # optimizer updates
        self.micro_step = 0
        self._create_optimizer()
        self.scaler = paddle.amp.GradScaler(init_loss_scaling=1024, enable=args.use_amp)
        if args.resume:
            self.load(args.resume)

    def _create_optimizer(self):
        c = self.cfg
        self.scheduler = paddle.optimizer.lr.LinearWarmup(
            paddle.optimizer.lr.CosineAnnealingDecay(c['learning_rate'], T_max=500, eta_min=c['min_lr']),
            warmup_steps=c['warmup_steps'], start_lr=0.0, end_lr=c['learning_rate'])
        no_decay = [p.name for n, p in self.model.named_parameters() if 'bias' in n or 'ln_' in n]
        self.optimizer = paddle.optimizer.AdamW(
            self.scheduler, beta2=0.95, parameters=self.model.parameters(), weight_decay=c['weight_decay'],
            apply_decay_param_fun=lambda name: name not in no_decay,
            grad_clip=paddle.nn.ClipGradByGlobalNorm(c['max_grad_norm']))

    def get_train_dataloader(self):
        sampler = BatchSampler(self.dataset, batch_size=self.cfg['batch_size'], shuffle=True, drop_last=True)
        return DataLoader(self.dataset, batch_sampler=sampler, return_list=True)

    def training_step(self, inputs):
        ids, labels = inputs
        with paddle.amp.auto_cast(enable=self.args.use_amp, level='O1'):
            loss = self.model(ids, labels) / self.cfg['accumulate_steps']
        if self.args.use_amp:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()
        return float(loss) * self.cfg['accumulate_steps']

    def optimizer_step(self):
        if self.args.use_amp:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.clear_grad()
        self.scheduler.step()
        self.global_step += 1

    def train(self):
        c = self.cfg
        loader = self.get_train_dataloader()
        logger.info('***** Running training *****')
        logger.info('  windows = %d, micro batch = %d, accumulation = %d', len(self.dataset), c['batch_size'],
                    c['accumulate_steps'])
        self.model.train()
        running, tic = [], time.time()
        for epoch in range(c['num_epochs']):
            for batch in loader:
                running.append(self.training_step(batch))
                self.micro_step += 1
                if self.micro_step % c['accumulate_steps'] == 0:
                    self.optimizer_step()
                    if self.global_step % c['log_steps'] == 0:
                        logger.info('epoch %d step %d loss %.4f lr %.2e %.2fs', epoch, self.global_step,
                                    np.mean(running), self.optimizer.get_lr(), time.time() - tic)
                        running, tic = [], time.time()
                    if c['save_steps'] and self.global_step % c['save_steps'] == 0:
                        self.save(os.path.join(self.args.output_dir, 'checkpoint-%d' % self.global_step))
                if self.micro_step >= c['max_micro_steps']:
                    return

    def save(self, path):
        os.makedirs(path, exist_ok=True)
        paddle.save(self.model.state_dict(), os.path.join(path, 'model_state.pdparams'))
        paddle.save(self.optimizer.state_dict(), os.path.join(path, 'optimizer.pdopt'))
        with open(os.path.join(path, 'trainer_state.json'), 'w') as f:
            json.dump({'global_step': self.global_step, 'micro_step': self.micro_step}, f)

    def load(self, path):
        self.model.set_state_dict(paddle.load(os.path.join(path, 'model_state.pdparams')))
        self.optimizer.set_state_dict(paddle.load(os.path.join(path, 'optimizer.pdopt')))
        with open(os.path.join(path, 'trainer_state.json')) as f:
            state = json.load(f)
        self.global_step, self.micro_step = state['global_step'], state['micro_step']
        logger.info('resumed from %s at step %d', path, self.global_step)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('--config', default=os.path.join(BASE, 'conf', 'small.json'))
    parser.add_argument('--per_device_train_batch_size', type=int, default=None, help='overrides the config')
    parser.add_argument('--gradient_accumulation_steps', type=int, default=None)
    parser.add_argument('--output_dir', default='./out')
    parser.add_argument('--resume', default=None)
    parser.add_argument('--use_amp', action='store_true')
    parser.add_argument('--seed', type=int, default=1337)
    return parser.parse_args()


def main():
    logging.basicConfig(level=logging.INFO, format='%(asctime)s - %(levelname)s - %(message)s')
    args = parse_args()
    with open(args.config) as f:
        cfg = json.load(f)
    if args.per_device_train_batch_size is not None:
        cfg['train']['batch_size'] = args.per_device_train_batch_size
    if args.gradient_accumulation_steps is not None:
        cfg['train']['accumulate_steps'] = args.gradient_accumulation_steps
    paddle.seed(args.seed)
    Trainer(cfg, args).train()


if __name__ == '__main__':
    main()
