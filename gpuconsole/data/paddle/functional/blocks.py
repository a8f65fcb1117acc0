"""Functions of `paddle.nn.functional` that Paddle builds of operators."""

import paddle
from paddle.nn import functional as F  # noqa: N812


def glu(x, axis=-1, name=None):
    a, b = paddle.chunk(x, 2, axis=axis)
    gate = F.sigmoid(b)
    out = paddle.multiply(a, gate)
    return out


def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    both = paddle.sum(paddle.multiply(x1, x2), axis=axis)
    first = paddle.sum(paddle.multiply(x1, x1), axis=axis)
    second = paddle.sum(paddle.multiply(x2, x2), axis=axis)
    lengths = paddle.sqrt(paddle.clip(first * second, min=eps * eps))
    angle = both / lengths
    return angle


def normalize(x, p=2, axis=1, epsilon=1e-12, out=None, name=None):
    eps = paddle.full([1], epsilon, dtype=x.dtype)
    ret = paddle.norm(x, p, axis, True)
    ret = x / paddle.maximum(ret, eps)
    return ret


def dropout_axis(x, p, axis, training, mode):
    if not training:
        return paddle.scale(x, 1 - p) if mode == "downscale_in_infer" else x
    scaled = paddle.scale(x, 1.0) if mode == "upscale_in_train" else x
    axes = [axis] if isinstance(axis, int) else list(axis)
    shape = [1] * len(x.shape)
    for one in axes:
        shape[one] = x.shape[one]
    noise = paddle.uniform(shape, dtype="float32")
    p = paddle.full([1], p, dtype="float32")
    mask = paddle.greater_equal(noise, p)
    scaled = paddle.cast(scaled, x.dtype)
    mask = paddle.cast(mask, x.dtype)
    ret = paddle.multiply(scaled, mask)
    return ret


def dropout2d(x, p=0.5, training=True, data_format="NCHW", name=None):
    return F.dropout(x, p, [0, 1] if data_format == "NCHW" else [0, 3], training)


def dropout3d(x, p=0.5, training=True, data_format="NCDHW", name=None):
    return F.dropout(x, p, [0, 1] if data_format == "NCDHW" else [0, 4], training)


def dropout1d(input, p=0.5, training=True, inplace=False):
    if len(input.shape) == 2:
        return paddle.squeeze(F.dropout(paddle.unsqueeze(input, 0), p, 1, training), 0)
    return F.dropout(input, p, 1, training)


def zeropad2d(x, padding, data_format="NCHW", name=None):
    return F.pad(x, pad=padding, mode="constant", value=0, data_format=data_format)


def alpha_dropout(x, p=0.5, training=True, name=None):
    if not training:
        return x
    noise = paddle.uniform(x.shape, dtype="float32")
    p = paddle.full(x.shape, p, dtype="float32")
    kept = paddle.greater_equal(noise, p)
    kept = paddle.cast(kept, x.dtype)
    dropped = paddle.subtract(paddle.full(x.shape, 1.0, dtype=x.dtype), kept)
    b = paddle.full(x.shape, 0.1, dtype=x.dtype)
    y = paddle.add(paddle.multiply(x, kept), paddle.scale(dropped, 0.5))
    res = paddle.add(paddle.scale(y, 0.5), b)
    return res


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0, data_format="NCHW", name=None):
    sizes = x.shape
    rank = len(sizes)
    last = data_format[-1] == "C"
    rest = 1
    for one in sizes[1:]:
        rest = rest * one
    div = paddle.unsqueeze(paddle.multiply(x, x), axis=1)
    before, after = size // 2, (size - 1) // 2
    if rank == 3:
        div = F.pad(div, pad=[before, after, 0, 0] if last else [0, 0, before, after])
        div = F.avg_pool2d(div, kernel_size=(1, size) if last else (size, 1), stride=1)
        div = paddle.squeeze(div, axis=1)
    else:
        if last:
            shape = [sizes[0], 1, sizes[1], rest // (sizes[1] * sizes[-1]), sizes[-1]]
            sides = [before, after, 0, 0, 0, 0]
        else:
            shape = [sizes[0], 1, sizes[1], sizes[2], rest // (sizes[1] * sizes[2])]
            sides = [0, 0, 0, 0, before, after]
        div = paddle.reshape(div, shape=shape)
        div = F.pad(div, pad=sides, data_format="NCDHW")
        div = F.avg_pool3d(div, kernel_size=(1, 1, size) if last else (size, 1, 1), stride=1)
        div = paddle.reshape(paddle.squeeze(div, axis=1), sizes)
    div = paddle.scale(div, scale=alpha, bias=k)
    div = paddle.pow(div, beta)
    res = paddle.divide(x, div)
    return res


def math_attention(query, key, value, mask, dropout_p, fused, causal, training):
    query = paddle.transpose(query, [0, 2, 1, 3])
    key = paddle.transpose(key, [0, 2, 1, 3])
    value = paddle.transpose(value, [0, 2, 1, 3])
    product = paddle.matmul(query * 1.0, key, transpose_y=True)
    if causal and not fused:
        mask = upper_triangle(product)
    if mask is not None:
        product = product + mask
    weights = F.softmax(product)
    if dropout_p > 0.0:
        weights = F.dropout(weights, dropout_p, training=training)
    out = paddle.matmul(weights, value)
    out = paddle.transpose(out, [0, 2, 1, 3])
    return out


def upper_triangle(scores):
    mask = paddle.full_like(scores, -1e4)
    mask = paddle.triu(mask, 1)
    return mask
