"""Calls of Paddle's API whose shapes and types the meta tier must give as a real run does.

`python meta_calls.py real|meta` prints, for each call, shape and type of every tensor that it
gives, and whether a gradient flows; where one does, it is run back.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy


def calls(paddle: Any) -> dict[str, Any]:
    """Return the calls by name."""
    functional, nn = paddle.nn.functional, paddle.nn
    x = paddle.rand([4, 6, 8])
    x.stop_gradient = False
    numbers = paddle.randint(0, 4, [4, 6])
    vector, matrix = paddle.rand([8]), paddle.rand([6, 6])
    image, mask = paddle.rand([2, 3, 16, 16]), x > 0.5
    return {
        "sum": lambda: x.sum(),
        "mean1": lambda: x.mean(axis=1, keepdim=True),
        "max": lambda: x.max(axis=-1),
        "amax": lambda: paddle.amax(x, 1),
        "argmax": lambda: x.argmax(-1),
        "sort": lambda: paddle.sort(x, -1),
        "cumsum": lambda: x.cumsum(0),
        "prod": lambda: x.prod(1),
        "std": lambda: x.std(1),
        "var": lambda: x.var(),
        "norm": lambda: x.norm(),
        "norm2": lambda: paddle.linalg.norm(x, p=2, axis=-1),
        "lse": lambda: paddle.logsumexp(x, -1),
        "clip": lambda: x.clip(0, 1),
        "clipmin": lambda: paddle.clip(x, min=0.2),
        "round": lambda: x.round(),
        "abs": lambda: abs(x),
        "pow": lambda: x**2.5,
        "rpow": lambda: 2**x,
        "div": lambda: 1 / x,
        "rsub": lambda: 1 - x,
        "neg": lambda: -x,
        "mod": lambda: numbers % 3,
        "fdiv": lambda: numbers // 2,
        "idiv": lambda: numbers / 2,
        "cmp": lambda: (x > 0.5) & (x < 0.9),
        "inv": lambda: ~mask,
        "eq": lambda: numbers == 2,
        "ne": lambda: numbers != paddle.to_tensor(2),
        "np_add": lambda: x + numpy.ones(8, "float32"),
        "npmul": lambda: numpy.float32(2) * x,
        "tensor_list": lambda: paddle.to_tensor([1, 2, 3]),
        "tt": lambda: paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]),
        "arr": lambda: paddle.to_tensor(numpy.zeros((3, 4))),
        "cast": lambda: x.astype("float16"),
        "castb": lambda: mask.astype("float32"),
        "bool": lambda: numbers.astype("bool"),
        "reshape": lambda: x.reshape([4, -1]),
        "reshape0": lambda: x.reshape([0, 48]),
        "flatten": lambda: x.flatten(1),
        "squeeze": lambda: x.unsqueeze(1).squeeze(),
        "tr": lambda: x.transpose([2, 0, 1]),
        "T": lambda: matrix.T,
        "t": lambda: matrix.t(),
        "swap": lambda: paddle.swapaxes(x, 0, 1),
        "expand": lambda: vector.expand([3, 8]),
        "tile": lambda: vector.tile([2, 2]),
        "bcast": lambda: paddle.broadcast_to(vector, [2, 8]),
        "cat": lambda: paddle.concat([x, x], -1),
        "stack": lambda: paddle.stack([x, x]),
        "split": lambda: x.split(2, 1),
        "split2": lambda: paddle.split(x, [2, -1], axis=1),
        "chunk": lambda: x.chunk(2, -1),
        "unbind": lambda: x.unbind(1),
        "gather": lambda: paddle.gather(x, paddle.to_tensor([0, 2]), 0),
        "gnd": lambda: paddle.gather_nd(x, paddle.to_tensor([[0, 1], [1, 2]])),
        "isel": lambda: x.index_select(paddle.to_tensor([1, 2]), 1),
        "tala": lambda: paddle.take_along_axis(x, paddle.argsort(x, -1), -1),
        "pala": lambda: paddle.put_along_axis(
            x.detach(), paddle.zeros([4, 6, 1], "int64"), 1.0, -1
        ),
        "scatter": lambda: paddle.scatter(
            paddle.zeros([5, 8]), paddle.to_tensor([1, 2]), paddle.ones([2, 8])
        ),
        "where": lambda: paddle.where(mask, x, paddle.zeros_like(x)),
        "where_s": lambda: paddle.where(x > 0.5, x, 0.0),
        "mfill": lambda: x.masked_fill(mask, -1000000000.0),
        "nz": lambda: paddle.nonzero(paddle.to_tensor([0, 1, 1])),
        "msel": lambda: paddle.masked_select(
            paddle.to_tensor([1.0, 2.0, 3.0]), paddle.to_tensor([True, False, True])
        ),
        "uniq": lambda: paddle.unique(paddle.to_tensor([1, 2, 2, 3])),
        "oneh": lambda: functional.one_hot(numbers, 5),
        "emb": lambda: functional.embedding(numbers, matrix),
        "roll": lambda: paddle.roll(x, 2, 1),
        "flip": lambda: x.flip([0]),
        "pad": lambda: functional.pad(image, [1, 1, 2, 2]),
        "padc": lambda: functional.pad(x, [0, 0, 1, 1, 0, 0]),
        "triu": lambda: paddle.triu(matrix),
        "eye": lambda: paddle.eye(4),
        "arange": lambda: paddle.arange(3, 20, 2),
        "lin": lambda: paddle.linspace(0, 1, 7),
        "full": lambda: paddle.full([2, 3], 7, "int32"),
        "fl": lambda: paddle.full_like(x, 3),
        "zl": lambda: paddle.zeros_like(x),
        "ones": lambda: paddle.ones([2, 2]),
        "randn": lambda: paddle.randn([3, 3]),
        "rl": lambda: paddle.rand([2]),
        "ri": lambda: paddle.randint(0, 5, [3]),
        "perm": lambda: paddle.randperm(6),
        "normal": lambda: paddle.normal(0, 1, [3]),
        "unif": lambda: paddle.uniform([3]),
        "bern": lambda: paddle.bernoulli(vector),
        "multi": lambda: paddle.multinomial(vector, 2),
        "mesh": lambda: paddle.meshgrid(paddle.arange(3), paddle.arange(4)),
        "matmul": lambda: x @ matrix[:1].tile([8, 1])[:, :6],
        "bmm": lambda: paddle.bmm(x, x.transpose([0, 2, 1])),
        "dot": lambda: paddle.dot(vector, vector),
        "ein": lambda: paddle.einsum("bij,bkj->bik", x, x),
        "ein2": lambda: paddle.einsum("bij->bj", x),
        "outer": lambda: paddle.outer(vector, vector),
        "mv": lambda: paddle.mv(x[0], vector),
        "addmm": lambda: paddle.addmm(matrix, matrix, matrix),
        "cross": lambda: paddle.cross(paddle.rand([2, 3]), paddle.rand([2, 3])),
        "det": lambda: paddle.linalg.det(matrix),
        "invm": lambda: paddle.linalg.inv(matrix),
        "svd": lambda: paddle.linalg.svd(matrix),
        "qr": lambda: paddle.linalg.qr(matrix),
        "eigh": lambda: paddle.linalg.eigh(matrix @ matrix.T),
        "chol": lambda: paddle.linalg.cholesky(matrix @ matrix.T + paddle.eye(6)),
        "solve": lambda: paddle.linalg.solve(matrix, matrix),
        "g0": lambda: x[0],
        "g1": lambda: x[:, 1:3],
        "g2": lambda: x[..., -1],
        "g3": lambda: x[:, None],
        "g4": lambda: x[::2, ::-1],
        "g5": lambda: x[[0, 2]],
        "g6": lambda: x[paddle.to_tensor([0, 1]), paddle.to_tensor([1, 2])],
        "g7": lambda: x[:, paddle.to_tensor([0, 1])],
        "g8": lambda: x[numbers[:, 0]],
        "g9": lambda: x[paddle.to_tensor([True, False, True, True])],
        "g10": lambda: x[paddle.arange(4), :, numbers[:, 0]],
        "g11": lambda: x[0, 1, 2],
        "g12": lambda: x[-1:],
        "g13": lambda: x[numpy.array([0, 1])],
        "g14": lambda: x[1:3, [0, 1]],
        "g15": lambda: x[:, -2:][:, ::1],
        "conv": lambda: functional.conv2d(image, paddle.rand([5, 3, 3, 3]), stride=2, padding=1),
        "convs": lambda: functional.conv2d(image, paddle.rand([5, 3, 3, 3]), padding="SAME"),
        "convg": lambda: nn.Conv2D(3, 6, 3, groups=3)(image),
        "conv1": lambda: nn.Conv1D(6, 3, 3)(x),
        "conv3": lambda: nn.Conv3D(2, 3, 3)(paddle.rand([1, 2, 5, 5, 5])),
        "ct": lambda: nn.Conv2DTranspose(3, 4, 4, 2, 1)(image),
        "mp": lambda: functional.max_pool2d(image, 2),
        "mpm": lambda: functional.max_pool2d(image, 2, return_mask=True),
        "ap": lambda: functional.avg_pool2d(image, 3, 2, 1),
        "aap": lambda: functional.adaptive_avg_pool2d(image, (1, 4)),
        "amp": lambda: functional.adaptive_max_pool2d(image, 2),
        "interp": lambda: functional.interpolate(image, scale_factor=2, mode="bilinear"),
        "interp2": lambda: functional.interpolate(image, size=[7, 9]),
        "up": lambda: nn.Upsample(scale_factor=2)(image),
        "ps": lambda: functional.pixel_shuffle(paddle.rand([1, 8, 4, 4]), 2),
        "unf": lambda: functional.unfold(image, 3),
        "fold": lambda: functional.fold(functional.unfold(image, 2, 2), [16, 16], 2, 2),
        "gs": lambda: functional.grid_sample(image, paddle.rand([2, 5, 5, 2])),
        "ag": lambda: functional.affine_grid(paddle.rand([2, 2, 3]), [2, 3, 4, 4]),
        "bn": lambda: nn.BatchNorm2D(3)(image),
        "gn": lambda: nn.GroupNorm(3, 3)(image),
        "ln": lambda: nn.LayerNorm(8)(x),
        "lrn": lambda: nn.LocalResponseNorm(3)(image),
        "sn": lambda: nn.SpectralNorm([4, 3])(paddle.rand([4, 3])),
        "wn": lambda: nn.utils.weight_norm(nn.Linear(8, 3))(x),
        "snu": lambda: nn.utils.spectral_norm(nn.Linear(8, 3))(x),
        "prelu": lambda: nn.PReLU()(x),
        "glu": lambda: functional.glu(x),
        "mish": lambda: functional.mish(x),
        "hs": lambda: functional.hardswish(x),
        "older_argsort": lambda: paddle._legacy_C_ops.argsort(x, "axis", 1, "descending", True)[0],
        "softm": lambda: functional.softmax(x, -1),
        "lsm": lambda: functional.log_softmax(x),
        "gumbel": lambda: functional.gumbel_softmax(x),
        "drop": lambda: functional.dropout(x, 0.5),
        "drop2": lambda: functional.dropout2d(image),
        "adrop": lambda: functional.alpha_dropout(x),
        "norml": lambda: functional.normalize(x),
        "cos": lambda: functional.cosine_similarity(x, x, -1),
        "ce": lambda: functional.cross_entropy(x.reshape([-1, 8]), paddle.randint(0, 8, [24])),
        "cew": lambda: functional.cross_entropy(
            x.reshape([-1, 8]), paddle.randint(0, 8, [24]), weight=vector
        ),
        "ces": lambda: functional.cross_entropy(x, functional.softmax(x), soft_label=True),
        "cel": lambda: functional.cross_entropy(
            x.reshape([-1, 8]), paddle.randint(0, 8, [24]), label_smoothing=0.1
        ),
        "cen": lambda: functional.cross_entropy(
            x.reshape([-1, 8]), paddle.randint(0, 8, [24]), reduction="none", ignore_index=3
        ),
        "bce": lambda: functional.binary_cross_entropy(
            functional.sigmoid(x), functional.sigmoid(x).detach()
        ),
        "bcel": lambda: functional.binary_cross_entropy_with_logits(x, paddle.ones_like(x)),
        "mse": lambda: functional.mse_loss(x, x.detach()),
        "l1": lambda: functional.l1_loss(x, x.detach()),
        "sl1": lambda: functional.smooth_l1_loss(x, x.detach()),
        "kl": lambda: functional.kl_div(functional.log_softmax(x), functional.softmax(x).detach()),
        "nll": lambda: functional.nll_loss(
            functional.log_softmax(x.reshape([-1, 8])), paddle.randint(0, 8, [24])
        ),
        "trip": lambda: functional.triplet_margin_loss(x[0], x[1], x[2]),
        "ctc": lambda: functional.ctc_loss(
            paddle.rand([10, 2, 5]),
            paddle.randint(1, 5, [2, 3], "int32"),
            paddle.full([2], 10, "int64"),
            paddle.full([2], 3, "int64"),
        ),
        "mrl": lambda: functional.margin_ranking_loss(vector, vector, paddle.ones([8])),
        "dice": lambda: functional.dice_loss(
            functional.softmax(x), paddle.randint(0, 8, [4, 6, 1])
        ),
        "focal": lambda: functional.sigmoid_focal_loss(x, paddle.ones_like(x)),
        "cosl": lambda: functional.cosine_embedding_loss(x[0], x[1], paddle.ones([6], "int64")),
        "lstm": lambda: nn.LSTM(8, 5)(x)[0],
        "gru": lambda: nn.GRU(8, 5, 2, "bidirect")(x)[1],
        "lcell": lambda: nn.LSTMCell(8, 5)(x[0])[0],
        "rnn": lambda: nn.RNN(nn.GRUCell(8, 5))(x)[0],
        "mha": lambda: nn.MultiHeadAttention(8, 2)(x),
        "trf": lambda: nn.Transformer(8, 2, 1, 1, 16)(x, x),
        "sdpa": lambda: functional.scaled_dot_product_attention(
            paddle.rand([2, 5, 2, 4]), paddle.rand([2, 5, 2, 4]), paddle.rand([2, 5, 2, 4])
        ),
        "sdpam": lambda: functional.scaled_dot_product_attention(
            paddle.rand([2, 5, 2, 4]),
            paddle.rand([2, 5, 2, 4]),
            paddle.rand([2, 5, 2, 4]),
            is_causal=True,
        ),
        "embl": lambda: nn.Embedding(10, 4, padding_idx=0)(numbers),
        "bil": lambda: nn.Bilinear(8, 8, 3)(x[0], x[0]),
        "fft": lambda: paddle.fft.rfft(x),
        "ifft": lambda: paddle.fft.irfft(paddle.fft.rfft(x)),
        "stft": lambda: paddle.signal.stft(paddle.rand([2, 64]), 16),
        "cplx": lambda: paddle.complex(x, x),
        "rl2": lambda: paddle.real(paddle.complex(x, x)),
        "absc": lambda: paddle.abs(paddle.complex(x, x)),
        "nms": lambda: paddle.vision.ops.nms(
            paddle.to_tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]),
            0.5,
            paddle.to_tensor([0.9, 0.8]),
        ),
        "roi": lambda: paddle.vision.ops.roi_align(
            image,
            paddle.to_tensor([[0.0, 0.0, 4.0, 4.0]]),
            paddle.to_tensor([1, 0], dtype="int32"),
            2,
        ),
        "dcn": lambda: paddle.vision.ops.deform_conv2d(
            image, paddle.rand([2, 18, 14, 14]), paddle.rand([4, 3, 3, 3])
        ),
        "acc": lambda: paddle.metric.accuracy(paddle.rand([4, 5]), paddle.randint(0, 5, [4, 1])),
        "shape": lambda: paddle.shape(x),
        "numel": lambda: paddle.numel(x),
        "rank": lambda: paddle.rank(x),
        "isnan": lambda: paddle.isnan(x),
        "anyb": lambda: paddle.any(mask),
        "allb": lambda: mask.all(),
        "allc": lambda: paddle.allclose(x, x),
        "maxi": lambda: paddle.maximum(x, x),
        "lerp": lambda: paddle.lerp(x, x, 0.5),
        "addn": lambda: paddle.add_n([x, x]),
        "increment": lambda: paddle.increment(paddle.zeros([1])),
        "diff": lambda: paddle.diff(x),
        "hist": lambda: paddle.histogram(vector, bins=4),
        "bincount": lambda: paddle.bincount(paddle.to_tensor([0, 1, 1])),
        "diag": lambda: paddle.diag(vector),
        "tracem": lambda: paddle.trace(matrix),
        "kron": lambda: paddle.kron(matrix, matrix),
        "repeat": lambda: paddle.repeat_interleave(x, 2, 1),
        "searchs": lambda: paddle.searchsorted(paddle.sort(vector), vector),
        "quant": lambda: paddle.quantile(x, 0.5, 1),
        "median": lambda: x.median(-1),
        "mode": lambda: x.mode(-1)[0],
        "kth": lambda: x.kthvalue(2)[0],
        "clone": lambda: x.clone(),
        "det2": lambda: x.detach(),
        "cpu": lambda: x.cpu(),
        "itm": lambda: paddle.to_tensor(float(paddle.to_tensor(3.5))),
        "setv": lambda: (lambda t: (t.__setitem__((slice(None), 0), 1.0), t)[1])(
            paddle.zeros([3, 3])
        ),
        "seti": lambda: (
            lambda t: (t.__setitem__(paddle.to_tensor([0, 1]), paddle.ones([2, 3])), t)[1]
        )(paddle.zeros([3, 3])),
        "add_": lambda: paddle.zeros([3]).add_(paddle.ones([3])),
        "zero_": lambda: paddle.ones([3]).zero_(),
        "fill_": lambda: paddle.ones([3]).fill_(2),
        "scale_": lambda: paddle.ones([3]).scale_(2.0),
        "relu_": lambda: functional.relu_(paddle.ones([3])),
        "set_value": lambda: (lambda t: (t.set_value(numpy.ones((3,), "float32")), t)[1])(
            paddle.zeros([3])
        ),
        "sm": lambda: functional.sequence_mask(paddle.to_tensor([1, 2, 3]), 5),
        "ts": lambda: functional.temporal_shift(paddle.rand([4, 4, 2, 2]), 2),
        "assign": lambda: paddle.assign(numpy.ones((2, 2), "float32")),
        "crop": lambda: paddle.crop(x, [2, 2, 2]),
        "ss": lambda: paddle.strided_slice(x, [0], [0], [4], [2]),
        "slc": lambda: paddle.slice(x, [0], [1], [3]),
        "multiplex": lambda: paddle.multiplex([matrix, matrix], paddle.zeros([6, 1], "int32")),
        "idxadd": lambda: paddle.index_add(matrix, paddle.to_tensor([0]), 0, paddle.ones([1, 6])),
        "unfld": lambda: vector.unfold(0, 4, 2),
        "moveaxis": lambda: paddle.moveaxis(x, 0, 2),
        "rot": lambda: paddle.rot90(matrix),
        "nanm": lambda: paddle.nanmean(x),
        "vecn": lambda: paddle.linalg.vector_norm(x),
        "cdist": lambda: paddle.cdist(matrix, matrix),
        "erf": lambda: paddle.erf(x),
        "atan2": lambda: paddle.atan2(x, x),
        "tdot": lambda: paddle.tensordot(matrix, matrix, 1),
        "chl": lambda: nn.ChannelShuffle(3)(image),
        "clipn": lambda: nn.utils.clip_grad_norm_([x], 1.0),
        "pv": lambda: nn.utils.parameters_to_vector(nn.Linear(2, 2).parameters()),
        "state": lambda: list(nn.Linear(2, 2).state_dict().values()),
        "vis": lambda: paddle.vision.models.shufflenet_v2_x0_25()(paddle.rand([1, 3, 64, 64])),
    }


def tensors(value: Any) -> list[Any]:
    """Return the tensors of a nested result."""
    if isinstance(value, (list, tuple)):
        return [one for each in value for one in tensors(each)]
    return [value] if hasattr(value, "stop_gradient") else []


def outcome(call: Any) -> Any:
    """Run a call and its backward, and describe what it gives."""
    found = tensors(call())
    told = [[list(one.shape), str(one.dtype), bool(one.stop_gradient)] for one in found]
    ways = [one for one in found if not one.stop_gradient and "float" in str(one.dtype)]
    if ways:
        sum(one.sum() for one in ways).backward()
    return told


def main() -> None:
    """Run every call and print what it gives."""
    if sys.argv[1] == "meta":
        from gpuconsole.preflight.meta import hook
        from gpuconsole.preflight.tiers.probe_request import operators

        hook.install()
        import paddle

        hook.ready(paddle, operators(), "cpu")
    else:
        import paddle
    print(json.dumps({name: outcome(call) for name, call in calls(paddle).items()}))


if __name__ == "__main__":
    main()
