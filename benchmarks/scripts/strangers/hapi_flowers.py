# High-level API: fine-tune style training of a vision backbone with callbacks
import numpy as np
import paddle
from paddle.callbacks import Callback, LRScheduler
from paddle.metric import Accuracy
from paddle.vision import transforms
from paddle.vision.models import resnet18
from PIL import Image

BATCH_SIZE = 16
EPOCHS = 1
NUM_CLASSES = 17
CROP = 72
STEPS = 8
LR = 0.01


class FakeFlowers(paddle.io.Dataset):
    def __init__(self, length, transform=None):
        self.length = length
        self.transform = transform

    def __getitem__(self, idx):
        rng = np.random.RandomState(idx)
        label = idx % NUM_CLASSES
        image = rng.randint(0, 128, size=(CROP + 8, CROP + 8, 3)).astype('uint8')
        image[..., label % 3] += np.uint8(7 * label)
        image = Image.fromarray(image)
        if self.transform is not None:
            image = self.transform(image)
        return image, np.array([label], dtype='int64')

    def __len__(self):
        return self.length


class LossLogger(Callback):
    def __init__(self, every=2):
        super().__init__()
        self.every = every
        self.losses = []

    def on_train_batch_end(self, step, logs=None):
        loss = logs['loss']
        self.losses.append(float(np.asarray(loss).reshape(-1)[0]))
        if step % self.every == 0:
            print('  [callback] step', step, 'running mean loss', round(float(np.mean(self.losses)), 4))

    def on_train_end(self, logs=None):
        print('final mean loss', np.mean(self.losses[-5:]))


train_tf = transforms.Compose([
    transforms.RandomHorizontalFlip(0.5),
    transforms.CenterCrop(CROP),
    transforms.Transpose(),
    transforms.Normalize(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]),
])

paddle.seed(1)
train_dataset = FakeFlowers(BATCH_SIZE * STEPS, train_tf)

backbone = resnet18(pretrained=False, num_classes=NUM_CLASSES)
# freeze the stem, as in the tutorial
for p in backbone.conv1.parameters():
    p.stop_gradient = True

model = paddle.Model(backbone)
schedule = paddle.optimizer.lr.CosineAnnealingDecay(learning_rate=LR, T_max=STEPS * EPOCHS)
optim = paddle.optimizer.Momentum(learning_rate=schedule, momentum=0.9,
                                  parameters=[p for p in backbone.parameters() if not p.stop_gradient],
                                  weight_decay=paddle.regularizer.L2Decay(5e-4))
model.prepare(optimizer=optim, loss=paddle.nn.CrossEntropyLoss(), metrics=Accuracy(topk=(1, 5)))
model.fit(train_dataset, epochs=EPOCHS, batch_size=BATCH_SIZE, shuffle=True, drop_last=True, verbose=2, log_freq=4,
          callbacks=[LossLogger(), LRScheduler(by_step=True, by_epoch=False)])
