"""Distributions, as the operators of Paddle's own follow one another."""

import math

import paddle
from paddle.nn import functional as F  # noqa: N812


def _tensors(*values):
    """Return the parameters as tensors of one shape, where they are plain numbers or lists."""
    if isinstance(values[0], paddle.Tensor):
        return list(values)
    made = [paddle.to_tensor(one, dtype="float32") for one in values]
    if len(made) > 1:
        shape = (made[0] + made[1]).shape
        made = [one if one.shape == shape else paddle.expand(one, shape) for one in made]
    return made


class Distribution:
    def __init__(self, batch_shape=(), event_shape=()):
        self._batch_shape = tuple(batch_shape)
        self._event_shape = tuple(event_shape)

    @property
    def batch_shape(self):
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    def prob(self, value):
        return self.log_prob(value).exp()

    def extended(self, shape):
        return [*shape, *self._batch_shape, *self._event_shape]


class Normal(Distribution):
    def __init__(self, loc, scale, name=None):
        self.plain = isinstance(loc, (int, float)) and isinstance(scale, (int, float))
        self.loc, self.scale = _tensors(loc, scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self):
        return self.loc

    @property
    def variance(self):
        return self.scale.pow(2)

    @property
    def stddev(self):
        return self.scale

    def sample(self, shape=(), seed=0):
        shape = list(shape)
        whole = shape + list((self.loc + self.scale).shape)
        drawn = paddle.randn(whole) * (paddle.zeros(whole) + self.scale)
        drawn = paddle.add(drawn, self.loc)
        return paddle.reshape(drawn, shape) if self.plain else drawn

    def rsample(self, shape=()):
        noise = paddle.randn(self.extended(shape))
        return self.loc + noise * self.scale

    def entropy(self):
        zeros = paddle.zeros(list((self.loc + self.scale).shape))
        return paddle.add(0.5 + zeros, 0.919 + paddle.log(self.scale + zeros))

    def log_prob(self, value):
        var = self.scale * self.scale
        log_scale = paddle.log(self.scale)
        return paddle.subtract(
            -1.0 * ((value - self.loc) * (value - self.loc)) / (2.0 * var), log_scale + 0.919
        )

    def probs(self, value):
        var = self.scale * self.scale
        return paddle.divide(
            paddle.exp(-1.0 * ((value - self.loc) * (value - self.loc)) / (2.0 * var)),
            math.sqrt(2 * math.pi) * self.scale,
        )

    def kl_divergence(self, other):
        ratio = self.scale / other.scale
        ratio = ratio * ratio
        gap = (self.loc - other.loc) / other.scale
        gap = gap * gap
        return paddle.add(0.5 * ratio, 0.5 * (gap - 1.0 - paddle.log(ratio)))


class Uniform(Distribution):
    def __init__(self, low, high, name=None):
        self.plain = isinstance(low, (int, float)) and isinstance(high, (int, float))
        self.low, self.high = _tensors(low, high)
        super().__init__(self.low.shape)

    def sample(self, shape=(), seed=0):
        shape = list(shape)
        whole = shape + list((self.low + self.high).shape)
        drawn = paddle.rand(whole) * (paddle.zeros(whole) + (self.high - self.low))
        drawn = paddle.add(drawn, self.low)
        return paddle.reshape(drawn, shape) if self.plain else drawn

    def log_prob(self, value):
        above, below = self.low < value, value < self.high
        lower, upper = paddle.cast(above, value.dtype), paddle.cast(below, value.dtype)
        return paddle.log(lower * upper) - paddle.log(self.high - self.low)

    def probs(self, value):
        above, below = self.low < value, value < self.high
        lower, upper = paddle.cast(above, value.dtype), paddle.cast(below, value.dtype)
        return lower * upper / (self.high - self.low)

    def entropy(self):
        return paddle.log(self.high - self.low)


class Categorical(Distribution):
    def __init__(self, logits, name=None):
        (self.logits,) = _tensors(logits)
        total = paddle.sum(self.logits, axis=-1, keepdim=True)
        self._prob = self.logits / total
        super().__init__()

    def sample(self, shape=()):
        shape, rows = list(shape), list(self.logits.shape)
        logits, whole = self.logits, shape
        if len(rows) > 1:
            whole = shape + rows[:-1]
            logits = paddle.reshape(self.logits, [math.prod(rows[:-1]), rows[-1]])
        drawn = paddle.multinomial(F.softmax(logits, axis=-1), math.prod(shape), True)
        drawn = drawn.transpose([drawn.ndim - 1, *range(drawn.ndim - 1)])
        return paddle.reshape(drawn, whole)

    def kl_divergence(self, other):
        logits = self.logits - paddle.max(self.logits, axis=-1, keepdim=True)
        others = other.logits - paddle.max(other.logits, axis=-1, keepdim=True)
        mine, theirs = paddle.exp(logits), paddle.exp(others)
        z = paddle.sum(mine, axis=-1, keepdim=True)
        other_z = paddle.sum(theirs, axis=-1, keepdim=True)
        prob = mine / z
        return paddle.sum(
            prob * (logits - paddle.log(z) - others + paddle.log(other_z)), axis=-1, keepdim=True
        )

    def entropy(self):
        logits = self.logits - paddle.max(self.logits, axis=-1, keepdim=True)
        e_logits = paddle.exp(logits)
        z = paddle.sum(e_logits, axis=-1, keepdim=True)
        prob = e_logits / z
        negative = paddle.sum(prob * (logits - paddle.log(z)), axis=-1)
        return paddle.scale(negative, scale=-1.0)

    def probs(self, value):
        rank = len(self._prob.shape)
        if rank == 1:
            return paddle.gather(self._prob, value.reshape([-1])).reshape(value.shape)
        if len(value.shape) == 1:
            value = paddle.reshape(value, [1] * (rank - 1) + [-1])
        return paddle.take_along_axis(self._prob, value, axis=-1)

    def log_prob(self, value):
        return paddle.log(self.probs(value))


class Bernoulli(Distribution):
    def __init__(self, probs, name=None):
        (self.probs,) = _tensors(probs)
        self.probs = paddle.clip(self.probs, min=1e-7, max=1 - 1e-7).astype("float32")
        self.logits = paddle.log(self.probs) - paddle.log1p(-self.probs)
        super().__init__(self.probs.shape)

    @property
    def mean(self):
        return self.probs

    @property
    def variance(self):
        return paddle.multiply(self.probs, 1 - self.probs)

    def sample(self, shape=()):
        with paddle.no_grad():
            return paddle.bernoulli(self.probs.expand(self.extended(shape)))

    def log_prob(self, value):
        logits, value = paddle.broadcast_tensors([self.logits, value])
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Independent(Distribution):
    def __init__(self, base, reinterpreted_batch_rank):
        self._base, self._rank = base, reinterpreted_batch_rank
        shape = base.batch_shape + base.event_shape
        cut = len(base.batch_shape) - reinterpreted_batch_rank
        super().__init__(shape[:cut], shape[cut:])

    @property
    def mean(self):
        return self._base.mean

    @property
    def variance(self):
        return self._base.variance

    def sample(self, shape=()):
        return self._base.sample(shape)

    def log_prob(self, value):
        return self._summed(self._base.log_prob(value))

    def entropy(self):
        return self._summed(self._base.entropy())

    def _summed(self, value):
        return value.sum(list(range(-self._rank, 0)))


def kl_divergence(p, q):
    return p.kl_divergence(q)
