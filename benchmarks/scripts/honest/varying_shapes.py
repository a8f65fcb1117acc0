import random

import numpy as np
import paddle

random.seed(3)
rnn = paddle.nn.LSTM(8, 16, direction="bidirect")
emb, head = paddle.nn.Embedding(100, 8), paddle.nn.Linear(32, 5)
params = [*rnn.parameters(), *emb.parameters(), *head.parameters()]
opt = paddle.optimizer.Adam(parameters=params)
for step in range(6):
    sizes = [random.randint(2, 9) for _ in range(6)]
    ids = paddle.to_tensor(np.array([[1] * n + [0] * (9 - n) for n in sizes]))
    out, (h, c) = rnn(emb(ids), sequence_length=paddle.to_tensor(sizes))
    mask = paddle.nn.functional.sequence_mask(paddle.to_tensor(sizes), maxlen=9, dtype="float32")
    pooled = (out * mask.unsqueeze(-1)).sum(1) / paddle.to_tensor(sizes, dtype="float32").unsqueeze(1)
    loss = paddle.nn.functional.cross_entropy(head(pooled), paddle.randint(0, 5, [6]))
    loss.backward()
    opt.step()
    opt.clear_grad()
