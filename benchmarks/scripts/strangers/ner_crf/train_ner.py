import json
import os
import zlib
from functools import partial

import numpy as np
import paddle
import paddle.nn as nn
import yaml
from paddle.io import DataLoader, Dataset

from crf import LinearChainCRF

root = os.path.dirname(os.path.abspath(__file__))


class NerDataset(Dataset):
    def __init__(self, path, tags, vocab_size, max_word_len):
        self.tag2id = {t: i for i, t in enumerate(tags)}
        self.vocab_size = vocab_size
        self.max_word_len = max_word_len
        with open(path) as f:
            self.items = [json.loads(l) for l in f]

    def word_id(self, w):
        # hashing trick, 0 is the padding row
        return zlib.crc32(w.encode()) % (self.vocab_size - 1) + 1

    def __getitem__(self, i):
        it = self.items[i]
        words = [self.word_id(w) for w in it['tokens']]
        chars = np.zeros((len(words), self.max_word_len), dtype='int64')
        for k, w in enumerate(it['tokens']):
            codes = [min(ord(c), 127) for c in w[:self.max_word_len]]
            chars[k, :len(codes)] = codes
        return words, chars, [self.tag2id[t] for t in it['tags']]

    def __len__(self):
        return len(self.items)


def pad_collate(samples, max_len):
    """Pads (or truncates) every sentence of the batch to max_len."""
    n, wl = len(samples), samples[0][1].shape[1]
    words = np.zeros((n, max_len), 'int64')
    chars = np.zeros((n, max_len, wl), 'int64')
    tags = np.zeros((n, max_len), 'int64')
    lens = np.zeros((n,), 'int64')
    for i, (w, c, t) in enumerate(samples):
        l = min(len(w), max_len)
        words[i, :l], chars[i, :l], tags[i, :l], lens[i] = w[:l], c[:l], t[:l], l
    return words, chars, tags, lens


class BiLstmCharCnn(nn.Layer):
    def __init__(self, cfg, num_tags):
        super().__init__()
        self.word_emb = nn.Embedding(cfg['vocab_size'], cfg['word_dim'], padding_idx=0)
        self.char_emb = nn.Embedding(cfg['char_vocab'], cfg['char_dim'], padding_idx=0)
        self.char_conv = nn.Conv1D(cfg['char_dim'], cfg['char_filters'], 3, padding=1)
        self.drop = nn.Dropout(cfg['dropout'])
        self.lstm = nn.LSTM(cfg['word_dim'] + cfg['char_filters'], cfg['hidden'], num_layers=1,
                            direction='bidirectional')
        self.emit = nn.Linear(2 * cfg['hidden'], num_tags)
        self.crf = LinearChainCRF(num_tags)

    def features(self, words, chars, lens):
        b, t, wl = chars.shape
        c = self.char_emb(chars).reshape([b * t, wl, -1]).transpose([0, 2, 1])
        c = self.char_conv(c).max(axis=2).reshape([b, t, -1])
        x = self.drop(paddle.concat([self.word_emb(words), c], axis=-1))
        h, _ = self.lstm(x, sequence_length=lens)
        return self.emit(self.drop(h))

    def forward(self, words, chars, tags, lens):
        mask = paddle.nn.functional.sequence_mask(lens, maxlen=words.shape[1], dtype='float32')
        return self.crf(self.features(words, chars, lens), tags, mask)


def main():
    with open(os.path.join(root, 'config.yaml')) as f:
        cfg = yaml.safe_load(f)
    dc, tc, mc = cfg['data'], cfg['train'], cfg['model']
    paddle.seed(12)
    ds = NerDataset(os.path.join(root, dc['train_file']), dc['tags'], mc['vocab_size'], mc['max_word_len'])
    loader = DataLoader(ds, batch_size=tc['per_gpu_batch_size'], shuffle=True, drop_last=True,
                        collate_fn=partial(pad_collate, max_len=dc['max_len']))
    net = BiLstmCharCnn(mc, len(dc['tags']))
    decay = paddle.optimizer.lr.ExponentialDecay(tc['lr'], gamma=0.99)
    opt = paddle.optimizer.Adam(decay, parameters=net.parameters(), weight_decay=tc['l2'],
                                grad_clip=nn.ClipGradByGlobalNorm(tc['clip']))
    for epoch in range(tc['epochs']):
        net.train()
        total = 0.0
        for step, (words, chars, tags, lens) in enumerate(loader, 1):
            loss = net(words, chars, tags, lens)
            loss.backward()
            opt.step()
            opt.clear_grad()
            decay.step()
            total += loss.item()
            if step % 4 == 0:
                print(f'[epoch {epoch}] step {step} nll {total / step:.3f}')
    # look at one sentence
    net.eval()
    words, chars, tags, lens = pad_collate([ds[0]], dc['max_len'])
    with paddle.no_grad():
        emit = net.features(*[paddle.to_tensor(a) for a in (words, chars, lens)])
    path = net.crf.decode(emit[0], int(lens[0]))
    print(list(zip(ds.items[0]['tokens'], [dc['tags'][p] for p in path]))[:8])


if __name__ == '__main__':
    main()
