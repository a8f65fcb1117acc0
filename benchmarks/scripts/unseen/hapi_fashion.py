"""Fashion items with the high-level API."""
import numpy as np
import paddle
from paddle import nn
from paddle.metric import Accuracy
from paddle.vision import transforms as T
from PIL import Image

BATCH_SIZE = 64
EPOCHS = 3
CLASSES = 10

transform = T.Compose([
    T.Resize((36, 36)),
    T.RandomCrop(32),
    T.RandomHorizontalFlip(),
    T.ToTensor(),
    T.Normalize(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),
])


class Items(paddle.io.Dataset):
    def __init__(self, mode="train", transform=None):
        self.transform = transform
        count = 1200 if mode == "train" else 200
        rng = np.random.default_rng(0 if mode == "train" else 1)
        self.labels = rng.integers(0, CLASSES, count)
        self.seeds = rng.integers(0, 2**31, count)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        picture = np.random.default_rng(self.seeds[index]).integers(0, 255, (40, 40, 3)).astype("uint8")
        picture = Image.fromarray(picture)
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, np.array([self.labels[index]], dtype="int64")


class ConvBlock(nn.Layer):
    def __init__(self, cin, cout, pool=True, p=0.1):
        super().__init__()
        self.conv = nn.Conv2D(cin, cout, 3, padding=1)
        self.bn = nn.BatchNorm2D(cout)
        self.act = nn.Hardswish()
        self.pool = nn.MaxPool2D(2, 2) if pool else None
        self.drop = nn.Dropout(p)

    def forward(self, x):
        x = self.act(self.bn(self.conv(x)))
        if self.pool is not None:
            x = self.pool(x)
        return self.drop(x)


class Net(nn.Layer):
    def __init__(self, widths=(32, 64, 96), num_classes=CLASSES):
        super().__init__()
        blocks = []
        cin = 3
        for i, w in enumerate(widths):
            blocks.append(ConvBlock(cin, w, pool=i < 2))
            cin = w
        self.features = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2D((2, 2))
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(cin * 4, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, num_classes),
        )

    def forward(self, x):
        return self.head(self.pool(self.features(x)))


train_set = Items("train", transform)
val_set = Items("val", transform)

model = paddle.Model(Net())
steps = len(train_set) // BATCH_SIZE + 1
scheduler = paddle.optimizer.lr.CosineAnnealingDecay(learning_rate=0.05, T_max=steps * EPOCHS)
optimizer = paddle.optimizer.Momentum(
    learning_rate=scheduler,
    momentum=0.9,
    weight_decay=paddle.regularizer.L2Decay(1e-4),
    parameters=model.parameters(),
)
model.prepare(optimizer, nn.CrossEntropyLoss(), Accuracy(topk=(1, 5)))
model.fit(train_set, val_set, batch_size=BATCH_SIZE, epochs=EPOCHS, eval_freq=1, log_freq=5, verbose=2, shuffle=True)
model.save("output/fashion")
