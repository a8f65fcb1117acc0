"""More training scripts: recompute, several processes, `paddle.Model`, static programs."""

from __future__ import annotations

from tests.real.preflight.training_loops import ADAM as _ADAM
from tests.real.preflight.training_loops import plain as _plain

RECOMPUTE = """
from paddle.distributed.fleet.utils import recompute
class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 256), nn.Linear(256, 64), nn.LayerNorm(64)
        self.drop = nn.Dropout(0.1)
    def forward(self, v):
        return self.norm(v + self.drop(self.down(F.gelu(self.up(v)))))
class Deep(nn.Layer):
    def __init__(self):
        super().__init__()
        self.blocks = nn.LayerList([Block() for _ in range(4)])
        self.head = nn.Linear(64, 10)
    def forward(self, v):
        v.stop_gradient = {input}
        for block in self.blocks:
            v = {call}
        return self.head(v)
net = Deep()
opt = paddle.optimizer.AdamW(parameters=net.parameters())
wide = paddle.randn([512, 64])
target = paddle.randint(0, 10, [512])
for step in range(3):
    loss = F.cross_entropy(net(wide), target)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def _deep(call: str, flag: str = "False") -> str:
    return RECOMPUTE.replace("{call}", call).replace("{input}", flag)


MODEL = """
net = paddle.Model(Net())
net.prepare(paddle.optimizer.Adam(parameters=net.parameters()), nn.CrossEntropyLoss(){metrics})
net.fit(Pairs(), {options}batch_size=128, epochs=1, verbose=0)
"""


def _model(options: str = "", metrics: str = "") -> str:
    return MODEL.replace("{options}", options).replace("{metrics}", metrics)


WHOLE = {
    "blocks-plain": _deep("block(v)"),
    "recompute": _deep("recompute(block, v)"),
    "recompute-frozen-input": _deep("recompute(block, v)", "True"),
    "recompute-no-rng": _deep("recompute(block, v, preserve_rng_state=False)"),
    "recompute-hybrid": _deep("recompute(block, v, use_reentrant=False)"),
    "recompute-sequential": _deep("block(v)").replace(
        "for block in self.blocks:\n            v = block(v)",
        "v = paddle.incubate.distributed.fleet.recompute_sequential("
        "{'segments': 1}, nn.Sequential(*self.blocks), v)",
    ),
    "data-parallel": _plain(_ADAM, "net = paddle.DataParallel(Net())"),
    "init-parallel": _plain(
        _ADAM,
        "paddle.distributed.init_parallel_env()\nnet = Net() if "
        "paddle.distributed.get_world_size() == 1 else paddle.DataParallel(Net())",
    ),
    "model-fit": _model(),
    "model-metrics": _model(metrics=", paddle.metric.Accuracy()"),
    "model-topk": _model(metrics=", paddle.metric.Accuracy(topk=(1, 5))"),
    "model-evaluate": _model("Pairs(), "),
    "model-accumulate": _model("accumulate_grad_batches=2, "),
    "model-batches": """
net = paddle.Model(Net())
net.prepare(paddle.optimizer.Adam(parameters=net.parameters()), nn.CrossEntropyLoss())
for step in range(3):
    net.train_batch([x], [y])
net.eval_batch([x], [y])
net.predict_batch([x])
""",
    "summary": """
net = Net()
paddle.summary(net, (2048, 64))
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "evaluate-large": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
def evaluate():
    net.eval()
    right = 0
    with paddle.no_grad():
        for part in range(2):
            out = net(paddle.randn([1024, 64]))
            right += int((out.argmax(axis=1) == 0).sum())
    net.train()
    return right
for epoch in range(3):
    for step in range(2):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
    evaluate()
""",
    "to-static": _plain(_ADAM, "net = paddle.jit.to_static(Net())"),
    "next-of-a-class": """
class Endless:
    def __init__(self, loader):
        self.loader, self.batches = loader, iter(loader)
    def __next__(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
batches = Endless(paddle.io.DataLoader(Pairs(), batch_size=128))
for step in range(6):
    v, label = next(batches)
    loss = F.cross_entropy(net(v), label)
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
    "accuracy-function": """
net = Net()
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(3):
    out = net(x)
    loss = F.cross_entropy(out, y)
    acc = paddle.metric.accuracy(out, y.unsqueeze(1))
    loss.backward()
    opt.step()
    opt.clear_grad()
""",
}


STATIC = """
paddle.enable_static()
def feed(**shapes):
    return {name: numpy.zeros(shape, "float32" if name == "x" else "int64")
            for name, shape in shapes.items()}
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    {net}
    paddle.optimizer.{optimizer}.minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(startup)
for step in range(8):
    exe.run(main, feed=feed({shapes}), fetch_list=[loss])
"""


def _static(net: str, shapes: str, optimizer: str = "Adam(0.001)") -> str:
    filled = STATIC.replace("{net}", net.replace("\n", "\n    "))
    return filled.replace("{optimizer}", optimizer).replace("{shapes}", shapes)


_FC = """x = paddle.static.data("x", [None, 64], "float32")
y = paddle.static.data("y", [None, 1], "int64")
h = paddle.static.nn.fc(x, 256, activation="relu")
h = paddle.static.nn.fc(h, 256, activation="relu")
loss = F.cross_entropy(paddle.static.nn.fc(h, 10), y)"""
_CONV = """x = paddle.static.data("x", [-1, 3, 32, 32], "float32")
y = paddle.static.data("y", [-1, 1], "int64")
body = nn.Sequential(nn.Conv2D(3, 32, 3, padding=1), nn.BatchNorm2D(32), nn.ReLU(),
                     nn.MaxPool2D(2), nn.Conv2D(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten())
loss = paddle.mean(F.cross_entropy(nn.Linear(64 * 256, 10)(body(x)), y))"""
_ENCODER = """ids = paddle.static.data("ids", [None, None], "int64")
y = paddle.static.data("y", [None], "int64")
layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1)
hidden = nn.TransformerEncoder(layer, 3)(nn.Embedding(2000, 128)(ids))
loss = F.cross_entropy(nn.Linear(128, 5)(hidden.mean(axis=1)), y)"""
_SEQUENCES = """x = paddle.static.data("x", [None, 16, 32], "float32")
y = paddle.static.data("y", [None, 1], "int64")
h = x
for _ in range(3):
    h = paddle.static.nn.fc(h, 256, num_flatten_dims=2, activation="relu")
loss = F.cross_entropy(paddle.static.nn.fc(h.mean(axis=1), 10), y)"""
_SIGNALS = """x = paddle.static.data("x", [None, 4, 256], "float32")
y = paddle.static.data("y", [None, 1], "int64")
body = nn.Sequential(nn.Conv1D(4, 32, 3, padding=1), nn.ReLU(),
                     nn.Conv1D(32, 32, 3, padding=1), nn.ReLU(), nn.Flatten())
loss = F.cross_entropy(nn.Linear(32 * 256, 10)(body(x)), y)"""
_WIDE = """x = paddle.static.data("x", [None, 4096], "float32")
y = paddle.static.data("y", [None, 1], "int64")
loss = F.cross_entropy({net}, y)"""


def _wide(net: str, optimizer: str = "SGD(0.001)") -> str:
    return _static(_WIDE.replace("{net}", net), "x=[256, 4096], y=[256, 1]", optimizer)


WHOLE |= {
    "static-sequences": _static(_SEQUENCES, "x=[256, 16, 32], y=[256, 1]", "SGD(0.001)"),
    "static-signals": _static(_SIGNALS, "x=[256, 4, 256], y=[256, 1]", "SGD(0.001)"),
    "static-fc": _static(_FC, "x=[512, 64], y=[512, 1]", "SGD(0.001)"),
    "static-clip": _static(
        _FC, "x=[512, 64], y=[512, 1]", "Adam(0.01, grad_clip=nn.ClipGradByGlobalNorm(1.0))"
    ),
    "static-conv": _static(_CONV, "x=[16, 3, 32, 32], y=[16, 1]", "Momentum(0.1)"),
    "static-encoder": _static(_ENCODER, "ids=[16, 64], y=[16]", "AdamW(0.001)"),
    "static-input": _wide("paddle.static.nn.fc(x, 10)"),
    "static-pooled": _wide(
        "nn.Linear(8192, 10)(F.max_pool1d(F.relu(nn.Conv1D(1, 4, 3, padding=1)"
        "(x.reshape([-1, 1, 4096]))), 2).flatten(1))"
    ),
    "static-recurrent": _wide(
        "nn.Linear(256, 10)(nn.LSTM(512, 256)(x.reshape([-1, 8, 512]))[1][0][0])"
    ),
    "static-decay": _wide(
        "nn.Linear(512, 10)(F.relu(nn.Linear(4096, 512)(x)))", "Adam(0.1, weight_decay=0.01)"
    ),
    "static-table": _wide(
        "nn.Linear(64, 10)(nn.Embedding(20000, 64, sparse=True)"
        "(paddle.cast(x[:, :8], 'int64')).sum(axis=1))"
    ),
}
