"""`paddle.signal`: short-time transforms, as the operators of Paddle's own follow one another."""

import paddle
from paddle.nn import functional as F  # noqa: N812


def _widened(window, n_fft, win_length, dtype):
    """Return a window of the length of a transform, with zeros on both sides."""
    if window is None:
        window = paddle.ones([win_length], dtype)
    if win_length < n_fft:
        left = (n_fft - win_length) // 2
        window = F.pad(window, pad=[left, n_fft - win_length - left], mode="constant")
    return window


def stft(x, n_fft, hop_length=None, win_length=None, window=None, center=True,
         pad_mode="reflect", normalized=False, onesided=True, name=None):  # fmt: skip
    rank = len(x.shape)
    if rank == 1:
        x = x.unsqueeze(0)
    hop_length = hop_length or n_fft // 4
    window = _widened(window, n_fft, win_length or n_fft, x.dtype)
    if center:
        side = n_fft // 2
        x = F.pad(x.unsqueeze(-1), [side, side], mode=pad_mode, data_format="NLC").squeeze(-1)
    frames = paddle.signal.frame(x, n_fft, hop_length, -1)
    frames = frames.transpose([0, 2, 1])
    frames = paddle.multiply(frames, window)
    out = paddle.fft.rfft(frames) if onesided is not False else paddle.fft.fft(frames)
    out = out.transpose([0, 2, 1])
    return out.squeeze(0) if rank == 1 else out


def istft(x, n_fft, hop_length=None, win_length=None, window=None, center=True,
          normalized=False, onesided=True, length=None, return_complex=False,
          name=None):  # fmt: skip
    rank = len(x.shape)
    if rank == 2:
        x = x.unsqueeze(0)
    hop_length = hop_length or n_fft // 4
    count = x.shape[-1]
    window = _widened(window, n_fft, win_length or n_fft, "float32")
    x = x.transpose([0, 2, 1])
    if onesided is False:
        x = x[:, :, : n_fft // 2 + 1]
    out = paddle.fft.irfft(x)
    out = paddle.multiply(out, window).transpose([0, 2, 1])
    out = paddle.signal.overlap_add(out, hop_length, -1)
    cover = paddle.tile(paddle.multiply(window, window).unsqueeze(0), [count, 1])
    cover = paddle.signal.overlap_add(cover.transpose([1, 0]), hop_length, -1)
    side = n_fft // 2 if center else 0
    if length is not None:
        out, cover = out[:, side : side + length], cover[side : side + length]
    elif center:
        out, cover = out[:, side:-side], cover[side:-side]
    cover.abs().min()
    out = out / cover
    return out.squeeze(0) if rank == 2 else out
