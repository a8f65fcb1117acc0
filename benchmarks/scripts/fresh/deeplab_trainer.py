import argparse
import logging
import os
from collections import defaultdict

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset, DistributedBatchSampler
from paddle.vision import transforms as T
from paddle.vision.models import resnet18

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
logger = logging.getLogger("seg")
IGNORE = 255


class ToyScenes(Dataset):
    def __init__(self, num=160, size=(96, 128), num_classes=8):
        self.num = num
        self.size = size
        self.num_classes = num_classes
        self.transform = T.Compose([T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)])

    def __getitem__(self, idx):
        h, w = self.size
        image = np.random.randint(0, 255, (h, w, 3), dtype=np.uint8)
        label = np.zeros((h, w), dtype=np.int64)
        for c in range(1, self.num_classes):
            y, x = np.random.randint(0, h - 16), np.random.randint(0, w - 16)
            label[y:y + 16, x:x + 16] = c
        label[:2] = IGNORE
        return self.transform(image), label

    def __len__(self):
        return self.num


class Backbone(nn.Layer):
    def __init__(self, pretrained=None):
        super().__init__()
        net = resnet18(pretrained=False, num_classes=0, with_pool=False)
        self.conv1, self.bn1, self.relu, self.maxpool = net.conv1, net.bn1, net.relu, net.maxpool
        self.layer1, self.layer2 = net.layer1, net.layer2
        self.layer3, self.layer4 = net.layer3, net.layer4
        self.feat_channels = [64, 128, 256, 512]

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        out = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
            out.append(x)
        return out


class ConvBNReLU(nn.Layer):
    def __init__(self, in_channels, out_channels, kernel_size, padding="same", **kwargs):
        super().__init__()
        self._conv = nn.Conv2D(in_channels, out_channels, kernel_size, padding=padding, **kwargs)
        self._batch_norm = nn.BatchNorm2D(out_channels)
        self._relu = nn.ReLU()

    def forward(self, x):
        return self._relu(self._batch_norm(self._conv(x)))


class ASPP(nn.Layer):
    def __init__(self, in_channels, out_channels, rates, drop=0.1):
        super().__init__()
        self.branches = nn.LayerList()
        for r in rates:
            k = 1 if r == 1 else 3
            self.branches.append(ConvBNReLU(in_channels, out_channels, k, dilation=r,
                                            bias_attr=False))
        self.image_pool = nn.Sequential(
            nn.AdaptiveAvgPool2D(output_size=(1, 1)),
            ConvBNReLU(in_channels, out_channels, 1, bias_attr=False))
        self.project = ConvBNReLU(out_channels * (len(rates) + 1), out_channels, 1,
                                  bias_attr=False)
        self.dropout = nn.Dropout(p=drop)

    def forward(self, x):
        outs = [b(x) for b in self.branches]
        pooled = F.interpolate(self.image_pool(x), size=x.shape[2:], mode="bilinear",
                               align_corners=False)
        outs.append(pooled)
        return self.dropout(self.project(paddle.concat(outs, axis=1)))


class FCNHead(nn.Sequential):
    def __init__(self, cin, classes):
        super().__init__(ConvBNReLU(cin, cin // 4, 3, padding=1), nn.Dropout(0.1),
                         nn.Conv2D(cin // 4, classes, 1))


class DeepLab(nn.Layer):
    def __init__(self, num_classes, backbone, aspp_ratios=(1, 3, 6, 9), aspp_out=128, low_level=48):
        super().__init__()
        self.backbone = backbone
        chs = backbone.feat_channels
        self.aspp = ASPP(chs[3], aspp_out, aspp_ratios)
        self.low = ConvBNReLU(chs[0], low_level, 1)
        self.fuse = nn.Sequential(
            ("a", ConvBNReLU(aspp_out + low_level, aspp_out, 3)),
            ("b", ConvBNReLU(aspp_out, aspp_out, 3)))
        self.cls = nn.Conv2D(aspp_out, num_classes, 1)
        self.aux = FCNHead(chs[2], num_classes)

    def forward(self, x):
        feats = self.backbone(x)
        y = self.aspp(feats[3])
        low = self.low(feats[0])
        y = F.interpolate(y, low.shape[2:], mode="bilinear", align_corners=False)
        logit_list = [self.cls(self.fuse(paddle.concat([y, low], axis=1)))]
        if self.training:
            logit_list.append(self.aux(feats[2]))
        return [F.interpolate(l, size=x.shape[2:], mode="bilinear") for l in logit_list]


class DiceLoss(nn.Layer):
    def __init__(self, ignore_index=255, smooth=1.0):
        super().__init__()
        self.ignore_index, self.smooth = ignore_index, smooth

    def forward(self, logit, label):
        probs = F.softmax(logit, axis=1)
        mask = (label != self.ignore_index)
        safe = paddle.where(mask, label, paddle.zeros_like(label))
        onehot = F.one_hot(safe, logit.shape[1]).transpose([0, 3, 1, 2])
        m = mask.unsqueeze(1).astype("float32")
        inter = (probs * onehot * m).sum([0, 2, 3])
        union = ((probs + onehot) * m).sum([0, 2, 3])
        return 1 - ((2 * inter + self.smooth) / (union + self.smooth)).mean()


class Trainer:
    def __init__(self, model, dataset, losses, coef, *, batch_size, iters, lr, log_iters=5):
        self.model = model
        self.losses, self.coef = losses, coef
        self.iters, self.log_iters = iters, log_iters
        sampler = DistributedBatchSampler(dataset, batch_size=batch_size, shuffle=True,
                                          drop_last=True)
        self.loader = DataLoader(dataset, batch_sampler=sampler, num_workers=0)
        self.scheduler = paddle.optimizer.lr.PolynomialDecay(lr, iters, end_lr=1e-5, power=0.9)
        self.optimizer = paddle.optimizer.SGD(
            self.scheduler, parameters=self._groups(lr), weight_decay=4e-5)
        self.meters = defaultdict(float)

    def _groups(self, lr):
        backbone, head = [], []
        for name, p in self.model.named_parameters():
            (backbone if name.startswith("backbone") else head).append(p)
        return [{"params": backbone, "learning_rate": 0.1}, {"params": head}]

    def loss_computation(self, logits_list, labels):
        loss_list = []
        for logits, w in zip(logits_list, self.coef):
            for loss_fn, lw in self.losses:
                loss_list.append(w * lw * loss_fn(logits, labels))
        return loss_list

    def train(self):
        self.model.train()
        iter = 0
        while iter < self.iters:
            for data in self.loader:
                iter += 1
                if iter > self.iters:
                    break
                images, labels = data[0], data[1].astype("int64")
                logits_list = self.model(images)
                loss_list = self.loss_computation(logits_list, labels)
                loss = sum(loss_list)
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.model.clear_gradients()
                self.meters["loss"] += loss.numpy()
                if iter % self.log_iters == 0:
                    logger.info("[TRAIN] iter: %d/%d, loss: %.4f, lr: %.6f", iter, self.iters,
                                self.meters["loss"] / self.log_iters, self.optimizer.get_lr())
                    self.meters.clear()


def parse_args():
    parser = argparse.ArgumentParser(description="Model training")
    parser.add_argument("--iters", dest="iters", default=10, type=int)
    parser.add_argument("--batch_size", dest="batch_size", help="Mini batch size", default=4, type=int)
    parser.add_argument("--learning_rate", dest="learning_rate", default=0.01, type=float)
    parser.add_argument("--save_dir", default="./output", type=str)
    parser.add_argument("--num_classes", default=8, type=int)
    return parser.parse_args()


def main(args):
    place = "gpu" if paddle.is_compiled_with_cuda() else "cpu"
    paddle.set_device(place)
    model = DeepLab(args.num_classes, Backbone())
    ce = nn.CrossEntropyLoss(ignore_index=IGNORE, axis=1)
    losses = [(ce, 1.0), (DiceLoss(IGNORE), 0.5)]
    Trainer(model, ToyScenes(num_classes=args.num_classes), losses, coef=[1, 0.4],
            batch_size=args.batch_size, iters=args.iters, lr=args.learning_rate).train()


if __name__ == "__main__":
    main(parse_args())
