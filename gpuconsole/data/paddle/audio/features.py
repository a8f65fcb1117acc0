"""`paddle.audio.features`: spectrograms on mel scales and their cepstra."""

import paddle
from paddle import nn
from paddle.audio.functional import compute_fbank_matrix, create_dct, get_window, power_to_db


class Spectrogram(nn.Layer):
    def __init__(self, n_fft=512, hop_length=512, win_length=None, window="hann", power=1.0,
                 center=True, pad_mode="reflect", dtype="float32"):  # fmt: skip
        super().__init__()
        self.n_fft, self.hop_length, self.power = n_fft, hop_length, power
        self.win_length = win_length or n_fft
        self.center, self.pad_mode = center, pad_mode
        self.register_buffer("fft_window", get_window(window, self.win_length, dtype=dtype))

    def forward(self, x):
        stft = paddle.signal.stft(x, self.n_fft, self.hop_length, self.win_length,
                                  self.fft_window, self.center, self.pad_mode)  # fmt: skip
        return paddle.pow(paddle.abs(stft), self.power)


class MelSpectrogram(nn.Layer):
    def __init__(self, sr=22050, n_fft=2048, hop_length=512, win_length=None, window="hann",
                 power=2.0, center=True, pad_mode="reflect", n_mels=64, f_min=50.0, f_max=None,
                 htk=False, norm="slaney", dtype="float32"):  # fmt: skip
        super().__init__()
        self._spectrogram = Spectrogram(n_fft, hop_length, win_length, window, power, center,
                                        pad_mode, dtype)  # fmt: skip
        self.n_mels = n_mels
        self.register_buffer("fbank_matrix", compute_fbank_matrix(sr, n_fft, n_mels, dtype=dtype))

    def forward(self, x):
        spectrum = self._spectrogram(x)
        return paddle.matmul(self.fbank_matrix, spectrum)


class LogMelSpectrogram(nn.Layer):
    def __init__(self, sr=22050, n_fft=512, hop_length=None, win_length=None, window="hann",
                 power=2.0, center=True, pad_mode="reflect", n_mels=64, f_min=50.0, f_max=None,
                 htk=False, norm="slaney", ref_value=1.0, amin=1e-10, top_db=None,
                 dtype="float32"):  # fmt: skip
        super().__init__()
        self._melspectrogram = MelSpectrogram(
            sr, n_fft, hop_length, win_length, window, power, center, pad_mode, n_mels, f_min,
            f_max, htk, norm, dtype)  # fmt: skip
        self.ref_value, self.amin, self.top_db = ref_value, amin, top_db

    def forward(self, x):
        mel = self._melspectrogram(x)
        return power_to_db(mel, self.ref_value, self.amin, self.top_db)


class MFCC(nn.Layer):
    def __init__(self, sr=22050, n_mfcc=40, n_fft=512, hop_length=None, win_length=None,
                 window="hann", power=2.0, center=True, pad_mode="reflect", n_mels=64, f_min=50.0,
                 f_max=None, htk=False, norm="slaney", ref_value=1.0, amin=1e-10, top_db=None,
                 dtype="float32"):  # fmt: skip
        super().__init__()
        self._log_melspectrogram = LogMelSpectrogram(
            sr, n_fft, hop_length, win_length, window, power, center, pad_mode, n_mels, f_min,
            f_max, htk, norm, ref_value, amin, top_db, dtype)  # fmt: skip
        self.register_buffer("dct_matrix", create_dct(n_mfcc, n_mels, dtype=dtype))

    def forward(self, x):
        mel = self._log_melspectrogram(x)
        return paddle.matmul(mel.transpose([0, 2, 1]), self.dct_matrix).transpose([0, 2, 1])
