# Homework 4: DCGAN on 28x28 digits
# usage: python dcgan_digits.py --bs 64
import argparse
import os

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument('--bs', type=int, default=64, help='batch size')
parser.add_argument('--nz', type=int, default=100, help='size of the noise')
parser.add_argument('--ngf', type=int, default=32)
parser.add_argument('--ndf', type=int, default=32)
parser.add_argument('--lr', type=float, default=2e-4)
parser.add_argument('--epochs', type=int, default=2)
opt = parser.parse_args()
print(opt)

paddle.seed(2024)
np.random.seed(2024)


class Digits(Dataset):
    """blurry random blobs, good enough to see that the code runs"""

    def __init__(self, n=2000):
        super().__init__()
        self.n = n

    def __getitem__(self, i):
        img = np.random.rand(28, 28).astype('float32')
        img = (img - 0.5) / 0.5
        img = np.pad(img, 2, constant_values=-1.0)
        return img[np.newaxis, :, :], np.int64(i % 10)

    def __len__(self):
        return self.n


def weights_init(m):
    if isinstance(m, (nn.Conv2D, nn.Conv2DTranspose)):
        nn.initializer.Normal(0.0, 0.02)(m.weight)
    elif isinstance(m, nn.BatchNorm2D):
        nn.initializer.Normal(1.0, 0.02)(m.weight)
        nn.initializer.Constant(0.0)(m.bias)


class Generator(nn.Layer):
    def __init__(self, nz, ngf):
        super(Generator, self).__init__()
        self.gen = nn.Sequential(
            nn.Conv2DTranspose(nz, ngf * 4, 4, 1, 0, bias_attr=False),
            nn.BatchNorm2D(ngf * 4),
            nn.ReLU(),
            nn.Conv2DTranspose(ngf * 4, ngf * 2, 4, 2, 1, bias_attr=False),
            nn.BatchNorm2D(ngf * 2),
            nn.ReLU(),
            nn.Conv2DTranspose(ngf * 2, ngf, 4, 2, 1, bias_attr=False),
            nn.BatchNorm2D(ngf),
            nn.ReLU(),
            nn.Conv2DTranspose(ngf, 1, 4, 2, 1, bias_attr=False),
            nn.Tanh())

    def forward(self, z):
        return self.gen(z)


class Discriminator(nn.Layer):
    def __init__(self, ndf):
        super(Discriminator, self).__init__()
        self.conv1 = nn.Conv2D(1, ndf, 4, 2, 1, bias_attr=False)
        self.conv2 = nn.Conv2D(ndf, ndf * 2, 4, 2, 1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(ndf * 2)
        self.conv3 = nn.Conv2D(ndf * 2, ndf * 4, 4, 2, 1, bias_attr=False)
        self.bn3 = nn.BatchNorm2D(ndf * 4)
        self.conv4 = nn.Conv2D(ndf * 4, 1, 4, 1, 0, bias_attr=False)

    def forward(self, x):
        x = F.leaky_relu(self.conv1(x), 0.2)
        x = F.leaky_relu(self.bn2(self.conv2(x)), 0.2)
        x = F.leaky_relu(self.bn3(self.conv3(x)), 0.2)
        return F.sigmoid(self.conv4(x))


netG = Generator(opt.nz, opt.ngf)
netD = Discriminator(opt.ndf)
netG.apply(weights_init)
netD.apply(weights_init)

loader = DataLoader(Digits(), batch_size=opt.bs, shuffle=True, drop_last=True, num_workers=0)
loss_fn = nn.BCELoss()
optD = paddle.optimizer.Adam(parameters=netD.parameters(), learning_rate=opt.lr, beta1=0.5, beta2=0.999)
optG = paddle.optimizer.Adam(parameters=netG.parameters(), learning_rate=opt.lr, beta1=0.5, beta2=0.999)

real_label = 1.0
fake_label = 0.0
G_losses, D_losses = [], []

for epoch in range(opt.epochs):
    for i, data in enumerate(loader):
        # (1) discriminator: real, then fake
        optD.clear_grad()
        real = data[0]
        bs = real.shape[0]
        label = paddle.full((bs, 1, 1, 1), real_label, dtype='float32')
        output = netD(real)
        errD_real = loss_fn(output, label)
        errD_real.backward()

        noise = paddle.randn([bs, opt.nz, 1, 1], 'float32')
        fake = netG(noise)
        label = paddle.full((bs, 1, 1, 1), fake_label, dtype='float32')
        output = netD(fake.detach())
        errD_fake = loss_fn(output, label)
        errD_fake.backward()
        optD.step()
        errD = errD_real + errD_fake

        # (2) generator
        optG.clear_grad()
        label = paddle.full((bs, 1, 1, 1), real_label, dtype='float32')
        output = netD(fake)
        errG = loss_fn(output, label)
        errG.backward()
        optG.step()

        G_losses.append(float(errG))
        D_losses.append(float(errD))
        if i % 10 == 0:
            print('[%d/%d][%d/%d] D %.4f G %.4f' % (epoch, opt.epochs, i, len(loader), D_losses[-1], G_losses[-1]))
    if not os.path.exists('work'):
        os.makedirs('work')
    paddle.save(netG.state_dict(), 'work/generator.pdparams')
