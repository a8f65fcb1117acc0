import functools
import logging
import time
import warnings

import paddle

log = logging.getLogger("train")
logging.basicConfig(level=logging.INFO)


def timed(f):
    @functools.wraps(f)
    def run(*args, **kwargs):
        begun = time.perf_counter()
        try:
            return f(*args, **kwargs)
        finally:
            log.info("%s took %.1f s", f.__name__, time.perf_counter() - begun)

    return run


class Meter:
    def __init__(self):
        self.total = self.many = 0

    def update(self, value, n=1):
        self.total, self.many = self.total + value * n, self.many + n

    @property
    def mean(self):
        return self.total / self.many if self.many else 0


teacher = paddle.vision.models.resnet18(num_classes=10)
student = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3, stride=2), paddle.nn.AdaptiveAvgPool2D(1), paddle.nn.Flatten(), paddle.nn.Linear(8, 10))
teacher.eval()
for p in teacher.parameters():
    p.stop_gradient = True
opt = paddle.optimizer.Lamb(0.001, parameters=student.parameters())
ema = {k: v.clone() for k, v in student.state_dict().items()}
meter = Meter()


@timed
def step(x):
    with paddle.no_grad():
        soft = paddle.nn.functional.softmax(teacher(x) / 4.0)
    out = student(x)
    loss = paddle.nn.functional.kl_div(paddle.nn.functional.log_softmax(out / 4.0), soft, reduction="batchmean") * 16
    (loss / 2).backward()
    return loss


for i in range(6):
    loss = step(paddle.rand([4, 3, 32, 32]))
    if (i + 1) % 2 == 0:
        opt.step()
        opt.clear_grad()
        with paddle.no_grad():
            for k, v in student.state_dict().items():
                ema[k] = ema[k] * 0.99 + v * 0.01
    meter.update(loss.item(), 4)
    if meter.mean > 1e9:
        warnings.warn("large")
print(f"{meter.mean:.3f} {loss.item():>8.4f}")
