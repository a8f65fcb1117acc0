"""`paddle.signal` and the features of `paddle.audio`."""

from __future__ import annotations

from tests.real.preflight.operator_rig import Case

_A = "from paddle.audio.features import *\nnet = "
_WAVES = "x=f(N,640)"

CASES = [
    Case("frame", "paddle.signal.frame(x, 8, 4)", _WAVES),
    Case("overlap_add", "paddle.signal.overlap_add(x, 4)", "x=f(N,8,159)"),
    Case("stft waves", "paddle.signal.stft(x, 64, 16)", _WAVES, "paddle.abs(y)"),
    Case("stft window", "paddle.signal.stft(x, 64, 16, 48, w)", _WAVES + " w=c(48)",
         "paddle.abs(y)"),
    Case("stft without gradient", "paddle.signal.stft(x, 64, 16)", "x=c(N,640)", ""),
    Case("istft", "paddle.signal.istft(paddle.complex(x, x), 64, 16)", "x=f(N,33,41)"),
    Case("spectrogram", "net(x)", _WAVES, "y", _A + "Spectrogram(64, 16)"),
    Case("mel", "net(x)", "x=c(N,640)", "", _A + "MelSpectrogram(16000, 64, 16, n_mels=8)"),
    Case("mel window", "net(x)", "x=c(N,640)", "",
         _A + "MelSpectrogram(16000, 64, 16, 48, n_mels=8)"),
    Case("log mel", "net(x)", _WAVES, "y", _A + "LogMelSpectrogram(16000, 64, 16, n_mels=8)"),
    Case("mfcc", "net(x)", _WAVES, "y", _A + "MFCC(16000, 8, 64, 16, n_mels=8)"),
]  # fmt: skip
