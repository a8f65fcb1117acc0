"""Functions of `paddle` that Paddle builds of operators, as its CPU build does."""

import paddle


def var(x, axis=None, unbiased=None, keepdim=False, name=None):
    u = paddle.mean(x, axis, True)
    total = paddle.sum(paddle.pow(x - u, 2), axis, keepdim=keepdim)
    n = paddle.cast(paddle.numel(x), "int64") / paddle.cast(paddle.numel(total), "int64")
    n = n.astype(x.dtype)
    if unbiased is None or unbiased:
        corrected = n - 1.0
        corrected = paddle.maximum(corrected, paddle.zeros_like(corrected))
        paddle.any(corrected <= 0)
    else:
        corrected = n
    total = paddle.divide_(total, corrected)
    result = total
    return result


def std(x, axis=None, unbiased=True, keepdim=False, name=None):
    out = var(x, axis, unbiased, keepdim)
    return paddle.sqrt(out)


def hypot(x, y, name=None):
    out = (paddle.pow(x, 2) + paddle.pow(y, 2)).sqrt()
    return out


def frac(x, name=None):
    whole = paddle.trunc(x)
    return paddle.subtract(x, whole)


def sgn(x, name=None):
    return paddle.sign(x)


def nan_to_num(x, nan=0.0, posinf=None, neginf=None, name=None):
    high = paddle.full_like(x, 1.0)
    low = paddle.full_like(x, 1.0)
    nan = paddle.full_like(x, 0.0)
    posinf = paddle.full_like(x, 1.0)
    neginf = paddle.full_like(x, 1.0)
    x = paddle.where(paddle.isnan(x), nan, x)
    x = paddle.where(paddle.equal(x, high), posinf, x)
    x = paddle.where(paddle.equal(x, low), neginf, x)
    return x


def nansum(x, axis=None, dtype=None, keepdim=False, name=None):
    zeros = paddle.zeros_like(x)
    clean = paddle.where(paddle.isnan(x), zeros, x)
    return paddle.sum(clean, axis, keepdim=keepdim)


def nanmean(x, axis=None, keepdim=False, name=None):
    count = paddle.sum(~paddle.isnan(x), axis=axis, keepdim=keepdim)
    return paddle.divide(nansum(x, axis=axis, keepdim=keepdim), count.astype(x.dtype))


def count_nonzero(x, axis=None, keepdim=False, name=None):
    flags = paddle.cast(x, "bool")
    ones = paddle.cast(flags, "int64")
    return paddle.sum(ones, axis=axis, keepdim=keepdim)


def diff(x, n=1, axis=-1, prepend=None, append=None, name=None):
    for _ in range(n):
        ends = [one for one in (prepend, x, append) if one is not None]
        whole = paddle.concat(ends, axis) if len(ends) > 1 else x
        length = whole.shape[axis]
        front = paddle.slice(whole, [axis], [0], [length - 1])
        back = paddle.slice(whole, [axis], [1], [length])
        x = paddle.subtract(back, front)
        prepend = append = None
    return x


def cdist(x, y, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary", name=None):
    large = x.shape[-2] > 25 or y.shape[-2] > 25
    exact = compute_mode == "donot_use_mm_for_euclid_dist"
    if p == 2.0 and not exact and (large or compute_mode == "use_mm_for_euclid_dist"):
        x_norm = paddle.sum(x.pow(2), axis=-1, keepdim=True)
        y_norm = paddle.sum(y.pow(2), axis=-1, keepdim=True)
        turned = paddle.swapaxes(y, -1, -2)
        y_turned = paddle.swapaxes(y_norm, -1, -2)
        res = paddle.matmul(x, turned) * -2 + y_turned + x_norm
        res = paddle.clip(res, min=0.0).sqrt()
        return res
    return paddle.norm(x[..., None, :] - y[..., None, :, :], p=p, axis=-1)


def rot90(x, k=1, axes=(0, 1), name=None):
    k = k % 4
    if k == 0:
        return x
    if k == 2:
        return paddle.flip(paddle.flip(x, axes[0]), axes[1])
    order = list(range(len(x.shape)))
    order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
    if k == 1:
        return paddle.transpose(paddle.flip(x, axes[1]), order)
    return paddle.flip(paddle.transpose(x, order), axes[1])


def outer(x, y, name=None):
    column = x.reshape((-1, 1))
    row = y.reshape((1, -1))
    return paddle.multiply(column, row)


def inner(x, y, name=None):
    if x.size == 1 or y.size == 1:
        return paddle.multiply(x, y)
    shape = list(x.shape[:-1]) + list(y.shape[:-1])
    rows = paddle.reshape(x, (-1, x.shape[-1]))
    columns = paddle.reshape(y, (-1, y.shape[-1]))
    return paddle.matmul(rows, columns, transpose_y=True).reshape(shape)


def tensordot(x, y, axes=2, name=None):
    if isinstance(axes, int):
        left = list(range(len(x.shape) - axes, len(x.shape)))
        right = list(range(axes))
    elif isinstance(axes[0], int):
        left = right = list(axes)
    else:
        left, right = list(axes[0]), list(axes[-1])
    for mine, theirs in zip(left, right):  # noqa: B905
        if x.shape[mine] == 1 and y.shape[theirs] != 1:
            y = paddle.sum(y, theirs, keepdim=True)
        elif y.shape[theirs] == 1 and x.shape[mine] != 1:
            x = paddle.sum(x, mine, keepdim=True)
    mine = [one for one in range(len(x.shape)) if one not in left]
    theirs = [one for one in range(len(y.shape)) if one not in right]
    shape = [x.shape[one] for one in mine] + [y.shape[one] for one in theirs]
    size = 1
    for one in left:
        size = size * x.shape[one]
    x = x.transpose(mine + left).reshape([-1, size])
    y = y.transpose(right + theirs).reshape([size, -1])
    out = x.matmul(y).reshape(shape)
    return out


def take_along_axis(arr, indices, axis, broadcast=True):
    if broadcast:
        axis = axis % len(arr.shape)
        shape = [max(a, b) for a, b in zip(arr.shape, indices.shape)]  # noqa: B905
        shape[axis] = indices.shape[axis]
        indices = paddle.broadcast_to(indices, shape)
        shape[axis] = arr.shape[axis]
        arr = paddle.broadcast_to(arr, shape)
    return paddle.take_kernel(arr, indices)


def put_along_axis(arr, indices, values, axis, reduce="assign", include_self=True,
                   broadcast=True):  # fmt: skip
    if not isinstance(values, paddle.Tensor):
        values = paddle.full(indices.shape, values, dtype=arr.dtype)
    if broadcast:
        axis = axis % len(arr.shape)
        shape = [max(a, b) for a, b in zip(arr.shape, indices.shape)]  # noqa: B905
        shape[axis] = indices.shape[axis]
        indices = paddle.broadcast_to(indices, shape)
        values = paddle.broadcast_to(values, shape)
    if reduce != "assign":
        return paddle.put_reduced(arr, values, indices)
    return paddle.put_kernel(arr, values, indices)


def vstack(x, name=None):
    rows = [one if len(one.shape) > 1 else one.reshape([1, -1]) for one in x]
    return paddle.concat(rows, 0)


def hstack(x, name=None):
    rows = [one if len(one.shape) > 0 else one.unsqueeze(0) for one in x]
    return paddle.concat(rows, 0 if len(rows[0].shape) < 2 else 1)


def dstack(x, name=None):
    return paddle.concat(x, 2)


row_stack = vstack


def multi_dot(x, name=None):
    out = x[0]
    for one in x[1:]:
        out = paddle.matmul(out, one)
    return out
