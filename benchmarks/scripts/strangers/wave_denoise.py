# speech enhancement: complex-mask network on STFT, DCCRN-like but tiny
import logging
import time

import numpy as np
import paddle
import paddle.nn as nn

SR = 16000
SECONDS = 1
N_FFT = 512
HOP = 128
BATCH_SIZE = 6
N_UTT = 36
LR = 6e-4
CHANNELS = (16, 32, 64)
CLIP = 5.0
USE_EMA = True
LOG = logging.getLogger(__name__)


class NoisySpeech(paddle.io.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.RandomState(100 + i)
        t = np.arange(SR * SECONDS) / SR
        f0 = 110 + 10 * (i % 12)
        clean = sum(np.sin(2 * np.pi * f0 * k * t) / k for k in range(1, 6)) * (0.5 + 0.5 * np.sin(2 * np.pi * 3 * t))
        noisy = clean + 0.3 * rng.randn(len(t))
        return noisy.astype('float32'), clean.astype('float32')


class Enc(nn.Layer):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2D(i, o, (5, 3), stride=(2, 1), padding=(2, 1))
        self.bn = nn.BatchNorm2D(o)
        self.act = nn.PReLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Dec(nn.Layer):
    def __init__(self, i, o, last=False):
        super().__init__()
        self.conv = nn.Conv2DTranspose(i, o, (5, 3), stride=(2, 1), padding=(2, 1), output_padding=(1, 0))
        self.post = nn.Identity() if last else nn.Sequential(nn.BatchNorm2D(o), nn.PReLU())

    def forward(self, x, skip):
        return self.post(self.conv(paddle.concat([x, skip], axis=1)))


class CRN(nn.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer('win', paddle.audio.functional.get_window('hann', N_FFT).astype('float32'))
        chans = (2,) + CHANNELS
        self.enc = nn.LayerList([Enc(a, b) for a, b in zip(chans[:-1], chans[1:])])
        self.dec = nn.LayerList([Dec(2 * b, a, last=(a == 2)) for a, b in reversed(list(zip(chans[:-1], chans[1:])))])
        bins = N_FFT // 2 // 2 ** len(CHANNELS)
        self.rnn = nn.GRU(CHANNELS[-1] * bins, 128, num_layers=1)
        self.back = nn.Linear(128, CHANNELS[-1] * bins)

    def forward(self, wav):
        spec = paddle.signal.stft(wav, N_FFT, HOP, window=self.win)
        re, im = paddle.real(spec), paddle.imag(spec)
        x = paddle.stack([re, im], axis=1)[:, :, 1:]       # DC removed
        skips = []
        for e in self.enc:
            x = e(x)
            skips.append(x)
        b, c, f, t = x.shape
        h, _ = self.rnn(x.transpose([0, 3, 1, 2]).reshape([b, t, c * f]))
        x = self.back(h).reshape([b, t, c, f]).transpose([0, 2, 3, 1])
        for d in self.dec:
            x = d(x, skips.pop())
        m = paddle.tanh(nn.functional.pad(x, [0, 0, 1, 0]))
        mr, mi = m[:, 0], m[:, 1]
        out = paddle.complex(re * mr - im * mi, re * mi + im * mr)
        return paddle.signal.istft(out, N_FFT, HOP, window=self.win, length=wav.shape[1])


def si_snr(est, ref, eps=1e-8):
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    s = (est * ref).sum(-1, keepdim=True) * ref / ((ref ** 2).sum(-1, keepdim=True) + eps)
    return 10 * paddle.log10((s ** 2).sum(-1) / (((est - s) ** 2).sum(-1) + eps) + eps)


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @paddle.no_grad()
    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n] = self.decay * self.shadow[n] + (1 - self.decay) * p


def train():
    model = CRN()
    ema = EMA(model) if USE_EMA else None
    opt = paddle.optimizer.Adam(LR, parameters=model.parameters(), grad_clip=nn.ClipGradByNorm(CLIP))
    loader = paddle.io.DataLoader(NoisySpeech(N_UTT), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    tic = time.time()
    for step, (noisy, clean) in enumerate(loader, 1):
        loss = -si_snr(model(noisy), clean).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        if ema:
            ema.update(model)
        LOG.info('step %d si-snr %.3f dB (%.1fs)', step, -loss.item(), time.time() - tic)


if __name__ == '__main__':
    logging.basicConfig(level=logging.INFO)
    train()
