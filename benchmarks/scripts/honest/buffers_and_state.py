import copy
import os
import tempfile

import paddle


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = paddle.nn.Linear(5, 5)
        self.register_buffer("steps", paddle.zeros([1], "int64"))
        self.register_buffer("mean", paddle.zeros([5]), persistable=False)
        self.scale = self.create_parameter([1], default_initializer=paddle.nn.initializer.Constant(2.0))

    def forward(self, x):
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.inner(x - self.mean) * self.scale


net, other = Net(), Net()
other.set_state_dict({k: v.clone() for k, v in net.state_dict().items()})
opt = paddle.optimizer.Adam(parameters=net.parameters())
best = None
for step in range(6):
    loss = net(paddle.randn([7, 5])).square().mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    if best is None or loss.item() < best[0]:
        best = (loss.item(), copy.deepcopy(net.state_dict()))
with tempfile.TemporaryDirectory() as folder:
    paddle.save(net.state_dict(), os.path.join(folder, "net.pdparams"))
    paddle.save(opt.state_dict(), os.path.join(folder, "net.pdopt"))
    missing, unexpected = other.set_state_dict(paddle.load(os.path.join(folder, "net.pdparams")))
    assert not missing and not unexpected, (missing, unexpected)
    opt.set_state_dict(paddle.load(os.path.join(folder, "net.pdopt")))
assert "mean" not in net.state_dict() and "steps" in net.state_dict()
other.set_state_dict(best[1])
for (name, a), (_, b) in zip(net.named_parameters(), other.named_parameters()):
    assert a.shape == b.shape, name
for step in range(3):
    loss = net(paddle.randn([7, 5])).square().mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
