"""A small residual network trained as a static program."""
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
import paddle.static as static

paddle.enable_static()

BATCH_SIZE = 32
CLASSES = 12
SIDE = 48


def conv_bn(x, filters, stride=1, act="relu"):
    x = nn.Conv2D(x.shape[1], filters, 3, stride=stride, padding=1, bias_attr=False)(x)
    x = nn.BatchNorm2D(filters)(x)
    return getattr(F, act)(x) if act else x


def residual(x, filters, stride):
    short = x
    if stride != 1 or x.shape[1] != filters:
        short = nn.Conv2D(x.shape[1], filters, 1, stride=stride, bias_attr=False)(x)
        short = nn.BatchNorm2D(filters)(short)
    y = conv_bn(x, filters, stride)
    y = conv_bn(y, filters, act=None)
    return F.relu(y + short)


def network(image):
    x = conv_bn(image, 32)
    for filters, stride in [(32, 1), (64, 2), (64, 1), (128, 2), (128, 1)]:
        x = residual(x, filters, stride)
    x = F.adaptive_avg_pool2d(x, 1)
    x = paddle.flatten(x, start_axis=1)
    return nn.Linear(x.shape[1], CLASSES)(x)


def feeder(rng):
    while True:
        yield {
            "image": rng.rand(BATCH_SIZE, 3, SIDE, SIDE).astype("float32"),
            "label": rng.randint(0, CLASSES, (BATCH_SIZE, 1)).astype("int64"),
        }


def main():
    main_program, startup = static.Program(), static.Program()
    with static.program_guard(main_program, startup):
        image = static.data("image", [None, 3, SIDE, SIDE], "float32")
        label = static.data("label", [None, 1], "int64")
        logits = network(image)
        loss = paddle.mean(F.softmax_with_cross_entropy(logits, label))
        accuracy = static.accuracy(F.softmax(logits), label)
        optimizer = paddle.optimizer.Momentum(0.01, 0.9, weight_decay=paddle.regularizer.L2Decay(1e-4))
        optimizer.minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup)
    for step, feed in zip(range(200), feeder(np.random.RandomState(0))):
        value, acc = exe.run(main_program, feed=feed, fetch_list=[loss, accuracy])
        print(step, float(value), float(np.asarray(acc).reshape(-1)[0]))


if __name__ == "__main__":
    main()
