"""Training loops as people write them, which changes are put into."""

from __future__ import annotations

from collections.abc import Mapping

BLOCKS = """\
import numpy as np
import paddle
import paddle.nn as nn


class Block(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.one = nn.Conv2D(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2D(width)
        self.two = nn.Conv2D(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.two(nn.functional.relu(self.norm(self.one(x))))


class Net(nn.Layer):
    def __init__(self, width=16, depth=8):
        super().__init__()
        self.stem = nn.Conv2D(3, width, 3, padding=1)
        self.blocks = nn.LayerList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean([2, 3]))


class Pictures(paddle.io.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        rng = np.random.RandomState(index)
        return rng.rand(3, 16, 16).astype("float32"), np.int64(index % 10)


def main():
    paddle.seed(3)
    model = Net()
    optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
    loader = paddle.io.DataLoader(Pictures(), batch_size=64, shuffle=True)
    for epoch in range(2):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch={epoch} loss={float(loss):.4f}", flush=True)


if __name__ == "__main__":
    main()
"""

TUTORIAL = """\
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader, TensorDataset


class LeNet(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = paddle.nn.Conv2D(1, 6, 5, padding=2)
        self.pool = paddle.nn.MaxPool2D(2, 2)
        self.conv2 = paddle.nn.Conv2D(6, 16, 5)
        self.fc = paddle.nn.Linear(16 * 5 * 5, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        return self.fc(paddle.flatten(x, start_axis=1, stop_axis=-1))


train_set = TensorDataset([paddle.randn([256, 1, 28, 28]), paddle.randint(0, 10, [256, 1])])
train_loader = DataLoader(train_set, batch_size=64, shuffle=True)


def train(model):
    model.train()
    epochs = 2
    optim = paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters())
    # Train the model
    for epoch in range(epochs):
        for batch_id, data in enumerate(train_loader()):
            x_data = data[0]
            y_data = data[1]
            predicts = model(x_data)

            # A loss
            loss = F.cross_entropy(predicts, y_data)
            acc = paddle.metric.accuracy(predicts, y_data)
            loss.backward()
            if batch_id % 300 == 0:
                print(epoch, batch_id, float(loss), float(acc))
            optim.step()  # the update
            optim.clear_grad()


model = LeNet()
train(model)
"""

ENCODER = """\
import paddle
from paddle import nn

class EncoderBlock(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.attention = nn.MultiHeadAttention(d, 4)
        self.ffn = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.drop = nn.Dropout(0.1)

    def forward(self, hidden, mask):
        h = self.norm(hidden)
        hidden = hidden + self.drop(self.attention(h, h, h, mask))
        return hidden + self.ffn(hidden)

class Model(nn.Layer):
    def __init__(self, vocab=500, d=64, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.LayerList([EncoderBlock(d) for _ in range(layers)])
        self.out = nn.Linear(d, 2)

    def forward(self, ids, mask=None):
        hidden = self.embed(ids)
        for i, layer in enumerate(self.layers):
            hidden = layer(hidden, mask)
        return self.out(hidden.mean(axis=1))

class Rows(paddle.io.Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, i):
        return paddle.randint(0, 500, [64]), i % 2

def evaluate(model, loader):
    model.eval()
    with paddle.no_grad():
        for ids, label in loader:
            model(ids)
    model.train()

def do_train():
    model = Model()
    criterion = nn.CrossEntropyLoss()
    scheduler = paddle.optimizer.lr.LinearWarmup(1e-3, 10, 0.0, 1e-3)
    optimizer = paddle.optimizer.AdamW(scheduler, parameters=model.parameters())
    train_loader = paddle.io.DataLoader(Rows(), batch_size=16, shuffle=True)
    global_step = 0
    for epoch in range(2):
        for step, batch in enumerate(train_loader, start=1):
            input_ids, labels = batch
            logits = model(input_ids)
            loss = criterion(logits, labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.clear_grad()
            global_step += 1
        evaluate(model, train_loader)

if __name__ == "__main__":
    do_train()
"""

MINIMIZE = """\
import paddle

net = paddle.nn.Sequential(paddle.nn.Linear(64, 256), paddle.nn.ReLU(), paddle.nn.Linear(256, 4))
opt = paddle.optimizer.Momentum(0.01, parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([128, 64]), paddle.randint(0, 4, [128])])
reader = paddle.io.DataLoader(data, batch_size=32)
for epoch in range(2):
    for image, label in reader:
        out = net(image)
        avg_loss = paddle.nn.functional.cross_entropy(out, label)
        avg_loss.backward()
        opt.minimize(avg_loss)
        net.clear_gradients()
"""

FIT = """\
import paddle
from paddle.vision.models import LeNet

data = paddle.io.TensorDataset([paddle.randn([128, 1, 28, 28]), paddle.randint(0, 10, [128, 1])])
model = paddle.Model(LeNet())
model.prepare(
    paddle.optimizer.Adam(parameters=model.parameters()),
    paddle.nn.CrossEntropyLoss(),
)
model.fit(data, epochs=2, batch_size=32, verbose=0)
"""

LOOPS: Mapping[str, str] = {
    "blocks": BLOCKS,
    "tutorial": TUTORIAL,
    "encoder": ENCODER,
    "minimize": MINIMIZE,
    "fit": FIT,
}
