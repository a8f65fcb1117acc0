import paddle
import paddle.nn.functional as F

net = paddle.nn.LayerList([paddle.nn.Linear(8, 8) for _ in range(3)])
opt = paddle.optimizer.SGD(0.01, parameters=net.parameters())
running = paddle.zeros([8])
for step in range(5):
    x = paddle.randn([32, 8])
    x.add_(paddle.ones([8]))
    x.scale_(0.5)
    for layer in net:
        x = F.relu_(layer(x))
    canvas = paddle.zeros([32, 16])
    canvas[:, :8] = x
    canvas[:, 8:] += x.detach()
    canvas[0] = 0.0
    loss = canvas.square().mean()
    loss.backward()
    with paddle.no_grad():
        running.set_value(0.9 * running + 0.1 * x.mean(0))
        for p in net.parameters():
            p.subtract_(0.001 * p)
            p.grad.clip_(-1.0, 1.0)
    opt.step()
    opt.clear_grad()
assert running.shape == [8]
