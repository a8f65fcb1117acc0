import paddle
from paddle import nn
import paddle.nn.functional as F


class CharCNN(nn.Layer):
    def __init__(self, n_chars, dim, filters, kernel_sizes):
        super().__init__()
        self.embed = nn.Embedding(n_chars, dim, padding_idx=0)
        self.convs = nn.LayerList([nn.Conv1D(dim, filters, k, padding=k - 1) for k in kernel_sizes])

    def forward(self, chars):
        b, t, w = chars.shape
        x = self.embed(chars.reshape([b * t, w])).transpose([0, 2, 1])
        pooled = [F.relu(conv(x)).max(axis=-1) for conv in self.convs]
        return paddle.concat(pooled, axis=-1).reshape([b, t, -1])


class Tagger(nn.Layer):
    def __init__(self, cfg, n_words, n_chars, n_tags):
        super().__init__()
        self.word_embed = nn.Embedding(n_words, cfg.embed_dim, padding_idx=0)
        self.char_cnn = CharCNN(n_chars, cfg.char_dim, cfg.char_filters, cfg.kernel_sizes)
        size = cfg.embed_dim + cfg.char_filters * len(cfg.kernel_sizes)
        self.rnn = nn.LSTM(size, cfg.hidden, num_layers=cfg.layers, direction="bidirect", dropout=cfg.dropout)
        self.drop = nn.Dropout(cfg.dropout)
        self.out = nn.Linear(2 * cfg.hidden, n_tags)

    def forward(self, words, chars, lengths):
        x = paddle.concat([self.word_embed(words), self.char_cnn(chars)], axis=-1)
        x = self.drop(x)
        x, _ = self.rnn(x, sequence_length=lengths)
        return self.out(self.drop(x))
