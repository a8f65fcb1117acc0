import numpy as np
import paddle

net = paddle.nn.Linear(10, 10)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
order = paddle.to_tensor([3, 1, 2])
for _ in range(4):
    x = paddle.randn([8, 4, 10])
    y = net(x)
    parts = [y[:, -1], y[..., 0, :], y[:, order].mean(1), y[::2].mean(0, keepdim=True).expand([8, 4, 10])[:, 0],
             y[[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 0, 1, 2, 3]], y[:, None, 1:3].squeeze(1).sum(1),
             y[np.array([7, 6, 5, 4, 3, 2, 1, 0])][:, 0], y.flip([0])[:, 2], y[:, :, [True] * 10].max(1)]
    picked = y[y > 0]
    far = y[..., -3:][:, 1:-1]
    loss = sum(p.square().mean() for p in parts) + picked.mean() + far.abs().mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
