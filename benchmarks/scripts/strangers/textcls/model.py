import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class SelfAttention(nn.Layer):
    """additive attention pooling over time with a mask"""

    def __init__(self, hidden_size):
        super().__init__()
        self.fc = nn.Linear(hidden_size, hidden_size)
        self.score = nn.Linear(hidden_size, 1, bias_attr=False)

    def forward(self, hidden, mask):
        s = self.score(paddle.tanh(self.fc(hidden))).squeeze(-1)
        s = s + (1.0 - mask) * -1e9
        w = F.softmax(s, axis=-1)
        return paddle.bmm(w.unsqueeze(1), hidden).squeeze(1)


class BiGRUAttention(nn.Layer):
    def __init__(self, vocab_size, num_classes, emb_dim=256, hidden_size=192, fc_hidden_size=96, padding_idx=0):
        super().__init__()
        self.embedder = nn.Embedding(vocab_size, emb_dim, padding_idx=padding_idx)
        self.gru = nn.GRU(emb_dim, hidden_size, num_layers=1, direction='bidirect')
        self.attention = SelfAttention(hidden_size * 2)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(hidden_size * 2, fc_hidden_size)
        self.output_layer = nn.Linear(fc_hidden_size, num_classes)

    def forward(self, input_ids, seq_len):
        mask = (input_ids != 0).astype('float32')
        emb = self.dropout(self.embedder(input_ids))
        hidden, _ = self.gru(emb, sequence_length=seq_len)
        pooled = self.attention(hidden, mask)
        return self.output_layer(paddle.tanh(self.fc(pooled)))
