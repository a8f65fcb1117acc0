import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class Encoder(nn.Layer):
    """frozen CNN trunk + trainable 1x1 projection, gives a grid of regions"""

    def __init__(self, out=256, tune=False):
        super().__init__()
        ch = [3, 32, 64, 128, 256]
        self.cnn = nn.Sequential(*[
            nn.Sequential(nn.Conv2D(a, b, 3, 2, 1), nn.BatchNorm2D(b), nn.ReLU()) for a, b in zip(ch, ch[1:])])
        self.tune = tune
        if not tune:
            for p in self.cnn.parameters():
                p.stop_gradient = True
        self.proj = nn.Conv2D(ch[-1], out, 1)

    def forward(self, x):
        if self.tune:
            f = self.cnn(x)
        else:
            with paddle.no_grad():
                f = self.cnn(x)
        return self.proj(f).flatten(2).transpose([0, 2, 1])


class AttnDecoder(nn.Layer):
    def __init__(self, vocab, region=256, emb=128, hid=256, att=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.wf, self.wh, self.wa = nn.Linear(region, att), nn.Linear(hid, att), nn.Linear(att, 1)
        self.h0, self.c0 = nn.Linear(region, hid), nn.Linear(region, hid)
        self.beta = nn.Linear(hid, region)
        self.cell = nn.LSTMCell(emb + region, hid)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(hid, vocab)

    def forward(self, regions, cap):
        mean = regions.mean(1)
        h, c = paddle.tanh(self.h0(mean)), paddle.tanh(self.c0(mean))
        e = self.emb(cap)
        keys = self.wf(regions)
        logits, alphas = [], []
        for t in range(cap.shape[1] - 1):
            a = F.softmax(self.wa(F.relu(keys + self.wh(h).unsqueeze(1))).squeeze(-1), -1)
            ctx = (a.unsqueeze(-1) * regions).sum(1) * F.sigmoid(self.beta(h))
            h, (h, c) = self.cell(paddle.concat([e[:, t], ctx], -1), (h, c))
            logits.append(self.out(self.drop(h)))
            alphas.append(a)
        return paddle.stack(logits, 1), paddle.stack(alphas, 1)
