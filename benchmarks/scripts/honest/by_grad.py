import paddle

net = paddle.nn.Sequential(paddle.nn.Linear(4, 16), paddle.nn.Tanh(), paddle.nn.Linear(16, 1))
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(4):
    x = paddle.randn([12, 4])
    x.stop_gradient = False
    y = net(x)
    dy, = paddle.grad(y, x, grad_outputs=paddle.ones_like(y), create_graph=True, retain_graph=True)
    unused = paddle.grad(y.sum(), [x, paddle.ones([2])], allow_unused=True, retain_graph=True) if step > 9 else None
    penalty = (dy.norm(2, axis=1) - 1).square().mean()
    (y.mean() + 10 * penalty).backward()
    opt.step()
    opt.clear_grad()
    inner = [p.clone() for p in net.parameters()]
    grads = paddle.grad(net(paddle.randn([3, 4])).sum(), net.parameters())
    fast = [p - 0.1 * g for p, g in zip(net.parameters(), grads)]
    assert [f.shape for f in fast] == [p.shape for p in inner]
