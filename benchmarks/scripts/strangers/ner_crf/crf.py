import numpy as np
import paddle
import paddle.nn as nn


class LinearChainCRF(nn.Layer):
    """Negative log likelihood of a linear-chain CRF, forward algorithm written step by step."""

    def __init__(self, num_tags):
        super().__init__()
        uniform = nn.initializer.Uniform(-0.1, 0.1)
        self.num_tags = num_tags
        self.trans = self.create_parameter([num_tags, num_tags], default_initializer=uniform)
        self.start = self.create_parameter([num_tags], default_initializer=uniform)
        self.stop = self.create_parameter([num_tags], default_initializer=uniform)

    def _score(self, emit, tags, mask):
        T = emit.shape[1]
        onehot = nn.functional.one_hot(tags, self.num_tags)            # B, T, K
        emit_score = ((emit * onehot).sum(-1) * mask).sum(1)
        pair = paddle.matmul(onehot[:, :-1], self.trans)               # B, T-1, K
        trans_score = ((pair * onehot[:, 1:]).sum(-1) * mask[:, 1:]).sum(1)
        last = mask.sum(1).astype('int64') - 1
        last_onehot = nn.functional.one_hot(last, T).unsqueeze(-1)
        stop_score = ((onehot * last_onehot).sum(1) * self.stop).sum(-1)
        return emit_score + trans_score + stop_score + (onehot[:, 0] * self.start).sum(-1)

    def _partition(self, emit, mask):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.shape[1]):
            inner = alpha.unsqueeze(2) + self.trans.unsqueeze(0) + emit[:, t].unsqueeze(1)
            new = paddle.logsumexp(inner, axis=1)
            m = mask[:, t].unsqueeze(1)
            alpha = new * m + alpha * (1 - m)
        return paddle.logsumexp(alpha + self.stop, axis=1)

    def forward(self, emit, tags, mask):
        return (self._partition(emit, mask) - self._score(emit, tags, mask)).mean()

    def decode(self, emit, length):
        emit, trans = emit.numpy()[:length], self.trans.numpy()
        score, back = self.start.numpy() + emit[0], []
        for e in emit[1:]:
            m = score[:, None] + trans + e[None]
            back.append(m.argmax(0))
            score = m.max(0)
        path = [int((score + self.stop.numpy()).argmax())]
        for b in reversed(back):
            path.append(int(b[path[-1]]))
        return path[::-1]
