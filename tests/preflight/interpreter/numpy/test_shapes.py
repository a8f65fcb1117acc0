"""Shapes and types of what NumPy functions make, held against the installed NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from gpuconsole.preflight.interpreter.domain.values import Unknown
from gpuconsole.preflight.interpreter.numpy.array import Array
from tests.preflight.modelled import modelled

np: Any = pytest.importorskip("numpy", "2.0")

GIVEN = """
def set_shape(x, shape):
    x.shape = shape
    return x
def resized(x, shape):
    x.resize(shape, refcheck=False)
    return x

import numpy as np
a = np.zeros((4, 6), "float32")
b = np.ones((4, 6))
c = np.arange(12)
v = np.linspace(0, 1, 5)
i8 = np.ones((4, 6), "int64")
u8 = np.zeros((8, 9, 3), "uint8")
m = a > 0
t3 = np.zeros((2, 3, 4), "float32")
L = [[1, 2, 3], [4, 5, 6]]
sq = np.zeros((5, 5))
x = 3
idx = np.array([2, 0, 1])
"""
EXPRESSIONS = """
np.delete(c, 0)
np.delete(a, 1, axis=0)
np.argpartition(b, -2)
np.argpartition(c, -3)[-3:]
np.argsort(a)
np.argsort(a, axis=0)
np.argsort(a, axis=None)
np.argsort(-c)[::-1]
np.cumsum(a)
np.cumsum(a, axis=1)
np.cumsum(c)
np.diff(c)
np.kron(np.eye(2), np.ones((2, 3)))
np.einsum("ij,jk->ik", a, a.T)
np.einsum("bij->b", t3)
np.dot(a, a.T)
a @ b.T
np.linalg.norm(a)
np.linalg.norm(a, axis=1)
np.linalg.norm(a, axis=1, keepdims=True)
np.linalg.cholesky(np.eye(5))
np.fft.fft(v)
np.fft.rfft(v)
np.fft.ifft(v)
np.fft.irfft(np.fft.rfft(c))
np.fft.fftfreq(8)
np.fft.fftshift(v)
np.pad(a, 1)
np.pad(a, ((1, 2), (0, 3)))
np.pad(a, ((1, 2), (0, 3)), "constant", constant_values=0)
np.pad(u8, ((0, 2), (0, 2), (0, 0)), mode="edge")
np.pad(c, (0, 20 - len(c)))
np.pad(c, 2, mode="reflect")
np.tile(a, 2)
np.tile(a, (2, 1))
np.tile(c, (3, 1))
np.repeat(a, 2, axis=0)
np.repeat(a, 2)
np.repeat(c[:, None], 3, axis=1)
np.repeat(3, 5)
np.concatenate([a, b])
np.concatenate([a, b], axis=-1)
np.concatenate((c, v))
np.stack([a, a])
np.stack([a, b], axis=-1)
np.vstack([a, b])
np.hstack([a, b])
np.hstack([c, c])
np.dstack([a, b])
np.column_stack([c, c])
np.r_[c, c]
np.c_[c, c]
np.append(c, 4)
np.append(a, b, axis=0)
np.split(a, 2)
np.split(a, 3, axis=1)
np.array_split(c, 5)
np.hsplit(a, 2)
np.vsplit(a, 2)
np.expand_dims(a, 0)
np.expand_dims(a, axis=-1)
np.expand_dims(a, axis=(0, 1))
np.squeeze(a[None])
np.broadcast_to(c, (3, 12))
np.swapaxes(t3, 0, 1)
np.moveaxis(t3, 0, -1)
np.transpose(t3, (2, 0, 1))
np.roll(a, 1, axis=0)
np.flip(a, 1)
np.fliplr(a)
np.flipud(a)
np.meshgrid(v, c)
np.meshgrid(v, c, indexing="ij")
np.meshgrid(np.arange(3), np.arange(4))
np.mgrid[0:3, 0:4]
np.triu(sq)
np.tril(np.ones((5, 5)), k=-1)
np.diag(v)
np.diagonal(sq)
np.diagonal(sq, -2)
np.fill_diagonal(sq, 1)
np.eye(4)
np.eye(4)[[0, 1, 2]]
np.eye(4, dtype="float32")[np.array([1, 2])]
np.identity(3)
np.full((2, 3), 7)
np.full((2, 3), 0.5)
np.full((2, 3), -1, dtype=np.int64)
np.full_like(a, 3)
np.zeros_like(u8)
np.ones_like(a, dtype="int64")
np.empty((3, 2), dtype=np.float32)
np.arange(0, 1, 0.25)
np.arange(3.0)
np.arange(5, dtype=np.float32)
np.linspace(0, 1, 7, dtype="float32")
np.logspace(0, 2, 5)
np.where(a > 0, a, 0)
np.where(a > 0, 1, 0)
np.where(a > 0, 1.0, 0.0)
np.where(m, a, b)
np.clip(a, 0, 1)
np.clip(u8, 0, 255)
np.clip(b, 0, 255).astype(np.uint8)
np.maximum(a, 0)
np.minimum(a, b)
np.abs(a)
np.exp(a)
np.log(b)
np.sqrt(i8)
np.power(a, 2)
np.mean(a)
np.mean(a, axis=0)
np.mean(u8, axis=(0, 1))
np.std(a, axis=1, keepdims=True)
np.var(b)
np.median(a)
np.percentile(a, 50)
np.percentile(a, [25, 75])
np.quantile(a, 0.5, axis=0)
np.sum(m)
np.sum(a, axis=-1)
np.max(a)
np.amax(a, axis=0)
np.ptp(a)
np.argmax(a)
np.argmax(a, axis=1)
np.argmin(a, axis=0)
np.any(m)
np.all(m, axis=0)
np.count_nonzero(m)
np.isnan(a)
np.isin(c, [1, 2])
np.dtype("float32").itemsize
np.iinfo(np.int32).max
np.random.rand(3, 4)
np.random.randn(2)
np.random.randint(0, 5, size=(3, 4))
np.random.randint(0, 5, (3,), dtype=np.int32)
np.random.uniform(-1, 1, (2, 3)).astype("float32")
np.random.normal(0, 1, size=4)
np.random.permutation(10)
np.random.choice(10, 4, replace=False)
np.random.choice(c, size=(2, 2))
np.random.default_rng(0).standard_normal((3, 4))
np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)
np.random.default_rng(0).integers(0, 9, (2,))
np.random.default_rng(0).random((2, 2), dtype=np.float32)
np.random.RandomState(1).rand(3)
np.take(a, [0, 1], axis=0)
np.put_along_axis(a, np.zeros((4, 1), "int64"), 1, axis=1)
np.array([1, 2, 3]).max()
np.array(L)
np.array(L, dtype=np.float32)
np.array([a, a])
np.asarray(3.5)
np.ascontiguousarray(a.T)
np.outer(v, v)
np.square(a)
np.sign(a)
np.unique([1, 2, 2])
np.setdiff1d(np.arange(5), [1, 2])
np.floor_divide(c, 2)
np.mod(c, 2)
np.logical_and(m, m)
np.array([[1.0, 2.0]]).shape
np.ndim(a)
np.shape(a)
np.size(a)
np.float32(1.5)
np.int64(3)
int(np.ceil(7 / 2))
np.hanning(8)
np.hamming(8)
np.sinc(v)
np.average(a, axis=0)
np.float32(3) * a
a * 2.0
a / 2
i8 / 2
i8 * 1.5
u8 / 255.0
u8.astype("float32") / 255.0
(u8 - 127.5) / 127.5
a + b
a[:, 1:3]
a[..., None]
a[None]
a[0]
a[idx]
a[idx, idx]
a[:, ::2]
a[::-1]
u8[:, :, ::-1]
u8.transpose(2, 0, 1)
t3.reshape(-1, 4)
t3.reshape((2, -1))
t3.flatten()
t3.ravel()
t3.mean(axis=(1, 2))
t3.sum()
t3.max(axis=-1, keepdims=True)
t3.swapaxes(0, 2)
a.T
a.dot(b.T)
a.astype(np.int32)
c.tolist()
a.nbytes
a.itemsize
a.dtype == np.float32
str(a.dtype)
a.dtype.name
len(a)
a.min(0)
a.std()
a.round(2)
a.clip(0, 1)
a.argmax(1)
a.cumsum(axis=0)
a.repeat(2, 0)
a.squeeze()
a.copy()
a.all()
a.any(axis=1)
a.argsort(axis=1)
a.take([0, 1], axis=1)
a.diagonal()
a.diagonal(-1)
a.trace()
a.conj()
a.fill(0)
a.view()
c.argpartition(3)
c.prod()
c.var()
a.flat[0] * 0
a.real
-a
abs(a)
a ** 2
a > 0
(a > 0) & (b > 0)
~m
a == b
a % 2
a // 2
2 ** c
1 / a
1 - m
m * 1
m.astype("float32")
m.sum(axis=1)
list(np.arange(3))
a * np.sqrt(2.0)
a * (np.sqrt(2.0) * 3)
a / np.ceil(7 / 2)
a * 2.5
u8 * np.sqrt(3)
np.ogrid[0:3, 0:4]
np.mgrid[0:1:0.25, 0:4]
np.add.reduce(np.zeros((2, 3)))
np.maximum.reduce([np.zeros(2), np.ones(2)])
np.add.reduce(np.zeros((2, 3)), axis=1, keepdims=True)
np.multiply.outer(np.zeros(2), np.zeros((3, 4)))
np.add.accumulate(np.zeros((2, 3)))
np.exp2(np.zeros(2))
np.bitwise_xor(np.arange(3), 1)
np.heaviside(np.zeros(2), 1)
np.angle(np.zeros(2))
set_shape(np.zeros(6), (2, -1)).T
resized(np.zeros((2, 3)), (3, 4))
""".strip().splitlines()


def seen(value: Any) -> Any:
    """Return what a real value and a modelled one have in common."""
    if isinstance(value, Array):
        return tuple(int(one) for one in value.shape), value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return tuple(value.shape), str(value.dtype)
    if isinstance(value, (tuple, list)):
        return [seen(one) for one in value]
    return f"unknown: {value.reason}" if isinstance(value, Unknown) else value


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the analysis makes of all expressions."""
    lines = [f"r{place} = {one}" for place, one in enumerate(EXPRESSIONS)]
    return modelled(tmp_path_factory.mktemp("numpy") / "all.py", GIVEN + "\n".join(lines))


@pytest.mark.parametrize(
    ("place", "expression"), list(enumerate(EXPRESSIONS)), ids=lambda one: str(one)
)
def test_shape_and_type(model: dict[str, Any], place: int, expression: str) -> None:
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(GIVEN, names)
        real = eval(expression, names)
    assert seen(model[f"r{place}"]) == seen(real)
