"""GRU encoder-decoder with additive attention, teacher forced."""
import os
import random

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

here = os.path.dirname(os.path.abspath(__file__))


def load_vocab(name):
    vocab = {}
    with open(os.path.join(here, name), "r", encoding="utf8") as f:
        for line in f:
            vocab[line.strip()] = len(vocab)
    return vocab


src_vocab = load_vocab("vocab.src")
trg_vocab = load_vocab("vocab.trg")
src_size, trg_size = len(src_vocab), len(trg_vocab)

batch_size = 32
src_len = 24
trg_len = 20
embedding_size = 128
hidden_size = 256
epochs = 20
batches_per_epoch = 200


def reader(seed=1):
    """Yields (source ids, target ids with <s> before, target ids with </s> after)."""
    rng = np.random.RandomState(seed)
    for _ in range(batches_per_epoch):
        src = rng.randint(4, src_size, size=(batch_size, src_len)).astype("int64")
        body = rng.randint(4, trg_size, size=(batch_size, trg_len - 1)).astype("int64")
        start = np.full((batch_size, 1), trg_vocab["<s>"], dtype="int64")
        end = np.full((batch_size, 1), trg_vocab["</s>"], dtype="int64")
        yield src, np.concatenate([start, body], axis=1), np.concatenate([body, end], axis=1)


class Encoder(nn.Layer):
    def __init__(self):
        super(Encoder, self).__init__()
        self.emb = nn.Embedding(src_size, embedding_size)
        self.gru = nn.GRU(embedding_size, hidden_size, num_layers=2, dropout=0.2)

    def forward(self, x):
        outputs, last = self.gru(self.emb(x))
        return outputs, last[-1]


class AttentionDecoder(nn.Layer):
    def __init__(self):
        super(AttentionDecoder, self).__init__()
        self.emb = nn.Embedding(trg_size, embedding_size)
        self.attn_enc = nn.Linear(hidden_size, hidden_size)
        self.attn_dec = nn.Linear(hidden_size, hidden_size, bias_attr=False)
        self.attn_v = nn.Linear(hidden_size, 1, bias_attr=False)
        self.cell = nn.GRUCell(embedding_size + hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, trg_size)

    def forward(self, token, hidden, memory, keys):
        e = self.emb(token)
        score = self.attn_v(paddle.tanh(keys + self.attn_dec(hidden).unsqueeze(1)))
        weight = F.softmax(score, axis=1)
        context = paddle.sum(weight * memory, axis=1)
        _, hidden = self.cell(paddle.concat([e, context], axis=-1), hidden)
        return self.out(hidden), hidden


encoder = Encoder()
decoder = AttentionDecoder()
optimizer = paddle.optimizer.Adam(
    learning_rate=0.001, parameters=encoder.parameters() + decoder.parameters()
)

for epoch in range(epochs):
    print("epoch:{}".format(epoch))
    for iteration, (x, y_in, y_out) in enumerate(reader(epoch)):
        x, y_in, y_out = paddle.to_tensor(x), paddle.to_tensor(y_in), paddle.to_tensor(y_out)
        memory, hidden = encoder(x)
        keys = decoder.attn_enc(memory)
        loss = paddle.zeros([1])
        for i in range(trg_len):
            logits, hidden = decoder(y_in[:, i], hidden, memory, keys)
            step_loss = F.cross_entropy(logits, y_out[:, i])
            loss += step_loss
        loss = loss / trg_len
        if iteration % 50 == 0:
            print("iter {}, loss:{}".format(iteration, loss.numpy()))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
