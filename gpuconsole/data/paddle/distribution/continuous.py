"""Further distributions, as the operators of Paddle's own follow one another."""

import math

import paddle
from paddle.distribution import Distribution, Normal, Uniform


def _whole(value):
    """Return a parameter as a tensor; a plain number has no dimensions."""
    if isinstance(value, paddle.Tensor):
        return value
    return paddle.full([], value)


def _alike(*values):
    made = [_whole(one) for one in values]
    if len(made) == 1 or all(len(one.shape) == 0 for one in made):
        return made
    return paddle.broadcast_tensors(made)


class Exponential(Distribution):
    def __init__(self, rate):
        self.rate = _whole(rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self):
        return self.rate.reciprocal()

    @property
    def variance(self):
        return self.rate.pow(-2)

    def sample(self, shape=()):
        with paddle.no_grad():
            return self.rsample(shape)

    def rsample(self, shape=()):
        uniform = paddle.uniform(self.extended(shape))
        return -paddle.log(uniform) / self.rate

    def prob(self, value):
        return self.rate * paddle.exp(-self.rate * value)

    def log_prob(self, value):
        return paddle.log(self.rate) - self.rate * value

    def entropy(self):
        return 1.0 - paddle.log(self.rate)

    def cdf(self, value):
        return 1.0 - paddle.exp(-self.rate * value)

    def kl_divergence(self, other):
        ratio = other.rate / self.rate
        first = -paddle.log(ratio)
        return first + ratio - 1


class Laplace(Distribution):
    def __init__(self, loc, scale):
        self.loc, self.scale = _alike(loc, scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self):
        return self.loc

    @property
    def stddev(self):
        return 1.41421 * self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    def sample(self, shape=()):
        with paddle.no_grad():
            return self.rsample(shape)

    def rsample(self, shape=()):
        uniform = paddle.uniform(self.extended(shape))
        return self.loc - self.scale * uniform.sign() * paddle.log1p(-uniform.abs())

    def log_prob(self, value):
        loc, scale, value = paddle.broadcast_tensors([self.loc, self.scale, _whole(value)])
        log_scale = -paddle.log(2 * scale)
        return log_scale - paddle.abs(value - loc) / scale

    def entropy(self):
        return 1 + paddle.log(2 * self.scale)

    def kl_divergence(self, other):
        ratio = other.scale / self.scale
        t = paddle.abs(self.loc - other.loc)
        first = (self.scale * paddle.exp(-t / self.scale) + t) / other.scale
        second = paddle.log(ratio)
        return first + second - 1


class Gamma(Distribution):
    def __init__(self, concentration, rate):
        self.concentration, self.rate = _whole(concentration), _whole(rate)
        super().__init__(self.concentration.shape)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def variance(self):
        return self.concentration / self.rate.pow(2)

    def sample(self, shape=()):
        with paddle.no_grad():
            return self.rsample(shape)

    def rsample(self, shape=()):
        shape = self.extended(shape)
        return paddle.standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value):
        return (
            self.concentration * paddle.log(self.rate)
            + (self.concentration - 1) * paddle.log(value)
            - self.rate * value
            - paddle.lgamma(self.concentration)
        )

    def entropy(self):
        return (
            self.concentration
            - paddle.log(self.rate)
            + paddle.lgamma(self.concentration)
            + (1.0 - self.concentration) * paddle.digamma(self.concentration)
        )

    def kl_divergence(self, other):
        t1 = other.concentration * paddle.log(self.rate / other.rate)
        t2 = paddle.lgamma(other.concentration) - paddle.lgamma(self.concentration)
        t3 = (self.concentration - other.concentration) * paddle.digamma(self.concentration)
        t4 = (other.rate - self.rate) * (self.concentration / self.rate)
        return t1 + t2 + t3 + t4


class Dirichlet(Distribution):
    def __init__(self, concentration):
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:])

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self):
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def sample(self, shape=()):
        whole = self.concentration.expand(self.extended(shape))
        with paddle.no_grad():
            drawn = paddle.standard_gamma(whole)
            return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value):
        return (
            (paddle.log(value) * (self.concentration - 1.0)).sum(-1)
            + paddle.lgamma(self.concentration.sum(-1))
            - paddle.lgamma(self.concentration).sum(-1)
        )

    def entropy(self):
        total = self.concentration.sum(-1)
        k = self.concentration.shape[-1]
        return (
            paddle.lgamma(self.concentration).sum(-1)
            - paddle.lgamma(total)
            - (k - total) * paddle.digamma(total)
            - ((self.concentration - 1.0) * paddle.digamma(self.concentration)).sum(-1)
        )

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - paddle.lgamma(x.sum(-1))

    def kl_divergence(self, other):
        return (
            paddle.lgamma(self.concentration.sum(-1))
            - paddle.lgamma(other.concentration.sum(-1))
            - (paddle.lgamma(self.concentration) - paddle.lgamma(other.concentration)).sum(-1)
            + (
                (self.concentration - other.concentration)
                * (
                    paddle.digamma(self.concentration)
                    - paddle.digamma(self.concentration.sum(-1)).unsqueeze(-1)
                )
            ).sum(-1)
        )


class Beta(Distribution):
    def __init__(self, alpha, beta):
        self.alpha, self.beta = _alike(alpha, beta)
        self._dirichlet = Dirichlet(paddle.stack([self.alpha, self.beta], -1))
        super().__init__(self.alpha.shape)

    @property
    def mean(self):
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self):
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total.pow(2) * (total + 1))

    def sample(self, shape=()):
        return paddle.squeeze(self._dirichlet.sample(shape)[..., 0], -1)

    def log_prob(self, value):
        return self._dirichlet.log_prob(paddle.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    def kl_divergence(self, other):
        return (
            (other.alpha.lgamma() + other.beta.lgamma() + (self.alpha + self.beta).lgamma())
            - (self.alpha.lgamma() + self.beta.lgamma() + (other.alpha + other.beta).lgamma())
            + (self.alpha - other.alpha) * self.alpha.digamma()
            + (self.beta - other.beta) * self.beta.digamma()
            + ((other.alpha + other.beta) - (self.alpha + self.beta))
            * (self.alpha + self.beta).digamma()
        )


class LogNormal(Distribution):
    def __init__(self, loc, scale):
        self._base = Normal(loc, scale)
        self.loc, self.scale = self._base.loc, self._base.scale
        super().__init__(self.loc.shape)

    @property
    def mean(self):
        return paddle.exp(self._base.mean + self._base.variance / 2)

    @property
    def variance(self):
        spread = paddle.expm1(self._base.variance)
        return spread * paddle.exp(2 * self._base.mean + self._base.variance)

    def sample(self, shape=()):
        return paddle.exp(self._base.sample(shape))

    def rsample(self, shape=()):
        return paddle.exp(self._base.rsample(shape))

    def log_prob(self, value):
        inner = paddle.log(value)
        total = 0.0 - inner
        total = total + self._base.log_prob(inner)
        return total

    def entropy(self):
        return self._base.entropy() + self._base.mean

    def kl_divergence(self, other):
        return self._base.kl_divergence(other._base)


class Gumbel(Distribution):
    def __init__(self, loc, scale):
        self.loc, self.scale = _alike(loc, scale)
        self.base_dist = Uniform(paddle.full_like(self.loc, 0.1), paddle.full_like(self.loc, 0.9))
        super().__init__(self.loc.shape)

    @property
    def mean(self):
        return self.loc + self.scale * 0.5772

    @property
    def variance(self):
        factor = paddle.full(self.loc.shape, math.pi * math.pi)
        return paddle.pow(self.scale, 2) * factor / 6

    @property
    def stddev(self):
        return paddle.sqrt(self.variance)

    def sample(self, shape=()):
        with paddle.no_grad():
            return self.rsample(shape)

    def rsample(self, shape=()):
        nothing, minus = paddle.full_like(self.scale, 0.0), -paddle.ones_like(self.scale)
        turned = -self.scale
        drawn = paddle.log(self.base_dist.sample(shape))
        drawn = nothing + minus * drawn
        return self.loc + turned * paddle.log(drawn)

    def prob(self, value):
        y = (self.loc - value) / self.scale
        return paddle.exp(y - paddle.exp(y)) / self.scale

    def log_prob(self, value):
        return paddle.log(self.prob(value))

    def entropy(self):
        return paddle.log(self.scale) + 1 + 0.5772


class MultivariateNormal(Distribution):
    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None):
        if scale_tril is not None:
            factor = scale_tril
        elif covariance_matrix is not None:
            factor = paddle.linalg.cholesky(covariance_matrix)
        else:
            factor = paddle.linalg.cholesky(paddle.linalg.inv(precision_matrix))
        batch = paddle.broadcast_shape(factor.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand([*batch, -1])
        self._unbroadcasted_scale_tril = factor
        self.scale_tril = factor.expand([*batch, factor.shape[-2], factor.shape[-1]])
        super().__init__(batch, self.loc.shape[-1:])

    @property
    def mean(self):
        return self.loc

    @property
    def variance(self):
        squares = paddle.square(self._unbroadcasted_scale_tril).sum(-1)
        return squares.expand(self.extended([]))

    def sample(self, shape=()):
        with paddle.no_grad():
            return self.rsample(shape)

    def rsample(self, shape=()):
        noise = paddle.randn(self.extended(shape))
        spread = paddle.matmul(self._unbroadcasted_scale_tril, noise.unsqueeze(-1))
        return self.loc + spread.squeeze(-1)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(axis1=-2, axis2=-1).log().sum(-1)

    def log_prob(self, value):
        gap = value - self.loc
        solved = paddle.linalg.triangular_solve(
            self._unbroadcasted_scale_tril, gap.unsqueeze(-1), upper=False
        )
        distance = solved.squeeze(-1).pow(2).sum(-1)
        return -0.5 * (self._event_shape[0] * 1.8379 + distance) - self._half_log_det()

    def entropy(self):
        entropy = 0.5 * self._event_shape[0] * 2.8379 + self._half_log_det()
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
