import argparse

import paddle
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.optimizer import Adam

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--latent_dim", type=int, default=100)
parser.add_argument("--img_size", type=int, default=32)
parser.add_argument("--n_critic", type=int, default=2, help="critic steps per generator step")
parser.add_argument("--lambda_gp", type=float, default=10)
parser.add_argument("--lr", type=float, default=1e-4)
parser.add_argument("--n_epochs", type=int, default=2)
opt = parser.parse_args()
print(opt)

img_shape = (3, opt.img_size, opt.img_size)


class Generator(nn.Layer):
    def __init__(self):
        super().__init__()
        self.init_size = opt.img_size // 4
        self.l1 = nn.Linear(opt.latent_dim, 128 * self.init_size**2)

        def block(cin, cout):
            return [
                nn.Upsample(scale_factor=2, mode="nearest"),
                nn.Conv2D(cin, cout, 3, padding=1),
                nn.BatchNorm2D(cout, momentum=0.8),
                nn.LeakyReLU(0.2),
            ]

        self.conv_blocks = nn.Sequential(
            nn.BatchNorm2D(128),
            *block(128, 128),
            *block(128, 64),
            nn.Conv2D(64, img_shape[0], 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        out = self.l1(z)
        out = out.reshape([out.shape[0], 128, self.init_size, self.init_size])
        return self.conv_blocks(out)


class Critic(nn.Layer):
    def __init__(self):
        super().__init__()
        channels = [img_shape[0], 32, 64, 128]
        layers = []
        for cin, cout in zip(channels, channels[1:]):
            layers.append(nn.Conv2D(cin, cout, 4, stride=2, padding=1))
            layers.append(nn.LeakyReLU(0.2))
        self.model = nn.Sequential(*layers)
        side = opt.img_size // 2 ** (len(channels) - 1)
        self.adv = nn.Linear(channels[-1] * side * side, 1)

    def forward(self, img):
        features = self.model(img)
        return self.adv(features.reshape([features.shape[0], -1]))


def gradient_penalty(critic, real, fake):
    alpha = paddle.rand([real.shape[0], 1, 1, 1])
    mixed = alpha * real + (1 - alpha) * fake
    mixed.stop_gradient = False
    score = critic(mixed)
    grad = paddle.grad(
        outputs=score,
        inputs=mixed,
        grad_outputs=paddle.ones_like(score),
        create_graph=True,
        retain_graph=True,
    )[0]
    norm = paddle.sqrt(paddle.sum(grad.reshape([grad.shape[0], -1]) ** 2, axis=1) + 1e-12)
    return ((norm - 1) ** 2).mean()


class Noise(Dataset):
    def __getitem__(self, i):
        return (paddle.uniform(img_shape, min=-1.0, max=1.0),)

    def __len__(self):
        return 100000


generator, critic = Generator(), Critic()
opt_g = Adam(opt.lr, beta1=0.5, beta2=0.9, parameters=generator.parameters())
opt_c = Adam(opt.lr, beta1=0.5, beta2=0.9, parameters=critic.parameters())
dataloader = DataLoader(Noise(), batch_size=opt.batch_size, shuffle=True, drop_last=True)

for epoch in range(opt.n_epochs):
    for i, (real_imgs,) in enumerate(dataloader):
        z = paddle.randn([real_imgs.shape[0], opt.latent_dim])
        fake_imgs = generator(z).detach()
        gp = gradient_penalty(critic, real_imgs, fake_imgs)
        c_loss = critic(fake_imgs).mean() - critic(real_imgs).mean() + opt.lambda_gp * gp
        opt_c.clear_grad()
        c_loss.backward()
        opt_c.step()

        if i % opt.n_critic == 0:
            opt_g.clear_grad()
            g_loss = -critic(generator(z)).mean()
            g_loss.backward()
            opt_g.step()
            print(f"[{epoch}/{opt.n_epochs}] [{i}/{len(dataloader)}] C {c_loss.item():.4f} G {g_loss.item():.4f}")
