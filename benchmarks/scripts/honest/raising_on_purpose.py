import paddle

net = paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.Linear(8, 8))
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())


class Stop(Exception):
    pass


def fits(x):
    try:
        net[0](x)
        return True
    except Exception:
        return False


assert fits(paddle.rand([2, 8])) and not fits(paddle.rand([2, 7]))
try:
    paddle.rand([3, 4])[5]
    raise AssertionError("no error")
except (IndexError, ValueError):
    pass
try:
    paddle.concat([paddle.rand([2, 3]), paddle.rand([2, 4])], 0)
    raise AssertionError("no error")
except ValueError:
    pass
try:
    for step in range(100):
        loss = net(paddle.randn([4, 8])).square().mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        if step == 7:
            raise Stop
except Stop:
    pass
y = net(paddle.rand([2, 8])).sum()
y.backward()
try:
    y.backward()
    raise AssertionError("no error")
except SystemError:
    pass
