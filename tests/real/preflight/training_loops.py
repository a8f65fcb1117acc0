"""Training loops of a small net, one feature each."""

from __future__ import annotations


def plain(make: str, setup: str = "net = Net()", step: str = "opt.step()") -> str:
    return f"""
{setup}
opt = {make}
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    {step}
    opt.clear_grad()
"""


def _field(mixed: str, residual: str, *, third: bool = False) -> str:
    """A net of place and time whose derivatives make the loss, as physics asks of it."""
    again = "u_xx = paddle.grad(u_x, place, create_graph=True)[0]" if third else ""
    return f"""
class Field(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 64), nn.Linear(2, 64), nn.Linear(64, 1)
    def forward(self, z):
        u, v = paddle.tanh(self.a(z)), paddle.tanh(self.b(z))
        return self.c({mixed})
net = Field()
opt = {_OPT}Adam(1e-3, parameters=net.parameters())
for step in range(3):
    when, place = paddle.randn([1024, 1]), paddle.randn([1024, 1])
    when.stop_gradient = place.stop_gradient = False
    out = net(paddle.concat([when, place], axis=1))
    u_t = paddle.grad(out, when, create_graph=True)[0]
    u_x = paddle.grad(out, place, create_graph=True)[0]
    {again}
    loss = (({residual}) ** 2).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


_OPT = "paddle.optimizer."
_ALL = "parameters=net.parameters()"
OPTIMIZERS = {
    "sgd": f"{_OPT}SGD(0.1, {_ALL})",
    "sgd-decay": f"{_OPT}SGD(0.1, {_ALL}, weight_decay=1e-4)",
    "momentum": f"{_OPT}Momentum(0.1, {_ALL}, use_nesterov=True)",
    "momentum-l1": f"{_OPT}Momentum(0.1, {_ALL}, weight_decay=paddle.regularizer.L1Decay(1e-4))",
    "momentum-l2": f"{_OPT}Momentum(0.1, {_ALL}, weight_decay=paddle.regularizer.L2Decay(1e-4))",
    "adagrad": f"{_OPT}Adagrad(0.1, {_ALL})",
    "adam": f"{_OPT}Adam(0.1, {_ALL})",
    "adam-positional": f"{_OPT}Adam(0.1, 0.9, 0.99, 1e-8, net.parameters())",
    "adam-amsgrad": f"{_OPT}Adam(0.1, {_ALL}, amsgrad=True)",
    "adam-decay": f"{_OPT}Adam(0.1, {_ALL}, weight_decay=1e-4)",
    "adam-multi": f"{_OPT}Adam(0.1, {_ALL}, use_multi_tensor=True)",
    "adamw": f"{_OPT}AdamW(0.1, {_ALL}, weight_decay=0.01)",
    "adamw-fun": f"{_OPT}AdamW(0.1, {_ALL}, apply_decay_param_fun=lambda n: 'b' not in n)",
    "adamw-amsgrad": f"{_OPT}AdamW(0.1, {_ALL}, amsgrad=True, multi_precision=True)",
    "adamax": f"{_OPT}Adamax(0.1, {_ALL})",
    "adadelta": f"{_OPT}Adadelta(0.1, {_ALL})",
    "rmsprop": f"{_OPT}RMSProp(0.1, {_ALL})",
    "rmsprop-centered": f"{_OPT}RMSProp(0.1, {_ALL}, centered=True, momentum=0.9)",
    "lamb": f"{_OPT}Lamb(0.1, {_ALL})",
    "nadam": f"{_OPT}NAdam(0.1, {_ALL})",
    "groups-clip-momentum": f"{_OPT}Momentum(0.1, parameters=[{{'params': net.a.parameters()}}, "
    "{'params': [*net.b.parameters(), *net.c.parameters()]}], "
    "weight_decay=1e-4, grad_clip=nn.ClipGradByNorm(1.0))",
    "groups-clip-adamw": f"{_OPT}AdamW(0.1, parameters=[{{'params': net.a.parameters()}}, "
    "{'params': [*net.b.parameters(), *net.c.parameters()]}], "
    "grad_clip=nn.ClipGradByGlobalNorm(1.0))",
    "radam": f"{_OPT}RAdam(0.1, {_ALL})",
    "asgd": f"{_OPT}ASGD(0.1, {_ALL})",
    "asgd-batches": f"{_OPT}ASGD(0.1, 4, {_ALL})",
    "rprop": f"{_OPT}Rprop(0.1, {_ALL})",
    "clip-value": f"{_OPT}Adam(0.1, {_ALL}, grad_clip=nn.ClipGradByValue(1.0))",
    "clip-norm": f"{_OPT}Adam(0.1, {_ALL}, grad_clip=nn.ClipGradByNorm(1.0))",
    "clip-global": f"{_OPT}Adam(0.1, {_ALL}, grad_clip=nn.ClipGradByGlobalNorm(1.0))",
    "clip-decay": f"{_OPT}Adam(0.1, {_ALL}, weight_decay=1e-3,"
    " grad_clip=nn.ClipGradByGlobalNorm(1.0))",
    "groups": f"{_OPT}AdamW(0.1, parameters=[{{'params': net.a.parameters()}}, "
    "{'params': net.b.parameters(), 'learning_rate': 0.1, 'weight_decay': 0.0}])",
    "schedule": f"{_OPT}Momentum(paddle.optimizer.lr.LinearWarmup("
    f"paddle.optimizer.lr.CosineAnnealingDecay(0.1, 10), 5, 0.0, 0.1), {_ALL})",
}

_FEW = "net = Net(wide=384)\nx, y = x[:4], y[:4]"
LOOPS: dict[str, str] = {name: plain(make) for name, make in OPTIMIZERS.items()}
# With few samples the step itself is the peak, with all that it needs for a moment.
LOOPS |= {f"{name}-few": plain(make, _FEW) for name, make in OPTIMIZERS.items()}
ADAM, SGD = OPTIMIZERS["adam"], OPTIMIZERS["sgd"]
LOOPS |= {
    "minimize": plain(ADAM, step="opt.minimize(loss)"),
    "step-twice": plain(ADAM, step="opt.step(); opt.step()"),
    "free-gradients": plain(ADAM).replace("clear_grad()", "clear_grad(set_to_zero=False)"),
    "clear-gradients": plain(ADAM).replace("clear_grad()", "clear_gradients()"),
    "layer-clears": plain(ADAM).replace("opt.clear_grad()", "net.clear_gradients()"),
    "never-cleared": plain(SGD).replace("opt.clear_grad()", "pass"),
    "clear-first": """
net = Net()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    opt.clear_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
    "clip-by-function": plain(
        ADAM, step="nn.utils.clip_grad_norm_(net.parameters(), 1.0); opt.step()"
    ),
    "clip-by-function-few": plain(
        ADAM,
        _FEW,
        "nn.utils.clip_grad_norm_(net.parameters(), 1.0, float('inf')); opt.step()",
    ),
    "clip-value-by-function": plain(
        ADAM, step="nn.utils.clip_grad_value_(net.parameters(), 1.0); opt.step()"
    ),
    "frozen": plain(
        ADAM, "net = Net(wide=512)\nfor p in net.a.parameters():\n    p.stop_gradient = True"
    ),
    "frozen-by-trainable": plain(
        ADAM, "net = Net(wide=512)\nfor p in net.b.parameters():\n    p.trainable = False"
    ),
    "filtered": plain(
        "paddle.optimizer.Adam(parameters=[p for p in net.parameters() if not p.stop_gradient])",
        "net = Net(wide=512)\nnet.b.weight.stop_gradient = True",
    ),
    "part": plain("paddle.optimizer.Adam(parameters=net.c.parameters())"),
    "two-optimizers": """
g, d = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 64)), Net(out=1)
go = paddle.optimizer.Adam(2e-4, parameters=g.parameters())
do = paddle.optimizer.Adam(2e-4, parameters=d.parameters())
one, zero = paddle.ones([128, 1]), paddle.zeros([128, 1])
for step in range(3):
    fake = g(paddle.randn([128, 16]))
    real_loss = F.binary_cross_entropy_with_logits(d(x), one)
    fake_loss = F.binary_cross_entropy_with_logits(d(fake.detach()), zero)
    d_loss = real_loss + fake_loss
    do.clear_grad()
    d_loss.backward()
    do.step()
    g_loss = F.binary_cross_entropy_with_logits(d(fake), one)
    go.clear_grad()
    g_loss.backward()
    go.step()
""",
    "tied": """
class Words(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2000, 64)
        self.mid = nn.Linear(64, 64)
        self.out = nn.Linear(64, 2000)
        self.out.weight = self.table.weight
    def forward(self, ids):
        h = F.gelu(self.mid(self.table(ids)))
        return paddle.matmul(h, self.table.weight, transpose_y=True)
net = Words()
ids = paddle.randint(0, 2000, [16, 20])
opt = paddle.optimizer.AdamW(parameters=net.parameters())
for step in range(3):
    loss = F.cross_entropy(net(ids).reshape([-1, 2000]), ids.reshape([-1]))
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "accumulate": """
net = Net()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(9):
    loss = F.cross_entropy(net(x), y) / 3
    loss.backward()
    if (step + 1) % 3 == 0:
        opt.step()
        opt.clear_grad()
""",
    "names-alive": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    hidden = F.relu(net.a(x))
    wide = F.relu(net.b(hidden))
    out = net.c(wide)
    loss = F.cross_entropy(out, y)
    loss.backward()
    print(float(loss), loss.item(), loss.numpy())
    opt.step()
    opt.clear_grad()
""",
    "arrays-kept": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
last = None
for step in range(3):
    hidden = F.relu(net.a(x))
    loss = F.cross_entropy(net.c(F.relu(net.b(hidden))), y)
    loss.backward()
    last = hidden.numpy()[:4]
    del hidden
    opt.step()
    opt.clear_grad()
""",
    "names-deleted": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    hidden = F.relu(net.a(x))
    out = net.c(F.relu(net.b(hidden)))
    del hidden
    loss = F.cross_entropy(out, y)
    del out
    loss.backward()
    opt.step()
    opt.clear_grad()
    del loss
""",
    "two-losses-retained": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    out = net(x)
    first = F.cross_entropy(out, y)
    second = (out * out).mean()
    first.backward(retain_graph=True)
    second.backward()
    opt.step()
    opt.clear_grad()
""",
    "several-backwards": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    F.cross_entropy(net(x), y).backward()
    F.mse_loss(net(x * 2), paddle.zeros([128, 10])).backward()
    opt.step()
    opt.clear_grad()
""",
    "paddle-autograd-backward": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    out = net(x)
    first = F.cross_entropy(out, y)
    second = (out * out).mean()
    paddle.autograd.backward([first, second])
    opt.step()
    opt.clear_grad()
""",
    "grad": """
net = Net()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    grads = paddle.grad(loss, net.parameters())
    opt.apply_gradients(list(zip(net.parameters(), grads)))
""",
    "opt-backward": """
net = Net()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.apply_gradients(opt.backward(loss))
    opt.clear_grad()
""",
    "no-grad-function": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
@paddle.no_grad()
def check():
    return net(paddle.randn([512, 64])).mean()
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    check()
""",
    "set-grad-enabled": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    with paddle.set_grad_enabled(False):
        known = net.a(x)
    loss = F.cross_entropy(net.c(F.relu(net.b(known))), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "teacher": """
teacher, net = Net(wide=512), Net()
teacher.eval()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    with paddle.no_grad():
        soft = F.softmax(teacher(x) / 2.0)
    out = net(x)
    loss = F.cross_entropy(out, y) + F.kl_div(F.log_softmax(out / 2.0), soft)
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "average-copy": """
import copy
net = Net()
mean = copy.deepcopy(net)
for p in mean.parameters():
    p.stop_gradient = True
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    with paddle.no_grad():
        for p, q in zip(mean.parameters(), net.parameters()):
            p.set_value(p * 0.99 + q * 0.01)
""",
    "average-dict": """
net = Net()
mean = {k: v.clone() for k, v in net.state_dict().items()}
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    with paddle.no_grad():
        for k, v in net.state_dict().items():
            mean[k] = 0.9 * mean[k] + 0.1 * v
""",
    "sparse-sgd": """
net = nn.Embedding(8000, 64, sparse=True)
ids = paddle.arange(1024).reshape([128, 8])
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    loss = (net(ids) * 2).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "sparse-adam-lazy": """
net = nn.Sequential(nn.Embedding(8000, 64, sparse=True), nn.Linear(64, 64))
ids = paddle.arange(1024).reshape([128, 8])
opt = paddle.optimizer.Adam(0.1, lazy_mode=True, parameters=net.parameters())
for step in range(3):
    loss = net(ids).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "sparse-adam": """
net = nn.Sequential(nn.Embedding(8000, 64, sparse=True), nn.Linear(64, 64))
ids = paddle.arange(1024).reshape([128, 8])
opt = paddle.optimizer.Adam(0.1, parameters=net.parameters())
for step in range(3):
    loss = net(ids).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "sparse-twice": """
net = nn.Embedding(8000, 64, sparse=True)
ids = paddle.arange(1024).reshape([128, 8])
opt = paddle.optimizer.Momentum(0.1, parameters=net.parameters())
for step in range(3):
    loss = (net(ids) * net(ids + 1)).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "py-layer": """
class Cube(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v * v * v
    @staticmethod
    def backward(ctx, g):
        v, = ctx.saved_tensor()
        return g * 3 * v * v
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    loss = F.cross_entropy(net.c(Cube.apply(net.b(net.a(x)))), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "hook": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    hidden = F.relu(net.a(x))
    hidden.register_hook(lambda g: g * 2)
    loss = F.cross_entropy(net.c(F.relu(net.b(hidden))), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "input-gradient": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    adv = x.detach().clone()
    adv.stop_gradient = False
    F.cross_entropy(net(adv), y).backward()
    moved = adv + 0.01 * adv.grad
    opt.clear_grad()
    loss = F.cross_entropy(net(moved.detach()), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "penalty-convolution": """
net = nn.Sequential(nn.Conv2D(3, 16, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
                    nn.Conv2D(16, 32, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
                    nn.Conv2D(32, 1, 8))
opt = paddle.optimizer.Adam(parameters=net.parameters())
pictures = paddle.randn([32, 3, 32, 32])
for step in range(3):
    probe = pictures * 0.5
    probe.stop_gradient = False
    out = net(probe)
    grads = paddle.grad(out.sum(), probe, create_graph=True, retain_graph=True)[0]
    penalty = (grads.reshape([32, -1]).norm(axis=1) - 1).square().mean()
    loss = net(pictures).mean() + 10 * penalty
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "gradient-penalty": """
net = Net(out=1)
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    probe = paddle.randn([128, 64])
    probe.stop_gradient = False
    out = net(probe)
    grads = paddle.grad(out, probe, grad_outputs=paddle.ones_like(out), create_graph=True)[0]
    penalty = ((grads.norm(2, axis=1) - 1) ** 2).mean()
    loss = out.mean() + 10 * penalty
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "second-gradient-of-a-product": _field("u * v", "u_t + u_x"),
    "second-gradient-of-a-mixture": _field("u * v + (1.0 - v) * paddle.tanh(u)", "u_t + u_x"),
    "third-gradient": _field("u * v", "u_t + out * u_x - 0.1 * u_xx", third=True),
}
