"""U-Net for nuclei-like blob segmentation on synthetic microscopy images."""
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
import paddle.vision.transforms as T
from paddle.io import DataLoader, Dataset
from PIL import Image

# ---------------------------------------------------------------- settings
IMAGE_SIZE = (96, 96)
NUM_CLASSES = 3
BATCH_SIZE = 8
EPOCHS = 1
BASE_WIDTH = 24
TRAIN_NUM = 192
LEARNING_RATE = 1e-3
USE_AMP = False
SAVE_PATH = None


class CellDataset(Dataset):
    """raw images are 128x128 uint8; transforms bring them to IMAGE_SIZE"""

    RAW = 128

    def __init__(self, num, mode="train"):
        self.num = num
        self.mode = mode
        self.seed = 0 if mode == "train" else 10 ** 6
        self.transforms = T.Compose([
            T.Resize(IMAGE_SIZE),
            T.ColorJitter(0.2, 0.2, 0.0, 0.0),
            T.Transpose(),
            T.Normalize(mean=[127.5] * 3, std=[127.5] * 3),
        ]) if mode == "train" else T.Compose([
            T.Resize(IMAGE_SIZE),
            T.Transpose(),
            T.Normalize(mean=[127.5] * 3, std=[127.5] * 3),
        ])

    def _render(self, index):
        rng = np.random.RandomState(self.seed + index)
        img = rng.normal(90, 12, (self.RAW, self.RAW, 3))
        mask = np.zeros((self.RAW, self.RAW), "int64")
        ys, xs = np.ogrid[:self.RAW, :self.RAW]
        for k in range(5):
            cy, cx = rng.randint(10, self.RAW - 10, 2)
            r = rng.randint(6, 14)
            d = (ys - cy) ** 2 + (xs - cx) ** 2
            mask[d < r * r] = 1
            mask[d < (r // 2) ** 2] = 2
        img[mask == 1] += 60
        img[mask == 2] += 110
        return Image.fromarray(np.clip(img, 0, 255).astype("uint8")), mask

    def __getitem__(self, index):
        img, mask = self._render(index)
        img = self.transforms(img)
        # nearest resize of the mask
        iy = (np.arange(IMAGE_SIZE[0]) * self.RAW / IMAGE_SIZE[0]).astype("int64")
        ix = (np.arange(IMAGE_SIZE[1]) * self.RAW / IMAGE_SIZE[1]).astype("int64")
        return np.asarray(img, "float32"), mask[iy][:, ix]

    def __len__(self):
        return self.num


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2D(cin, cout, 3, padding=1, bias_attr=False), nn.BatchNorm2D(cout), nn.ReLU(),
        nn.Conv2D(cout, cout, 3, padding=1, bias_attr=False), nn.BatchNorm2D(cout), nn.ReLU())


class Encoder(nn.Layer):
    def __init__(self, width, depth=4):
        super().__init__()
        self.stem = double_conv(3, width)
        self.downs = nn.LayerList([
            nn.Sequential(nn.MaxPool2D(2, 2), double_conv(width * 2 ** i, width * 2 ** (i + 1)))
            for i in range(depth - 1)])
        self.bottom = nn.Sequential(nn.MaxPool2D(2, 2),
                                    double_conv(width * 2 ** (depth - 1), width * 2 ** (depth - 1)))

    def forward(self, x):
        shortcuts = [self.stem(x)]
        for d in self.downs:
            shortcuts.append(d(shortcuts[-1]))
        return self.bottom(shortcuts[-1]), shortcuts


class UpSampling(nn.Layer):
    def __init__(self, cin, cskip, cout, use_deconv):
        super().__init__()
        self.use_deconv = use_deconv
        if use_deconv:
            self.deconv = nn.Conv2DTranspose(cin, cin, kernel_size=2, stride=2)
        self.conv = double_conv(cin + cskip, cout)

    def forward(self, x, skip):
        if self.use_deconv:
            x = self.deconv(x)
        else:
            x = F.interpolate(x, skip.shape[2:], mode="bilinear", align_corners=False)
        return self.conv(paddle.concat([x, skip], axis=1))


class UNet(nn.Layer):
    def __init__(self, num_classes, width=64, depth=4, use_deconv=False):
        super().__init__()
        self.encode = Encoder(width, depth)
        ups, cin = [], width * 2 ** (depth - 1)
        for i in reversed(range(depth)):
            cskip = width * 2 ** i
            cout = width * 2 ** max(i - 1, 0)
            ups.append(UpSampling(cin, cskip, cout, use_deconv))
            cin = cout
        self.decode = nn.LayerList(ups)
        self.cls = nn.Conv2D(cin, num_classes, 3, padding=1)

    def forward(self, x):
        x, shortcuts = self.encode(x)
        for up, skip in zip(self.decode, shortcuts[::-1]):
            x = up(x, skip)
        return self.cls(x)


def dice_loss(logit, label, eps=1e-5):
    prob = F.softmax(logit, axis=1)
    target = F.one_hot(label, NUM_CLASSES).transpose([0, 3, 1, 2])
    inter = (prob * target).sum(axis=[0, 2, 3])
    union = prob.sum(axis=[0, 2, 3]) + target.sum(axis=[0, 2, 3])
    return 1 - ((2 * inter + eps) / (union + eps)).mean()


def mean_iou(pred, label):
    ious = []
    for c in range(NUM_CLASSES):
        p, l = pred == c, label == c
        ious.append((p & l).sum() / max(1, (p | l).sum()))
    return float(np.mean(ious))


def main():
    paddle.seed(7)
    train_loader = DataLoader(CellDataset(TRAIN_NUM), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    model = UNet(NUM_CLASSES, BASE_WIDTH)
    sched = paddle.optimizer.lr.PolynomialDecay(LEARNING_RATE, decay_steps=len(train_loader) * EPOCHS, power=0.9)
    optim = paddle.optimizer.Adam(learning_rate=sched, parameters=model.parameters(), weight_decay=1e-5)
    ce = nn.CrossEntropyLoss(axis=1)
    for epoch in range(EPOCHS):
        model.train()
        for it, (img, mask) in enumerate(train_loader):
            with paddle.amp.auto_cast(enable=USE_AMP):
                logit = model(img)
                loss = 0.6 * ce(logit, mask) + 0.4 * dice_loss(logit, mask)
            loss.backward()
            optim.step()
            optim.clear_grad()
            sched.step()
            if it % 4 == 0:
                miou = mean_iou(logit.argmax(1).numpy(), mask.numpy())
                print(f"epoch {epoch} iter {it}/{len(train_loader)} loss {float(loss):.4f} mIoU {miou:.3f}")
    if SAVE_PATH:
        paddle.save(model.state_dict(), SAVE_PATH)


if __name__ == "__main__":
    main()
