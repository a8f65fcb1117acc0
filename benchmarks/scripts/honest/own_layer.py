import paddle
from paddle.autograd import PyLayer


class Clipped(PyLayer):
    @staticmethod
    def forward(ctx, x, low, high=1.0):
        ctx.save_for_backward(x)
        ctx.low, ctx.high = low, high
        return x.clip(low, high), (x > high).astype("float32").mean()

    @staticmethod
    def backward(ctx, grad, _):
        x, = ctx.saved_tensor()
        inside = paddle.logical_and(x > ctx.low, x < ctx.high)
        return paddle.where(inside, grad, grad * 0.1)


net = paddle.nn.Sequential(paddle.nn.Linear(6, 24), paddle.nn.Linear(24, 3))
opt = paddle.optimizer.Momentum(0.01, parameters=net.parameters())
for step in range(5):
    h = net[0](paddle.randn([9, 6]))
    h, share = Clipped.apply(h, -0.5, high=0.5)
    loss = net[1](h).pow(2).mean()
    loss.backward()
    opt.step()
    opt.clear_grad(set_to_zero=False)
    assert 0.0 <= share.item() <= 1.0, share
