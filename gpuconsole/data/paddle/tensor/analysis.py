"""Functions of `paddle` on numbers: logarithms, integrals, statistics, products."""

import paddle


def logaddexp(x, y, name=None):
    apart = paddle.log1p(paddle.exp(-paddle.abs(x - y)))
    largest = paddle.maximum(x, y)
    return apart + largest


def sinc(x, name=None):
    tmp = paddle.where(x != 0, x, paddle.full_like(x, 1e-20))
    tmp = paddle.multiply(tmp, paddle.to_tensor(3.14159, dtype=x.dtype))
    tmp = paddle.divide(tmp.sin(), tmp)
    return paddle.where(~paddle.isnan(tmp), tmp, paddle.full_like(x, 1.0))


def ldexp(x, y, name=None):
    two = paddle.to_tensor(2.0, dtype=x.dtype)
    return paddle.multiply(x, paddle.pow(two, y.astype(x.dtype)))


def signbit(x, name=None):
    ones = paddle.to_tensor([1.0], dtype=x.dtype).expand(x.shape)
    x = paddle.sign(paddle.copysign(ones, x))
    return paddle.cast(x < 0, "bool")


def polar(abs, angle, name=None):
    return paddle.complex(abs * paddle.cos(angle), abs * paddle.sin(angle))


def vecdot(x, y, axis=-1, name=None):
    return (x.conj() * y).sum(axis=axis)


def _steps(y, x, dx, axis):
    if x is None:
        return paddle.to_tensor(1.0 if dx is None else dx)
    if len(x.shape) == 1:
        shape = [1] * len(y.shape)
        shape[axis] = x.shape[0] - 1
        return paddle.diff(x).reshape(shape)
    return paddle.diff(x, axis=axis)


def _areas(y, x, dx, axis):
    length = y.shape[axis]
    axis = axis % len(y.shape)
    steps = _steps(y, x, dx, axis)
    upper = paddle.gather(y, paddle.arange(1, length), axis=axis)
    return (upper + paddle.gather(y, paddle.arange(0, length - 1), axis=axis)) * steps


def trapezoid(y, x=None, dx=None, axis=-1, name=None):
    return 0.5 * paddle.sum(_areas(y, x, dx, axis), axis=axis)


def cumulative_trapezoid(y, x=None, dx=None, axis=-1, name=None):
    return 0.5 * paddle.cumsum(_areas(y, x, dx, axis), axis=axis)


def vander(x, n=None, increasing=False, name=None):
    n = x.shape[0] if n is None else n
    res = paddle.empty([x.shape[0], n], dtype=x.dtype)
    if n > 0:
        res[:, 0] = paddle.to_tensor([1], dtype=x.dtype)
    if n > 1:
        res[:, 1:] = x[:, None]
        res[:, 1:] = paddle.cumprod(res[:, 1:], dim=-1)
    return res if increasing else res[:, ::-1]


def frexp(x, name=None):
    size = paddle.abs(x)
    exponent = paddle.floor(paddle.log2(size))
    exponent = paddle.where(paddle.isinf(exponent), paddle.full_like(exponent, 0), exponent)
    mantissa = paddle.divide(size, 2**exponent)
    exponent = paddle.where(mantissa >= 1, paddle.add(exponent, paddle.ones_like(exponent)),
                            exponent)  # fmt: skip
    mantissa = paddle.where(mantissa >= 1, paddle.divide(mantissa, 2 ** paddle.ones_like(exponent)),
                            mantissa)  # fmt: skip
    mantissa = paddle.where(x < 0, mantissa * -1, mantissa)
    return mantissa, exponent


def cov(x, rowvar=True, ddof=True, fweights=None, aweights=None, name=None):
    nx = x.reshape((1, -1)) if len(x.shape) == 1 else x
    if not rowvar and nx.shape[0] != 1:
        nx = nx.t()
    weights = None
    if fweights is not None:
        weights = fweights.astype(nx.dtype)
    if aweights is not None:
        more = aweights.astype(nx.dtype)
        weights = more if weights is None else weights * more
    total = paddle.to_tensor(nx.shape[1], dtype=nx.dtype)
    weighted = nx
    if weights is not None:
        total = weights.sum()
        weighted = nx * weights
    average = weighted.sum(axis=1) / total
    factor = paddle.clip(total - 1, min=0)
    nx = nx - average.unsqueeze(1)
    product = paddle.mm(nx, weighted.t().conj())
    return paddle.divide(product, factor).squeeze()


def corrcoef(x, rowvar=True, name=None):
    c = cov(x, rowvar)
    if c.ndim == 0:
        return c / c
    deviation = paddle.sqrt(paddle.diag(c))
    c = c / deviation[:, None]
    c = c / deviation[None, :]
    c = paddle.clip(c, -1, 1)
    return c


def _quantile(x, q, axis, keepdim, interpolation, ignore_nan):
    several = isinstance(q, (list, tuple))
    rank = len(x.shape)
    out_shape = list(x.shape)
    if axis is None:
        x = paddle.flatten(x)
        axis, out_shape = 0, [1] * rank
    elif isinstance(axis, (list, tuple)):
        axes = [one % rank for one in axis]
        for one in axes:
            out_shape[one] = 1
        x = paddle.moveaxis(x, axes, list(range(-len(axes), 0)))
        x = paddle.flatten(x, -len(axes), -1)
        axis = len(x.shape) - 1
    else:
        axis = axis % rank
        out_shape[axis] = 1
    mask = x.isnan()
    counts = mask.logical_not().sum(axis=axis, keepdim=True)
    indices = []
    for one in q if several else [q]:
        one = paddle.to_tensor(0.5 if isinstance(one, paddle.Tensor) else one, dtype=x.dtype)
        if ignore_nan:
            indices.append(one * (counts - 1))
        else:
            index = one * (counts - 1)
            last = paddle.full_like(index, x.shape[axis] - 1)
            indices.append(paddle.where(mask.any(axis=axis, keepdim=True), last, index))
    ordered = paddle.sort(x, axis)
    outputs = []
    for index in indices:
        ret = _picked(ordered, index, axis, interpolation, x.dtype)
        outputs.append(ret.reshape(out_shape) if keepdim else paddle.squeeze(ret, axis=axis))
    return paddle.stack(outputs, 0) if len(outputs) > 1 else outputs[0]


def _picked(ordered, index, axis, interpolation, dtype):
    if interpolation == "nearest":
        return paddle.take_along_axis(ordered, paddle.round(index).astype("int32"), axis=axis)
    below = paddle.floor(index).astype("int32")
    if interpolation != "higher":
        low = paddle.take_along_axis(ordered, below, axis=axis)
    if interpolation == "lower":
        return low
    above = paddle.ceil(index).astype("int32")
    high = paddle.take_along_axis(ordered, above, axis=axis)
    if interpolation == "higher":
        return high
    if interpolation == "midpoint":
        return (high.astype(dtype) + low.astype(dtype)) / 2
    weights = (index - below.astype(index.dtype)).astype(dtype)
    return paddle.lerp(low.astype(dtype), high.astype(dtype), weights)


def quantile(x, q, axis=None, keepdim=False, interpolation="linear", name=None):
    return _quantile(x, q, axis, keepdim, interpolation, False)


def nanquantile(x, q, axis=None, keepdim=False, interpolation="linear", name=None):
    return _quantile(x, q, axis, keepdim, interpolation, True)


def log_normal(mean=1.0, std=2.0, shape=None, name=None):
    drawn = paddle.normal(mean=mean, std=std, shape=shape)
    return paddle.exp(drawn)


def reduce_as(x, target, name=None):
    extra = len(x.shape) - len(target.shape)
    axes = list(range(extra))
    axes += [extra + place for place, one in enumerate(target.shape)
             if one == 1 and x.shape[extra + place] != 1]  # fmt: skip
    return paddle.sum(x, axis=axes).reshape(target.shape) if axes else x
