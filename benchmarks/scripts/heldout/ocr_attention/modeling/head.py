import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class AttentionCell(nn.Layer):
    def __init__(self, in_dim, hidden, num_embeddings):
        super().__init__()
        self.i2h = nn.Linear(in_dim, hidden, bias_attr=False)
        self.h2h = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias_attr=False)
        self.rnn = nn.GRUCell(in_dim + num_embeddings, hidden)

    def forward(self, hidden, features, onehot):
        proj = self.i2h(features)
        e = self.score(paddle.tanh(paddle.add(proj, paddle.unsqueeze(self.h2h(hidden), axis=1))))
        alpha = paddle.transpose(F.softmax(e, axis=1), [0, 2, 1])
        context = paddle.squeeze(paddle.mm(alpha, features), axis=1)
        return self.rnn(paddle.concat([context, onehot], 1), hidden)


class AttentionHead(nn.Layer):
    def __init__(self, in_channels, num_classes, hidden_size, max_text_length):
        super().__init__()
        self.num_classes = num_classes
        self.hidden_size = hidden_size
        self.steps = max_text_length + 1
        self.cell = AttentionCell(in_channels, hidden_size, num_classes)
        self.generator = nn.Linear(hidden_size, num_classes)

    def forward(self, features, targets=None):
        batch = features.shape[0]
        hidden = paddle.zeros((batch, self.hidden_size))
        outputs = []
        if targets is not None:
            for i in range(self.steps):
                onehot = F.one_hot(targets[:, i], self.num_classes)
                _, hidden = self.cell(hidden, features, onehot)
                outputs.append(hidden)
            return self.generator(paddle.stack(outputs, axis=1))
        token = paddle.zeros([batch], dtype="int64")
        for i in range(self.steps):
            _, hidden = self.cell(hidden, features, F.one_hot(token, self.num_classes))
            step = self.generator(hidden)
            outputs.append(step)
            token = step.argmax(axis=1)
        return paddle.stack(outputs, axis=1)
