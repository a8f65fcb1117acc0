"""PointNet with both alignment nets, trained by the high-level API with callbacks."""
import numpy as np
import paddle
from paddle import nn
from paddle.callbacks import Callback, EarlyStopping, LRScheduler
from paddle.metric import Accuracy
from paddle.static import InputSpec

NUM_POINT = 512
NUM_CLASS = 10
BATCH_SIZE = 32


class ShapePoints(paddle.io.Dataset):
    def __init__(self, mode="train", num_point=NUM_POINT):
        super().__init__()
        self.num_point = num_point
        self.augment = mode == "train"
        self.size = 2000 if mode == "train" else 256

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        rng = np.random.RandomState(index)
        label = index % NUM_CLASS
        points = rng.standard_normal((self.num_point, 3)).astype("float32")
        points /= np.linalg.norm(points, axis=1, keepdims=True) + label
        if self.augment:
            points += np.clip(0.01 * rng.randn(*points.shape), -0.05, 0.05).astype("float32")
        return points.T, np.array([label], dtype="int64")


def conv_bn(cin, cout):
    return nn.Sequential(nn.Conv1D(cin, cout, 1), nn.BatchNorm1D(cout), nn.ReLU())


def fc_bn(cin, cout):
    return nn.Sequential(nn.Linear(cin, cout), nn.BatchNorm1D(cout), nn.ReLU())


class TNet(nn.Layer):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(conv_bn(k, 64), conv_bn(64, 128), conv_bn(128, 512))
        self.pool = nn.AdaptiveMaxPool1D(1)
        self.fc = nn.Sequential(
            fc_bn(512, 256),
            fc_bn(256, 128),
            nn.Linear(128, k * k, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.0)),
                      bias_attr=paddle.ParamAttr(initializer=nn.initializer.Assign(np.eye(k).reshape(-1)))),
        )

    def forward(self, x):
        y = self.pool(self.mlp(x)).squeeze(-1)
        return self.fc(y).reshape((-1, self.k, self.k))


class PointNet(nn.Layer):
    def __init__(self, num_class=NUM_CLASS):
        super().__init__()
        self.input_transform = TNet(3)
        self.feature_transform = TNet(64)
        self.mlp1 = nn.Sequential(conv_bn(3, 64), conv_bn(64, 64))
        self.mlp2 = nn.Sequential(conv_bn(64, 64), conv_bn(64, 128), conv_bn(128, 512))
        self.head = nn.Sequential(fc_bn(512, 256), nn.Dropout(p=0.4), nn.Linear(256, num_class))

    def forward(self, inputs):
        t1 = self.input_transform(inputs)
        x = paddle.transpose(inputs, (0, 2, 1))
        x = paddle.matmul(x, t1)
        x = self.mlp1(paddle.transpose(x, (0, 2, 1)))
        t2 = self.feature_transform(x)
        x = paddle.matmul(paddle.transpose(x, (0, 2, 1)), t2)
        x = self.mlp2(paddle.transpose(x, (0, 2, 1)))
        x = nn.functional.max_pool1d(x, x.shape[-1]).squeeze(-1)
        return self.head(x), t2


class PointNetLoss(nn.Layer):
    def __init__(self, reg=0.001):
        super().__init__()
        self.ce = nn.CrossEntropyLoss()
        self.reg = reg

    def forward(self, logits, trans, label):
        k = trans.shape[1]
        diff = paddle.bmm(trans, trans.transpose([0, 2, 1])) - paddle.eye(k)
        return self.ce(logits, label) + self.reg * paddle.mean(paddle.sum(diff * diff, axis=[1, 2]))


class FirstOutputAccuracy(Accuracy):
    def compute(self, logits, trans, label):
        return super().compute(logits, label)


class PrintEpoch(Callback):
    def on_epoch_begin(self, epoch=None, logs=None):
        print("epoch", epoch)

    def on_train_batch_end(self, step, logs=None):
        if step % 10 == 0:
            print("  step", step, "loss", (logs or {}).get("loss"))


model = paddle.Model(
    PointNet(),
    inputs=[InputSpec([None, 3, NUM_POINT], "float32", "points")],
    labels=[InputSpec([None, 1], "int64", "label")],
)
model.prepare(
    paddle.optimizer.Adam(
        paddle.optimizer.lr.ExponentialDecay(0.001, gamma=0.9), parameters=model.parameters(), weight_decay=1e-4
    ),
    PointNetLoss(),
    FirstOutputAccuracy(),
)
model.fit(
    train_data=ShapePoints("train"),
    eval_data=ShapePoints("test"),
    batch_size=BATCH_SIZE,
    epochs=5,
    eval_freq=5,
    drop_last=True,
    verbose=0,
    callbacks=[PrintEpoch(), LRScheduler(by_step=False, by_epoch=True), EarlyStopping("loss", patience=3)],
)
