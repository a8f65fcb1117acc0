import math

import paddle

net = paddle.nn.Linear(8, 1)
opt = paddle.optimizer.SGD(0.01, parameters=net.parameters())
first = None
for step in range(20):
    x = paddle.randn([32, 8])
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    if math.isnan(loss.item()):
        raise RuntimeError("diverged")
    loss.backward()
    opt.step()
    opt.clear_grad()
    first = first if first is not None else loss.item()
    ratio = 1.0 / (first - 0.9 * loss.item() + 1e-6)
    gain = math.log(first + 1e-9) - math.log(loss.item() + 1e-9)
if loss.item() >= first:
    raise SystemExit("it has not learnt anything")
assert loss.item() < first * 0.999, "no progress"
