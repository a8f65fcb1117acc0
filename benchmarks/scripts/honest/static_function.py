import paddle


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = paddle.nn.Linear(4, 8), paddle.nn.Linear(8, 2)

    @paddle.jit.to_static
    def forward(self, x):
        h = paddle.nn.functional.relu(self.a(x))
        if h.mean() > 0:
            h = h * 2
        return self.b(h)


net = Net()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(4):
    net(paddle.randn([6, 4])).square().mean().backward()
    opt.step()
    opt.clear_grad()
