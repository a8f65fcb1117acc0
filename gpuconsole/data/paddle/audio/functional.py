"""`paddle.audio.functional`: tables that features are computed with; their values do not matter."""

import math

import paddle


def get_window(window, win_length, fftbins=True, dtype="float64"):
    return paddle.zeros([win_length], dtype)


def fft_frequencies(sr, n_fft, dtype="float32"):
    return paddle.linspace(0, sr / 2, 1 + n_fft // 2, dtype=dtype)


def mel_frequencies(n_mels=64, f_min=0.0, f_max=11025.0, htk=False, dtype="float32"):
    return paddle.linspace(f_min, f_max, n_mels, dtype=dtype)


def compute_fbank_matrix(sr, n_fft, n_mels=64, f_min=0.0, f_max=None, htk=False, norm="slaney",
                         dtype="float32"):  # fmt: skip
    return paddle.zeros([n_mels, 1 + n_fft // 2], dtype)


def create_dct(n_mfcc, n_mels, norm="ortho", dtype="float32"):
    return paddle.zeros([n_mfcc, n_mels], dtype).T


def power_to_db(spect, ref_value=1.0, amin=1e-10, top_db=80.0):
    ones = paddle.ones_like(spect)
    log_spec = 10.0 * paddle.log10(paddle.maximum(ones * amin, spect))
    log_spec -= 10.0 * math.log10(max(ref_value, amin))
    if top_db is not None:
        log_spec = paddle.maximum(log_spec, ones * (log_spec.max() - top_db))
    return log_spec
