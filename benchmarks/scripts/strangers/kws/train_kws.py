"""Speech command recognition (DS-CNN) with the paddle high level API.

Waveforms are synthesised; log-mel features are computed in the dataset with numpy.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import paddle
from paddle.metric import Accuracy
from paddle.callbacks import Callback

here = Path(__file__).resolve().parent


def mel_filterbank(sr, n_fft, n_mels):
    def hz2mel(f):
        return 2595.0 * np.log10(1.0 + f / 700.0)

    def mel2hz(m):
        return 700.0 * (10.0**(m / 2595.0) - 1.0)

    pts = mel2hz(np.linspace(hz2mel(20.0), hz2mel(sr / 2), n_mels + 2))
    bins = np.floor((n_fft + 1) * pts / sr).astype(int)
    fb = np.zeros((n_mels, n_fft // 2 + 1), dtype=np.float32)
    for m in range(n_mels):
        left, center, right = bins[m], max(bins[m + 1], bins[m] + 1), max(bins[m + 2], bins[m] + 2)
        for k in range(left, min(center, fb.shape[1])):
            fb[m, k] = (k - left) / (center - left)
        for k in range(center, min(right, fb.shape[1])):
            fb[m, k] = (right - k) / (right - center)
    return fb


class SpeechCommands(paddle.io.Dataset):
    def __init__(self, words, audio, clips_per_word, augment=True):
        super().__init__()
        self.words = words
        self.sr = audio['sample_rate']
        self.n_samples = int(self.sr * audio['duration'])
        self.win = self.sr * audio['win_ms'] // 1000
        self.hop = self.sr * audio['hop_ms'] // 1000
        self.n_fft = audio['n_fft']
        self.fb = mel_filterbank(self.sr, self.n_fft, audio['n_mels'])
        self.window = np.hanning(self.win).astype(np.float32)
        self.per_word = clips_per_word
        self.augment = augment

    def __len__(self):
        return len(self.words) * self.per_word

    def wave(self, idx):
        label = idx % len(self.words)
        r = np.random.RandomState(idx)
        t = np.arange(self.n_samples) / self.sr
        f0 = 180.0 + 60.0 * label + r.uniform(-10, 10)
        y = np.sin(2 * np.pi * f0 * t) + 0.5 * np.sin(2 * np.pi * 2.5 * f0 * t * (1 + 0.1 * t))
        return (y + 0.3 * r.randn(self.n_samples)).astype(np.float32), label

    def log_mel(self, y):
        n_frames = 1 + (len(y) - self.win) // self.hop
        idx = np.arange(self.win)[None, :] + self.hop * np.arange(n_frames)[:, None]
        spec = np.abs(np.fft.rfft(y[idx] * self.window, n=self.n_fft))**2
        feat = np.log(spec.astype(np.float32) @ self.fb.T + 1e-6)
        return (feat - feat.mean()) / (feat.std() + 1e-5)

    def __getitem__(self, idx):
        y, label = self.wave(idx)
        if self.augment:
            y = np.roll(y, (idx * 37) % (self.sr // 10))
        feat = self.log_mel(y)[None]                  # 1, frames, mels
        return feat.astype('float32'), np.array([label], dtype='int64')


class DSBlock(paddle.nn.Layer):
    def __init__(self, ch):
        super().__init__()
        self.dw = paddle.nn.Conv2D(ch, ch, 3, padding=1, groups=ch, bias_attr=False)
        self.bn1 = paddle.nn.BatchNorm2D(ch)
        self.pw = paddle.nn.Conv2D(ch, ch, 1, bias_attr=False)
        self.bn2 = paddle.nn.BatchNorm2D(ch)
        self.act = paddle.nn.ReLU()

    def forward(self, x):
        x = self.act(self.bn1(self.dw(x)))
        return self.act(self.bn2(self.pw(x)))


class DSCNN(paddle.nn.Layer):
    def __init__(self, num_classes, channels, blocks, dropout):
        super().__init__()
        self.stem = paddle.nn.Sequential(
            paddle.nn.Conv2D(1, channels, (10, 4), stride=(2, 2), padding=(4, 1), bias_attr=False),
            paddle.nn.BatchNorm2D(channels), paddle.nn.ReLU())
        self.blocks = paddle.nn.Sequential(*[DSBlock(channels) for _ in range(blocks)])
        self.pool = paddle.nn.AdaptiveAvgPool2D(1)
        self.drop = paddle.nn.Dropout(dropout)
        self.fc = paddle.nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.pool(self.blocks(self.stem(x))).flatten(1)
        return self.fc(self.drop(x))


class PrintLr(Callback):
    def on_epoch_end(self, epoch, logs=None):
        print('epoch', epoch, 'lr', self.model._optimizer.get_lr())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--config', type=Path, default=here / 'config.json')
    ap.add_argument('--bs', dest='batch', type=int, default=32)
    ap.add_argument('--workers', type=int, default=0)
    ap.add_argument('--save', default='', help='checkpoint folder')
    a = ap.parse_args()
    cfg = json.loads(a.config.read_text())
    words = (here / 'words.txt').read_text().split()

    train = SpeechCommands(words, cfg['audio'], cfg['train']['clips_per_word'])
    net = DSCNN(len(words), **cfg['model'])
    model = paddle.Model(net)
    sched = paddle.optimizer.lr.StepDecay(cfg['train']['lr'], step_size=20, gamma=0.5)
    opt = paddle.optimizer.RMSProp(sched, parameters=net.parameters(), weight_decay=1e-5)
    model.prepare(opt, paddle.nn.CrossEntropyLoss(), Accuracy(topk=(1, 3)))
    model.fit(train, batch_size=a.batch, epochs=cfg['train']['epochs'], shuffle=cfg['train']['shuffle'],
              drop_last=True, num_workers=a.workers, verbose=2, log_freq=2, callbacks=[PrintLr()],
              save_dir=a.save or None)


if __name__ == '__main__':
    main()
