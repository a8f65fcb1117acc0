#!/usr/bin/env python
# DCGAN on synthetic shape images, follows the usual two-optimizer recipe
import argparse
import os

import numpy as np
import paddle
import paddle.nn as nn
from paddle.nn.initializer import Constant, Normal


def get_args():
    parser = argparse.ArgumentParser(description='dcgan')
    parser.add_argument('--batch-size', type=int, default=32)
    parser.add_argument('--nz', type=int, default=100, help='size of the latent z vector')
    parser.add_argument('--ngf', type=int, default=48)
    parser.add_argument('--ndf', type=int, default=32)
    parser.add_argument('--image-size', type=int, default=64)
    parser.add_argument('--iters', type=int, default=8)
    parser.add_argument('--lr', type=float, default=0.0002)
    parser.add_argument('--beta1', type=float, default=0.5)
    parser.add_argument('--ema', type=float, default=0.995, help='decay of the generator average, 0 turns it off')
    parser.add_argument('--sample-dir', default='')
    return parser.parse_args()


conv_attr = lambda: paddle.ParamAttr(initializer=Normal(0.0, 0.02))
bn_attr = lambda: paddle.ParamAttr(initializer=Normal(1.0, 0.02))


class Generator(nn.Layer):
    def __init__(self, nz, ngf, size):
        super().__init__()
        mult = size // 8
        blocks = [nn.Conv2DTranspose(nz, ngf * mult, 4, 1, 0, weight_attr=conv_attr(), bias_attr=False),
                  nn.BatchNorm2D(ngf * mult, weight_attr=bn_attr()), nn.ReLU()]
        while mult > 1:
            blocks += [nn.Conv2DTranspose(ngf * mult, ngf * mult // 2, 4, 2, 1, weight_attr=conv_attr(), bias_attr=False),
                       nn.BatchNorm2D(ngf * mult // 2, weight_attr=bn_attr()), nn.ReLU()]
            mult //= 2
        blocks += [nn.Conv2DTranspose(ngf, 3, 4, 2, 1, weight_attr=conv_attr(), bias_attr=False), nn.Tanh()]
        self.gen = nn.Sequential(*blocks)

    def forward(self, z):
        return self.gen(z)


class Discriminator(nn.Layer):
    def __init__(self, ndf, size):
        super().__init__()
        layers = [nn.Conv2D(3, ndf, 4, 2, 1, weight_attr=conv_attr(), bias_attr=False), nn.LeakyReLU(0.2)]
        c, s = ndf, size // 2
        while s > 4:
            layers += [nn.Conv2D(c, c * 2, 4, 2, 1, weight_attr=conv_attr(), bias_attr=False),
                       nn.BatchNorm2D(c * 2, weight_attr=bn_attr(), bias_attr=paddle.ParamAttr(initializer=Constant(0.0))),
                       nn.LeakyReLU(0.2)]
            c, s = c * 2, s // 2
        layers.append(nn.Conv2D(c, 1, 4, 1, 0, weight_attr=conv_attr(), bias_attr=False))
        self.dis = nn.Sequential(*layers)

    def forward(self, x):
        return self.dis(x).reshape([-1])


class Shapes(paddle.io.Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        img = np.full((3, self.size, self.size), -1.0, 'float32')
        a, b = rng.randint(0, self.size // 2, 2)
        w = rng.randint(8, self.size // 2)
        img[:, a:a + w, b:b + w] = rng.uniform(-0.5, 1, (3, 1, 1))
        return img

    def __len__(self):
        return self.n


def main():
    args = get_args()
    paddle.seed(999)
    loader = paddle.io.DataLoader(Shapes(args.iters * args.batch_size, args.image_size), batch_size=args.batch_size,
                                  shuffle=True, drop_last=True)
    netG = Generator(args.nz, args.ngf, args.image_size)
    netD = Discriminator(args.ndf, args.image_size)
    ema = {k: v.clone() for k, v in netG.state_dict().items()} if args.ema > 0 else None
    criterion = nn.BCEWithLogitsLoss()
    optD = paddle.optimizer.Adam(args.lr, parameters=netD.parameters(), beta1=args.beta1, beta2=0.999)
    optG = paddle.optimizer.Adam(args.lr, parameters=netG.parameters(), beta1=args.beta1, beta2=0.999)

    for i, real in enumerate(loader):
        bs = real.shape[0]
        ones, zeros = paddle.ones([bs]), paddle.zeros([bs])
        # (1) D: maximise log(D(x)) + log(1 - D(G(z)))
        optD.clear_grad()
        loss_real = criterion(netD(real), ones)
        loss_real.backward()
        fake = netG(paddle.randn([bs, args.nz, 1, 1]))
        loss_fake = criterion(netD(fake.detach()), zeros)
        loss_fake.backward()
        optD.step()
        # (2) G: maximise log(D(G(z)))
        optG.clear_grad()
        loss_g = criterion(netD(fake), ones)
        loss_g.backward()
        optG.step()
        if ema is not None:
            with paddle.no_grad():
                for k, v in netG.state_dict().items():
                    ema[k] = ema[k] * args.ema + v * (1 - args.ema) if 'float' in str(v.dtype) else v
        print('[%d/%d] Loss_D: %.4f Loss_G: %.4f' % (i, args.iters, float(loss_real + loss_fake), float(loss_g)))
    if args.sample_dir:
        os.makedirs(args.sample_dir, exist_ok=True)
        np.save(os.path.join(args.sample_dir, 'fake.npy'), fake.numpy())
        paddle.save(ema or netG.state_dict(), os.path.join(args.sample_dir, 'netG.pdparams'))


if __name__ == '__main__':
    main()
