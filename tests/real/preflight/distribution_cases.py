"""Draws, likelihoods, entropies and divergences of `paddle.distribution`."""

from __future__ import annotations

from tests.real.preflight.operator_rig import Case

_D = "from paddle.distribution import *\n"
_NORMAL = "x=f(N,17,64) z=f(N,17,64) v=c(N,17,64)"
_LOGITS = "x=f(N,64) i=i(N,1,<64)"

CASES = [
    Case("normal sample", "Normal(x, z + 0.1).sample()", _NORMAL, "y", _D),
    Case("normal samples", "Normal(x, z + 0.1).sample([3])", _NORMAL, "y", _D),
    Case("normal rsample", "Normal(x, z + 0.1).rsample()", _NORMAL, "y", _D),
    Case("normal log_prob", "Normal(x, z + 0.1).log_prob(v)", _NORMAL, "y", _D),
    Case("normal probs", "Normal(x, z + 0.1).probs(v)", _NORMAL, "y", _D),
    Case("normal entropy", "Normal(x, z + 0.1).entropy()", _NORMAL, "y", _D),
    Case("normal one scale", "Normal(x, paddle.exp(w).expand_as(x)).log_prob(v)",
         "x=f(N,64) v=c(N,64) w=l(1,64)", "y", _D),
    Case("normal of numbers", "Normal(0.0, 1.0).sample([N, 64])", "", "", _D),
    Case("normal of lists", "Normal([0.0, 1.0], [1.0, 2.0]).sample([N, 64])", "", "", _D),
    Case("normal divergence", "kl_divergence(Normal(x, z + 0.1), Normal(v, v + 0.1))",
         _NORMAL, "y", _D),
    Case("uniform sample", "Uniform(x, z + 1.0).sample()", _NORMAL, "y", _D),
    Case("uniform log_prob", "Uniform(x, z + 1.0).log_prob(v)", _NORMAL, "y", _D),
    Case("uniform entropy", "Uniform(x, z + 1.0).entropy()", _NORMAL, "y", _D),
    Case("uniform of numbers", "Uniform(0.0, 1.0).sample([N, 64])", "", "", _D),
    Case("categorical sample", "Categorical(x).sample([1])", _LOGITS, "", _D),
    Case("categorical log_prob", "Categorical(x).log_prob(i)", _LOGITS, "y", _D),
    Case("categorical probs", "Categorical(x).probs(i)", _LOGITS, "y", _D),
    Case("categorical entropy", "Categorical(x).entropy()", _LOGITS, "y", _D),
    Case("categorical divergence", "Categorical(x).kl_divergence(Categorical(z))",
         "x=f(N,64) z=f(N,64)", "y", _D),
    Case("bernoulli sample", "Bernoulli(x).sample()", "x=f(N,64)", "", _D),
    Case("bernoulli entropy", "Bernoulli(x).entropy()", "x=f(N,64)", "y", _D),
    Case("independent log_prob", "Independent(Normal(x, z + 0.1), 1).log_prob(v)",
         _NORMAL, "y", _D),
    Case("independent entropy", "Independent(Normal(x, z + 0.1), 1).entropy()", _NORMAL, "y", _D),
    *(Case(f"{kind.lower()} {call}", f"{kind}(x + 0.1, z + 0.1).{call}", _NORMAL,
           "" if call == "sample()" else "y", _D)
      for kind in ("Gamma", "Beta", "LogNormal", "Gumbel")
      for call in ("sample()", "log_prob(v * 0.5 + 0.1)", "entropy()", "mean")
      if (kind, call) not in (("Gumbel", "entropy()"), ("Gumbel", "mean"))),
    Case("laplace sample", "Laplace(x, z + 0.1).sample()", _NORMAL, "", _D),
    Case("exponential sample", "Exponential(x + 0.1).sample()", _NORMAL, "", _D),
    Case("exponential log_prob", "Exponential(x + 0.1).log_prob(v)", _NORMAL, "y", _D),
    Case("exponential entropy", "Exponential(x + 0.1).entropy()", _NORMAL, "y", _D),
    Case("dirichlet log_prob", "Dirichlet(x + 0.1).log_prob(v + 0.1)", _NORMAL, "y", _D),
    Case("dirichlet entropy", "Dirichlet(x + 0.1).entropy()", _NORMAL, "y", _D),
    Case("dirichlet sample", "Dirichlet(x + 0.1).sample()", _NORMAL, "", _D),
    Case("poisson sample", "Poisson(x).sample()", _NORMAL, "", _D),
    Case("geometric entropy", "Geometric(x * 0.8 + 0.1).entropy()", _NORMAL, "y", _D),
    Case("multinomial sample", "Multinomial(9, x + 0.1).sample()", "x=f(N,64)", "", _D),
    Case("gamma divergence",
         "kl_divergence(Gamma(x + 0.1, z + 0.1), Gamma(v + 0.1, v + 0.2))", _NORMAL, "y", _D),
]  # fmt: skip
