#!/usr/bin/env python
"""Knowledge distillation: a frozen ResNet-34 teaches a small student by logits and by features."""
import click
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, TensorDataset
from paddle.vision.models import resnet34


class DepthwiseBlock(nn.Layer):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.dw = nn.Conv2D(cin, cin, 3, stride=stride, padding=1, groups=cin, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(cin)
        self.pw = nn.Conv2D(cin, cout, 1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(cout)

    def forward(self, x):
        x = F.relu6(self.bn1(self.dw(x)))
        return F.relu6(self.bn2(self.pw(x)))


class Student(nn.Layer):
    plan = [(32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)]

    def __init__(self, num_classes, feature_dim):
        super().__init__()
        self.stem = nn.Conv2D(3, 32, 3, stride=2, padding=1)
        blocks, cin = [], 32
        for cout, stride in self.plan:
            blocks.append(DepthwiseBlock(cin, cout, stride))
            cin = cout
        self.blocks = nn.Sequential(*blocks)
        self.project = nn.Conv2D(cin, feature_dim, 1)
        self.fc = nn.Linear(cin, num_classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(x.mean(axis=[2, 3])), self.project(x)


class Teacher(nn.Layer):
    def __init__(self, num_classes):
        super().__init__()
        self.net = resnet34(pretrained=False, num_classes=num_classes)

    @paddle.no_grad()
    def forward(self, x):
        n = self.net
        x = n.maxpool(n.relu(n.bn1(n.conv1(x))))
        for stage in (n.layer1, n.layer2, n.layer3, n.layer4):
            x = stage(x)
        return n.fc(paddle.flatten(n.avgpool(x), 1)), x


def kd_loss(student, teacher, t):
    soft = F.softmax(teacher / t)
    return F.kl_div(F.log_softmax(student / t), soft, reduction="batchmean") * t * t


def feature_loss(student, teacher):
    if student.shape[2:] != teacher.shape[2:]:
        student = F.adaptive_avg_pool2d(student, teacher.shape[2:])
    return F.mse_loss(F.normalize(student.flatten(2), axis=1), F.normalize(teacher.flatten(2), axis=1))


@click.command()
@click.option("--batch-size", default=16, show_default=True, help="pictures per step")
@click.option("--num-classes", default=20, type=int)
@click.option("--temperature", "-t", default=4.0)
@click.option("--alpha", default=0.7)
@click.option("--beta", type=float, default=10.0)
@click.option("--epochs", default=3)
def main(batch_size, num_classes, temperature, alpha, beta, epochs):
    images = paddle.to_tensor(np.random.rand(160, 3, 96, 96).astype("float32"))
    labels = paddle.to_tensor(np.random.randint(0, num_classes, (160, 1)))
    loader = DataLoader(TensorDataset([images, labels]), batch_size=batch_size, shuffle=True, drop_last=True)

    teacher = Teacher(num_classes)
    teacher.eval()
    student = Student(num_classes, feature_dim=512)
    lr = paddle.optimizer.lr.StepDecay(0.05, step_size=30, gamma=0.1)
    opt = paddle.optimizer.Momentum(lr, momentum=0.9, parameters=student.parameters(),
                                    weight_decay=paddle.regularizer.L2Decay(1e-4))
    ce = nn.CrossEntropyLoss(label_smoothing=0.0)
    for epoch in range(1, epochs + 1):
        for x, y in loader:
            t_logits, t_feat = teacher(x)
            s_logits, s_feat = student(x)
            loss = (1 - alpha) * ce(s_logits, y)
            loss += alpha * kd_loss(s_logits, t_logits, temperature)
            loss += beta * feature_loss(s_feat, t_feat)
            loss.backward()
            opt.step()
            opt.clear_grad()
        lr.step()
        acc = (s_logits.argmax(axis=-1) == y.squeeze(-1)).astype("float32").mean()
        click.echo(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {acc.item():.3f}")


if __name__ == "__main__":
    main()
