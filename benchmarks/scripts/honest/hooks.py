import paddle

seen = {}
net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.BatchNorm2D(8), paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(8 * 36, 4))
for name, layer in net.named_sublayers():
    layer.register_forward_post_hook(lambda layer, x, y, name=name: seen.__setitem__(name, tuple(y.shape)))
    layer.register_forward_pre_hook(lambda layer, x: None)
norms = []
for p in net.parameters():
    if not p.stop_gradient:
        p.register_hook(lambda g: norms.append(float(g.norm())) or g.clip(-1, 1))
opt = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(3):
    x = paddle.rand([4, 3, 8, 8])
    x.stop_gradient = False
    handle = x.register_hook(lambda g: g * 2)
    out = net(x)
    out.retain_grads()
    out.mean().backward()
    assert out.grad.shape == out.shape and x.grad.shape == x.shape
    handle.remove()
    opt.step()
    opt.clear_grad()
assert seen["0"] == (4, 8, 6, 6), seen
assert len(norms) == 3 * 6, len(norms)
