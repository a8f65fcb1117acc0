import math

import paddle
import paddle.nn as nn

ACT = {"tanh": paddle.tanh, "sin": paddle.sin, "silu": nn.functional.silu}


class ModifiedMLP(nn.Layer):
    """MLP of Wang et al. (2021): every hidden layer is mixed by two encoders."""

    def __init__(self, in_dim, out_dim, layers, width, fourier=0, activation="tanh"):
        super().__init__()
        self.act = ACT[activation]
        self.fourier = fourier
        if fourier:
            freq = paddle.linspace(0.5, 4.0, fourier).unsqueeze(0).tile([in_dim, 1])
            self.register_buffer("freq", freq)
            in_dim = 2 * fourier
        self.u = nn.Linear(in_dim, width)
        self.v = nn.Linear(in_dim, width)
        self.hidden = nn.LayerList(
            [nn.Linear(in_dim if i == 0 else width, width) for i in range(layers)])
        self.last = nn.Linear(width, out_dim)

    def forward(self, z):
        if self.fourier:
            p = math.pi * paddle.matmul(z, self.freq)
            z = paddle.concat([paddle.sin(p), paddle.cos(p)], axis=1)
        u, v = self.act(self.u(z)), self.act(self.v(z))
        h = z
        for fc in self.hidden:
            g = self.act(fc(h))
            h = g * u + (1.0 - g) * v
        return self.last(h)


class Burgers(nn.Layer):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.log_nu = self.create_parameter([1], default_initializer=nn.initializer.Constant(-4.0))

    def residual(self, t, x):
        t.stop_gradient = False
        x.stop_gradient = False
        u = self.net(paddle.concat([t, x], axis=1))
        u_t = paddle.grad(u, t, create_graph=True)[0]
        u_x = paddle.grad(u, x, create_graph=True)[0]
        u_xx = paddle.grad(u_x, x, create_graph=True)[0]
        return u_t + u * u_x - paddle.exp(self.log_nu) * u_xx
