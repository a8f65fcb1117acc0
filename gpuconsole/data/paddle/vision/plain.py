"""LeNet, AlexNet and VGG: layers one after the other."""

import paddle
from paddle import nn


class LeNet(nn.Layer):
    def __init__(self, num_classes=10):
        super().__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5), nn.ReLU(), nn.MaxPool2D(2, 2),
        )  # fmt: skip
        if num_classes > 0:
            self.fc = nn.Sequential(
                nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, num_classes)
            )

    def forward(self, inputs):
        x = self.features(inputs)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self.fc(x)
        return x


class ConvPoolLayer(nn.Layer):
    def __init__(self, fan_in, fan_out, kernel, stride, padding):
        super().__init__()
        self.relu = nn.ReLU()
        self._conv = nn.Conv2D(fan_in, fan_out, kernel, stride, padding)
        self._pool = nn.MaxPool2D(3, 2)

    def forward(self, inputs):
        x = self._conv(inputs)
        x = self.relu(x)
        x = self._pool(x)
        return x


class AlexNet(nn.Layer):
    def __init__(self, num_classes=1000):
        super().__init__()
        self.num_classes = num_classes
        self._conv1 = ConvPoolLayer(3, 64, 11, 4, 2)
        self._conv2 = ConvPoolLayer(64, 192, 5, 1, 2)
        self._conv3 = nn.Conv2D(192, 384, 3, padding=1)
        self._conv4 = nn.Conv2D(384, 256, 3, padding=1)
        self._conv5 = ConvPoolLayer(256, 256, 3, 1, 1)
        if num_classes > 0:
            self._drop1 = nn.Dropout(0.5, mode="downscale_in_infer")
            self._fc6 = nn.Linear(256 * 6 * 6, 4096)
            self._drop2 = nn.Dropout(0.5, mode="downscale_in_infer")
            self._fc7 = nn.Linear(4096, 4096)
            self._fc8 = nn.Linear(4096, num_classes)

    def forward(self, inputs):
        x = self._conv1(inputs)
        x = self._conv2(x)
        x = self._conv3(x)
        x = nn.functional.relu(x)
        x = self._conv4(x)
        x = nn.functional.relu(x)
        x = self._conv5(x)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self._drop1(x)
            x = self._fc6(x)
            x = nn.functional.relu(x)
            x = self._drop2(x)
            x = self._fc7(x)
            x = nn.functional.relu(x)
            x = self._fc8(x)
        return x


def alexnet(pretrained=False, **options):
    return AlexNet(**options)


class VGG(nn.Layer):
    def __init__(self, features, num_classes=1000, with_pool=True):
        super().__init__()
        self.features = features
        self.num_classes = num_classes
        self.with_pool = with_pool
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(),
                nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
                nn.Linear(4096, num_classes),
            )  # fmt: skip

    def forward(self, x):
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self.classifier(x)
        return x


def _vgg(*counts):
    def make(pretrained=False, batch_norm=False, **options):
        parts, channels = [], 3
        for stage, count in enumerate(counts):
            width = (64, 128, 256, 512, 512)[stage]
            for _ in range(count):
                parts.append(nn.Conv2D(channels, width, 3, padding=1))
                if batch_norm:
                    parts.append(nn.BatchNorm2D(width))
                parts.append(nn.ReLU())
                channels = width
            parts.append(nn.MaxPool2D(2, 2))
        return VGG(nn.Sequential(*parts), **options)

    return make


vgg11 = _vgg(1, 1, 2, 2, 2)
vgg13 = _vgg(2, 2, 2, 2, 2)
vgg16 = _vgg(2, 2, 3, 3, 3)
vgg19 = _vgg(2, 2, 4, 4, 4)
