import numpy as np
import paddle
import paddle.nn.functional as F

paddle.seed(0)
net = paddle.nn.Sequential(paddle.nn.Linear(12, 32), paddle.nn.GELU(), paddle.nn.Linear(32, 5))
opt = paddle.optimizer.AdamW(1e-3, parameters=net.parameters())
for step in range(4):
    x = paddle.to_tensor(np.random.rand(16, 12)).astype("float32")
    ids = paddle.to_tensor(np.arange(16) % 5)
    weight = (ids.astype("float64") + 1).astype(paddle.float32) / 5
    mask = ids != 3
    each = F.cross_entropy(net(x), ids, reduction="none")
    loss = (each * weight * mask.astype("float32")).sum() / mask.sum().astype("float32")
    half = loss.astype("float16").astype("float32")
    loss = loss + 0 * half + paddle.to_tensor(1, dtype="int32")
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(step, float(loss))
