import random
from collections import deque

import numpy as np
import paddle
from paddle.distribution import Categorical, Normal

random.seed(0)
net = paddle.nn.Sequential(paddle.nn.Linear(4, 32), paddle.nn.ReLU(), paddle.nn.Linear(32, 3))
spread = paddle.create_parameter([1], "float32", default_initializer=paddle.nn.initializer.Constant(0.1))
opt = paddle.optimizer.Adam(1e-2, parameters=[*net.parameters(), spread])
memory, rewards = deque(maxlen=64), []
state = np.zeros(4, "float32")
for step in range(40):
    with paddle.no_grad():
        chances = Categorical(logits=net(paddle.to_tensor(state[None])))
        action = int(chances.sample([1]).item())
    assert action in (0, 1, 2), action
    table = ["left", "right", "stay"]
    table[action]
    following = state + np.random.randn(4).astype("float32") * (action - 1)
    memory.append((state, action, random.random(), following))
    state = following
    if len(memory) >= 16:
        s, a, r, n = map(np.array, zip(*random.sample(list(memory), 16)))
        q = net(paddle.to_tensor(s)).gather(paddle.to_tensor(a), 1).diag()
        with paddle.no_grad():
            goal = paddle.to_tensor(r.astype("float32")) + 0.9 * net(paddle.to_tensor(n)).max(1)
        loss = (q - goal).square().mean() - 0.01 * Normal(paddle.zeros([1]), spread.abs()).entropy().mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        rewards.append(loss.item())
assert len(rewards) == 25
