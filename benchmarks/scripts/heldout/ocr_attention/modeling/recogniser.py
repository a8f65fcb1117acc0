import paddle.nn as nn


class SequenceEncoder(nn.Layer):
    def __init__(self, in_channels, hidden):
        super().__init__()
        self.lstm = nn.LSTM(in_channels, hidden, num_layers=2, direction="bidirectional")

    def forward(self, x):
        assert x.shape[2] == 1
        x = x.squeeze(axis=2).transpose([0, 2, 1])
        out, _ = self.lstm(x)
        return out


class Recogniser(nn.Layer):
    def __init__(self, backbone, hidden, head):
        super().__init__()
        self.backbone = backbone
        self.encoder = SequenceEncoder(backbone.out_channels, hidden)
        self.head = head

    def forward(self, image, targets=None):
        return self.head(self.encoder(self.backbone(image)), targets)
