"""Functions of `paddle` that pick, place, join and cut by way of other functions."""

import paddle


def hsplit(x, num_or_indices, name=None):
    return paddle.tensor_split(x, num_or_indices, axis=1 if len(x.shape) > 1 else 0)


def vsplit(x, num_or_indices, name=None):
    return paddle.tensor_split(x, num_or_indices, axis=0)


def dsplit(x, num_or_indices, name=None):
    return paddle.tensor_split(x, num_or_indices, axis=2)


def column_stack(x, name=None):
    columns = [one if len(one.shape) > 1 else one.reshape([-1, 1]) for one in x]
    return paddle.concat(columns, axis=1)


def block_diag(inputs, name=None):
    parts = [one if len(one.shape) == 2 else paddle.reshape(one, [1, -1]) for one in inputs]
    columns = []
    for place, one in enumerate(parts):
        blocks = [
            one if row == place else paddle.zeros([other.shape[0], one.shape[1]], dtype=one.dtype)
            for row, other in enumerate(parts)
        ]
        columns.append(paddle.concat(blocks, axis=0))
    return paddle.concat(columns, axis=1)


def diagflat(x, offset=0, name=None):
    return paddle.diag(x if len(x.shape) <= 1 else paddle.flatten(x), offset)


def cartesian_prod(x, name=None):
    if len(x) == 1:
        return x[0]
    points = paddle.stack(paddle.meshgrid(x), axis=-1)
    return paddle.reshape(points, [-1, len(x)])


def narrow(input, dim, start, length):
    return paddle.slice(input, [dim], [start], [start + length])


def take(x, index, mode="raise", name=None):
    flat = x.flatten()
    places = index.flatten()
    places = paddle.where(places < 0, places + flat.shape[-1], places)
    return flat.index_select(places).reshape(index.shape)


def take_along_dim(input, indices, dim=None):
    if dim is None:
        return paddle.take_along_axis(input.flatten(), indices.flatten(), 0)
    return paddle.take_along_axis(input, indices, dim)


def masked_scatter(x, mask, value, name=None):
    zeros = paddle.zeros_like(x, dtype="int64")
    mask = paddle.add(paddle.cast(mask, dtype="int64"), zeros)
    prefix = paddle.clip(mask.cumsum() - 1, min=0)
    value = value.flatten()[prefix].reshape(mask.shape)
    mask = paddle.logical_not(mask.astype("bool"))
    return paddle.where(mask, x, value)


def scatter_add(input, dim, index, src):
    return paddle.put_along_axis(input, index, src, dim, "add", True, False)


def scatter_reduce(input, dim, index, src, reduce, include_self=True):
    return paddle.put_along_axis(input, index, src, dim, reduce, include_self, False)


def slice_scatter(x, value, axes, starts, ends, strides, name=None):
    out = paddle.assign(x)
    keys = [slice(None)] * len(x.shape)
    for axis, low, high, step in zip(axes, starts, ends, strides):  # noqa: B905
        keys[axis] = slice(low, high, step)
    out[tuple(keys)] = value
    return out


def select_scatter(x, values, axis, index, name=None):
    out = paddle.assign(x)
    keys = [slice(None)] * len(x.shape)
    keys[axis] = index
    out[tuple(keys)] = values
    return out


def msort(input):
    return paddle.sort(input, axis=0)


def matrix_transpose(x, name=None):
    return x.mT


def isin(x, test_x, assume_unique=False, invert=False, name=None):
    if test_x.size < 10.0 * x.size**0.145:
        spread = x.reshape(list(x.shape) + [1] * test_x.ndim)
        found = spread == test_x
        found = found.any(axis=list(range(-test_x.ndim, 0)))
        return ~found if invert else found
    flat = x.flatten()
    known = paddle.sort(test_x.flatten())
    places = paddle.searchsorted(known, flat)
    places = paddle.where(places < known.numel(), places, paddle.zeros_like(places, "int64"))
    found = known[places] == flat
    found = found.logical_not() if invert else found
    return found.reshape(x.shape)
