"""A small DeepSpeech-like recogniser: two convolutions over a spectrogram, BiGRU, CTC."""

import math
import random
from dataclasses import dataclass, field
from typing import List, Tuple

import numpy as np
import paddle
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset

ALPHABET = "_ abcdefghijklmnopqrstuvwxyz'"


@dataclass
class AudioConfig:
    sample_rate: int = 16000
    n_mels: int = 80
    frame_shift_ms: float = 10.0
    max_seconds: float = 4.0

    @property
    def max_frames(self) -> int:
        return int(self.max_seconds * 1000 / self.frame_shift_ms)


@dataclass
class TrainConfig:
    batch_size: int = 16
    hidden: int = 256
    layers: int = 3
    lr: float = 1e-3
    max_text: int = 40
    channels: Tuple[int, int] = (16, 32)
    betas: List[float] = field(default_factory=lambda: [0.9, 0.98])
    audio: AudioConfig = field(default_factory=AudioConfig)


class Utterances(Dataset):
    def __init__(self, cfg: TrainConfig, count: int):
        self.cfg = cfg
        self.count = count

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        frames = int(rng.integers(200, self.cfg.audio.max_frames + 1))
        spec = rng.standard_normal((frames, self.cfg.audio.n_mels)).astype(np.float32)
        text = rng.integers(1, len(ALPHABET), size=int(rng.integers(10, self.cfg.max_text + 1)))
        return spec, text.astype(np.int64)

    def __len__(self):
        return self.count


class PadTo:
    """Collate: every spectrogram and every text to the longest one allowed."""

    def __init__(self, cfg):
        self.frames = cfg.audio.max_frames
        self.mels = cfg.audio.n_mels
        self.text = cfg.max_text

    def __call__(self, samples):
        n = len(samples)
        specs = np.zeros((n, self.frames, self.mels), dtype=np.float32)
        texts = np.zeros((n, self.text), dtype=np.int32)
        spec_len = np.zeros([n], dtype=np.int64)
        text_len = np.zeros([n], dtype=np.int64)
        for i, (s, t) in enumerate(samples):
            specs[i, : s.shape[0]] = s
            texts[i, : len(t)] = t
            spec_len[i], text_len[i] = s.shape[0], len(t)
        return specs, spec_len, texts, text_len


class ConvStem(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        a, b = channels
        self.conv1 = nn.Conv2D(1, a, (11, 41), stride=(2, 2), padding=(5, 20), bias_attr=False)
        self.bn1 = nn.BatchNorm2D(a)
        self.conv2 = nn.Conv2D(a, b, (11, 21), stride=(1, 2), padding=(5, 10), bias_attr=False)
        self.bn2 = nn.BatchNorm2D(b)
        self.act = nn.Hardtanh(0.0, 20.0)

    def forward(self, x):
        x = self.act(self.bn1(self.conv1(x)))
        return self.act(self.bn2(self.conv2(x)))


class Recogniser(nn.Layer):
    def __init__(self, cfg: TrainConfig):
        super().__init__()
        self.stem = ConvStem(cfg.channels)
        width = cfg.channels[-1] * math.ceil(math.ceil(cfg.audio.n_mels / 2) / 2)
        self.rnn = nn.GRU(width, cfg.hidden, num_layers=cfg.layers, direction="bidirect")
        self.norm = nn.LayerNorm(2 * cfg.hidden)
        self.out = nn.Linear(2 * cfg.hidden, len(ALPHABET))

    def forward(self, spec):
        x = self.stem(spec.unsqueeze(1))
        b, c, t, f = x.shape
        x = x.transpose([0, 2, 1, 3]).reshape([b, t, c * f])
        x, _ = self.rnn(x)
        return self.out(self.norm(x))


class Trainer:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.model = Recogniser(cfg)
        self.criterion = nn.CTCLoss(blank=0, reduction="mean")
        clip = nn.ClipGradByGlobalNorm(3.0)
        self.optimizer = paddle.optimizer.AdamW(
            cfg.lr,
            beta1=cfg.betas[0],
            beta2=cfg.betas[1],
            parameters=self.model.parameters(),
            grad_clip=clip,
        )
        data = Utterances(cfg, 2048)
        sampler = BatchSampler(data, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
        self.loader = DataLoader(data, batch_sampler=sampler, collate_fn=PadTo(cfg))
        self.step = 0

    def train_batch(self, spec, spec_len, text, text_len):
        logits = self.model(spec)
        lengths = paddle.clip((spec_len + 1) // 2, max=logits.shape[1])
        loss = self.criterion(logits.transpose([1, 0, 2]), text, lengths, text_len)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss.item()

    def fit(self, epochs):
        for _ in range(epochs):
            for batch in self.loader:
                value = self.train_batch(*batch)
                self.step += 1
                print("step", self.step, "ctc", round(value, 4))


def main():
    random.seed(0)
    paddle.seed(0)
    Trainer(TrainConfig()).fit(epochs=2)


if __name__ == "__main__":
    main()
