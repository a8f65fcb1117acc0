import paddle.nn as nn


class SmallVGG(nn.Layer):
    def __init__(self, channels, in_channels=3):
        super().__init__()
        body = []
        for i, c in enumerate(channels):
            body += [nn.Conv2D(in_channels, c, 3, padding=1), nn.BatchNorm2D(c), nn.ReLU()]
            if i < 2:
                body.append(nn.MaxPool2D(2, 2))
            else:
                body.append(nn.MaxPool2D((2, 1), (2, 1)))
            in_channels = c
        body.append(nn.Conv2D(in_channels, in_channels, (2, 1)))
        self.features = nn.Sequential(*body)
        self.out_channels = in_channels

    def forward(self, x):
        return self.features(x)
