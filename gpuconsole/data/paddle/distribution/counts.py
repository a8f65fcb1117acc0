"""Distributions of whole numbers, as the operators of Paddle's own follow one another."""

import paddle
from paddle.distribution import Categorical, Distribution
from paddle.nn import functional as F  # noqa: N812


class Poisson(Distribution):
    def __init__(self, rate):
        self.rate = rate if isinstance(rate, paddle.Tensor) else paddle.to_tensor([float(rate)])
        super().__init__(self.rate.shape)

    @property
    def mean(self):
        return self.rate

    variance = mean

    def sample(self, shape=()):
        rate = paddle.broadcast_to(self.rate, self.extended(shape))
        with paddle.no_grad():
            return paddle.poisson(rate)

    def log_prob(self, value):
        value = paddle.cast(value, self.rate.dtype)
        return paddle.nan_to_num(
            -self.rate + value * paddle.log(self.rate) - paddle.lgamma(value + 1)
        )


class Geometric(Distribution):
    def __init__(self, probs):
        self.probs = probs if isinstance(probs, paddle.Tensor) else paddle.full([], probs)
        super().__init__(self.probs.shape)

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, shape=()):
        with paddle.no_grad():
            uniform = paddle.uniform(self.extended(shape))
            return paddle.floor(paddle.log(uniform) / paddle.log1p(-self.probs))

    rsample = sample

    def pmf(self, k):
        return paddle.pow(1.0 - self.probs, k) * self.probs

    def log_pmf(self, k):
        return paddle.log(self.pmf(k))

    def entropy(self):
        x = (1.0 - self.probs) * paddle.log(1.0 - self.probs)
        y = self.probs * paddle.log(self.probs)
        return -(x + y) / self.probs


class Multinomial(Distribution):
    def __init__(self, total_count, probs):
        self.probs = probs / probs.sum(-1, keepdim=True)
        self.total_count = total_count
        self._categorical = Categorical(paddle.log(probs))
        super().__init__(probs.shape[:-1], probs.shape[-1:])

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def log_prob(self, value):
        value = paddle.cast(value, self.probs.dtype)
        logits, value = paddle.broadcast_tensors([paddle.log(self.probs), value])
        return (
            paddle.lgamma(value.sum(-1) + 1)
            - paddle.lgamma(value + 1).sum(-1)
            + (value * logits).sum(-1)
        )

    def sample(self, shape=()):
        drawn = self._categorical.sample([self.total_count, *shape])
        return F.one_hot(drawn, self.probs.shape[-1]).cast(self.probs.dtype).sum(0)
