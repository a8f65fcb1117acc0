import argparse
import logging

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

logger = logging.getLogger(__name__)


class Clouds(Dataset):
    def __init__(self, num_points, num_class, size=640, augment=True):
        self.num_points, self.num_class, self.size, self.augment = num_points, num_class, size, augment

    def __len__(self):
        return self.size

    def __getitem__(self, idx):
        rs = np.random.RandomState(idx)
        pts = rs.randn(self.num_points, 3).astype(np.float32)
        pts = pts - pts.mean(0, keepdims=True)
        pts /= np.max(np.sqrt((pts ** 2).sum(1)))
        if self.augment:
            theta = np.random.uniform(0, 2 * np.pi)
            rot = np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]])
            pts[:, [0, 2]] = pts[:, [0, 2]].dot(rot)
            pts += np.random.normal(0, 0.02, size=pts.shape)
        return pts.astype(np.float32), np.array(idx % self.num_class, dtype=np.int64)


class TNet(nn.Layer):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.convs = nn.LayerList([nn.Conv1D(k, 32, 1), nn.Conv1D(32, 64, 1), nn.Conv1D(64, 256, 1)])
        self.bns = nn.LayerList([nn.BatchNorm1D(c) for c in (32, 64, 256)])
        self.fc1 = nn.Linear(256, 128)
        self.fc2 = nn.Linear(128, k * k)
        self.bn = nn.BatchNorm1D(128)

    def forward(self, x):
        b = x.shape[0]
        for conv, bn in zip(self.convs, self.bns):
            x = F.relu(bn(conv(x)))
        x = paddle.max(x, axis=2)
        x = F.relu(self.bn(self.fc1(x)))
        x = self.fc2(x)
        iden = paddle.eye(self.k, dtype=x.dtype).reshape([1, self.k * self.k]).tile([b, 1])
        return (x + iden).reshape([-1, self.k, self.k])


class PointNet(nn.Layer):
    def __init__(self, num_class, feature_transform=True, dropout=0.3):
        super().__init__()
        self.stn = TNet(3)
        self.fstn = TNet(64) if feature_transform else None
        self.conv1, self.bn1 = nn.Conv1D(3, 64, 1), nn.BatchNorm1D(64)
        self.conv2, self.bn2 = nn.Conv1D(64, 128, 1), nn.BatchNorm1D(128)
        self.conv3, self.bn3 = nn.Conv1D(128, 512, 1), nn.BatchNorm1D(512)
        self.cls = nn.Sequential(
            nn.Linear(512, 256), nn.BatchNorm1D(256), nn.ReLU(),
            nn.Linear(256, 128), nn.Dropout(dropout), nn.BatchNorm1D(128), nn.ReLU(),
            nn.Linear(128, num_class))

    def forward(self, pts):
        x = pts.transpose([0, 2, 1])
        trans = self.stn(x)
        x = paddle.bmm(x.transpose([0, 2, 1]), trans).transpose([0, 2, 1])
        x = F.relu(self.bn1(self.conv1(x)))
        trans_feat = None
        if self.fstn is not None:
            trans_feat = self.fstn(x)
            x = paddle.bmm(x.transpose([0, 2, 1]), trans_feat).transpose([0, 2, 1])
        x = F.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x = paddle.max(x, axis=2)
        return F.log_softmax(self.cls(x), axis=-1), trans_feat


def transform_reg(trans):
    d = trans.shape[1]
    eye = paddle.eye(d).unsqueeze(0)
    diff = paddle.matmul(trans, trans, transpose_y=True) - eye
    return paddle.mean(paddle.norm(diff, axis=[1, 2]))


def main(args):
    logging.basicConfig(level=logging.INFO)
    paddle.seed(args.seed)
    train_loader = DataLoader(Clouds(args.num_point, args.num_class), batch_size=args.batch_size,
                              shuffle=True, num_workers=2, drop_last=True)
    model = PointNet(args.num_class, feature_transform=not args.no_feat_transform)
    lr = paddle.optimizer.lr.StepDecay(args.learning_rate, step_size=20, gamma=0.7)
    opt = paddle.optimizer.Adam(lr, parameters=model.parameters(), weight_decay=args.decay_rate)
    for epoch in range(args.epoch):
        model.train()
        mean_correct = []
        for points, target in train_loader:
            pred, trans_feat = model(points)
            loss = F.nll_loss(pred, target)
            if trans_feat is not None:
                loss = loss + 0.001 * transform_reg(trans_feat)
            choice = pred.argmax(1)
            mean_correct.append((choice == target).astype('float32').mean().item())
            loss.backward()
            opt.step()
            opt.clear_grad()
        lr.step()
        logger.info('epoch %d train accuracy %.4f', epoch, np.mean(mean_correct))


if __name__ == '__main__':
    p = argparse.ArgumentParser('PointNet')
    p.add_argument('--batch_size', type=int, default=24)
    p.add_argument('--num_point', type=int, default=256)
    p.add_argument('--num_class', type=int, default=8)
    p.add_argument('--epoch', default=2, type=int)
    p.add_argument('--learning_rate', default=0.001, type=float)
    p.add_argument('--decay_rate', type=float, default=1e-4)
    p.add_argument('--no_feat_transform', action='store_true')
    p.add_argument('--seed', type=int, default=1)
    main(p.parse_args())
