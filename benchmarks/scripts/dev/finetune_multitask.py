"""Age and gender from faces: a pretrained-style VGG whose features are frozen, with two heads."""

import argparse

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset
from paddle.vision import transforms as T
from paddle.vision.models import mobilenet_v2, vgg11
from PIL import Image


def get_args():
    p = argparse.ArgumentParser("two heads on a frozen backbone")
    p.add_argument("--backbone", default="mobilenet_v2", choices=["mobilenet_v2", "vgg11"])
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--size", type=int, default=128)
    p.add_argument("--age-weight", dest="age_w", type=float, default=0.1)
    p.add_argument("--unfreeze-last", action="store_true")
    return p.parse_args()


class Faces(Dataset):
    def __init__(self, n, size, train=True):
        super().__init__()
        self.n = n
        ops = [T.Resize((size + 16, size + 16))]
        if train:
            ops += [T.RandomCrop(size), T.RandomHorizontalFlip()]
        else:
            ops += [T.CenterCrop(size)]
        ops += [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
        self.transform = T.Compose(ops)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        picture = rng.randint(0, 255, (160, 160, 3)).astype("uint8")
        age = np.array([rng.uniform(1, 90)], dtype="float32")
        gender = np.int64(rng.randint(2))
        return self.transform(Image.fromarray(picture)), age, gender


class FaceNet(nn.Layer):
    def __init__(self, backbone, width):
        super().__init__()
        self.backbone = backbone
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.shared = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Dropout(0.2))
        self.heads = nn.LayerDict({"age": nn.Linear(256, 1), "gender": nn.Linear(256, 2)})

    def forward(self, x):
        feature = self.pool(self.backbone(x)).flatten(1)
        feature = self.shared(feature)
        return {name: head(feature) for name, head in self.heads.items()}


def build(args):
    if args.backbone == "vgg11":
        body, width = vgg11(batch_norm=True, num_classes=-1, with_pool=False), 512
    else:
        body, width = mobilenet_v2(num_classes=-1, with_pool=False), 1280
    for p in body.parameters():
        p.stop_gradient = True
    if args.unfreeze_last:
        for p in body.features[-1].parameters():
            p.stop_gradient = False
    return FaceNet(body, width)


def main():
    args = get_args()
    paddle.seed(7)
    net = build(args)
    loader = DataLoader(Faces(4096, args.size), batch_size=args.batch_size, shuffle=True, drop_last=True,
                        num_workers=2)
    opt = paddle.optimizer.Adam(
        learning_rate=args.lr,
        parameters=[p for p in net.parameters() if not p.stop_gradient],
    )
    net.train()
    net.backbone.eval()
    for epoch in range(args.epochs):
        for step, (img, age, gender) in enumerate(loader):
            out = net(img)
            age_loss = F.smooth_l1_loss(out["age"], age)
            gender_loss = F.cross_entropy(out["gender"], gender)
            loss = gender_loss + args.age_w * age_loss
            loss.backward()
            opt.step()
            opt.clear_grad()
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} age {float(age_loss):.3f} gender {float(gender_loss):.3f}")


if __name__ == "__main__":
    main()
