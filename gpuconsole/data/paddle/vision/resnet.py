"""ResNet, ResNeXt and wide ResNet."""

import paddle
from paddle import nn

STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3),
          152: (3, 8, 36, 3)}  # fmt: skip


class BasicBlock(nn.Layer):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64,
                 dilation=1, norm_layer=None):  # fmt: skip
        super().__init__()
        norm = nn.BatchNorm2D if norm_layer is None else norm_layer
        self.conv1 = nn.Conv2D(inplanes, planes, 3, stride, 1, bias_attr=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x):
        side = x
        y = self.conv1(x)
        y = self.bn1(y)
        y = self.relu(y)
        y = self.conv2(y)
        y = self.bn2(y)
        if self.downsample is not None:
            side = self.downsample(x)
        y += side
        y = self.relu(y)
        return y


class BottleneckBlock(nn.Layer):
    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64,
                 dilation=1, norm_layer=None):  # fmt: skip
        super().__init__()
        norm = nn.BatchNorm2D if norm_layer is None else norm_layer
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = nn.Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2D(width, width, 3, stride, dilation, dilation, groups,
                               bias_attr=False)  # fmt: skip
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2D(width, planes * self.expansion, 1, bias_attr=False)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample = downsample
        self.stride = stride

    def forward(self, x):
        side = x
        y = self.conv1(x)
        y = self.bn1(y)
        y = self.relu(y)
        y = self.conv2(y)
        y = self.bn2(y)
        y = self.relu(y)
        y = self.conv3(y)
        y = self.bn3(y)
        if self.downsample is not None:
            side = self.downsample(x)
        y += side
        y = self.relu(y)
        return y


class ResNet(nn.Layer):
    def __init__(self, block, depth=50, width=64, num_classes=1000, with_pool=True, groups=1):
        super().__init__()
        counts = STAGES[depth]
        self.groups = groups
        self.base_width = width
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.inplanes = 64
        self.dilation = 1
        self.conv1 = nn.Conv2D(3, 64, 7, 2, 3, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2D(3, 2, 1)
        self.layer1 = self._make_layer(block, 64, counts[0])
        self.layer2 = self._make_layer(block, 128, counts[1], 2)
        self.layer3 = self._make_layer(block, 256, counts[2], 2)
        self.layer4 = self._make_layer(block, 512, counts[3], 2)
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = nn.Linear(512 * block.expansion, num_classes)

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        before = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        wide = planes * block.expansion
        shortcut = None
        if stride != 1 or self.inplanes != wide:
            shortcut = nn.Sequential(nn.Conv2D(self.inplanes, wide, 1, stride, bias_attr=False),
                                     nn.BatchNorm2D(wide))  # fmt: skip
        shared = {"groups": self.groups, "base_width": self.base_width,
                  "norm_layer": nn.BatchNorm2D}  # fmt: skip
        made = [block(self.inplanes, planes, stride, shortcut, dilation=before, **shared)]
        self.inplanes = wide
        return nn.Sequential(*made, *[block(wide, planes, **shared) for _ in range(1, blocks)])

    def forward(self, x):
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self.fc(x)
        return x


def _maker(block, depth, width=64, groups=1):
    def make(pretrained=False, **options):
        return ResNet(block, depth, **{"width": width, "groups": groups, **options})

    return make


resnet18 = _maker(BasicBlock, 18)
resnet34 = _maker(BasicBlock, 34)
resnet50 = _maker(BottleneckBlock, 50)
resnet101 = _maker(BottleneckBlock, 101)
resnet152 = _maker(BottleneckBlock, 152)
resnext50_32x4d = _maker(BottleneckBlock, 50, 4, 32)
resnext50_64x4d = _maker(BottleneckBlock, 50, 4, 64)
resnext101_32x4d = _maker(BottleneckBlock, 101, 4, 32)
resnext101_64x4d = _maker(BottleneckBlock, 101, 4, 64)
resnext152_32x4d = _maker(BottleneckBlock, 152, 4, 32)
resnext152_64x4d = _maker(BottleneckBlock, 152, 4, 64)
wide_resnet50_2 = _maker(BottleneckBlock, 50, 128)
wide_resnet101_2 = _maker(BottleneckBlock, 101, 128)
