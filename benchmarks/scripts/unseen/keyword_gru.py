"""Keyword spotting: convolutions + GRU, gradient accumulation, AMP, averaged weights."""
import argparse
import contextlib

import numpy as np
import paddle
from paddle import nn


class LogMel(paddle.io.Dataset):
    def __init__(self, n, frames, mels, classes):
        super().__init__()
        self.n, self.frames, self.mels, self.classes = n, frames, mels, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        x = np.random.RandomState(i).randn(1, self.frames, self.mels).astype("float32")
        t0 = np.random.randint(0, self.frames - 8)
        x[:, t0:t0 + 8] = 0.0          # time masking
        return {"feat": x, "label": np.int64(i % self.classes)}


class Spotter(nn.Layer):
    def __init__(self, mels, hidden, classes):
        super().__init__()
        self.front = nn.Sequential(
            ("conv1", nn.Conv2D(1, 16, (5, 3), stride=(2, 2), padding=(2, 1))),
            ("bn1", nn.BatchNorm2D(16)),
            ("act1", nn.GELU()),
            ("conv2", nn.Conv2D(16, 32, 3, stride=(1, 2), padding=1)),
            ("bn2", nn.BatchNorm2D(32)),
            ("act2", nn.Silu()),
        )
        freq = (mels + 3) // 4
        self.gru = nn.GRU(32 * freq, hidden, num_layers=1)
        self.attn = nn.Linear(hidden, 1)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, feat):
        x = self.front(feat)
        x = x.transpose([0, 2, 1, 3]).flatten(2)
        x, _ = self.gru(x)
        w = nn.functional.softmax(self.attn(x), axis=1)
        return self.out(self.norm((x * w).sum(axis=1)))


class EMA:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = {k: v.clone().detach() for k, v in model.named_parameters()}

    @paddle.no_grad()
    def update(self):
        for name, p in self.model.named_parameters():
            self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * p


def main(a):
    paddle.seed(a.seed)
    loader = paddle.io.DataLoader(LogMel(800, a.frames, a.mels, a.classes), batch_size=a.batch_size,
                                  shuffle=True, drop_last=True)
    model = Spotter(a.mels, a.hidden, a.classes)
    ema = EMA(model, a.ema)
    decay = [p.name for n, p in model.named_parameters() if not any(s in n for s in ("bias", "norm"))]
    optimizer = paddle.optimizer.AdamW(a.lr, parameters=model.parameters(), weight_decay=0.01,
                                       apply_decay_param_fun=lambda name: name in decay)
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024) if a.amp else None
    criterion = nn.CrossEntropyLoss()
    seen = 0
    for epoch in range(a.epochs):
        for i, batch in enumerate(loader):
            context = paddle.amp.auto_cast() if a.amp else contextlib.nullcontext()
            with context:
                logits = model(batch["feat"])
                loss = criterion(logits, batch["label"]) / a.accum
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if (i + 1) % a.accum == 0:
                if scaler is not None:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
                optimizer.clear_grad()
                ema.update()
                seen += 1
                if seen % 5 == 0:
                    print(f"epoch {epoch} update {seen} loss {loss.item() * a.accum:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accum", type=int, default=2)
    parser.add_argument("--frames", type=int, default=98)
    parser.add_argument("--mels", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--ema", type=float, default=0.995)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
