import paddle


class Spectral(paddle.nn.Layer):
    def __init__(self, c, modes):
        super().__init__()
        self.modes = modes
        self.re = self.create_parameter([c, c, modes])
        self.im = self.create_parameter([c, c, modes])

    def forward(self, x):
        f = paddle.fft.rfft(x)
        w = paddle.complex(self.re, self.im)
        low = paddle.einsum("bim,iom->bom", f[:, :, : self.modes], w)
        pad = paddle.zeros([x.shape[0], x.shape[1], f.shape[-1] - self.modes], dtype="complex64")
        return paddle.fft.irfft(paddle.concat([low, pad], -1), n=x.shape[-1])


net = Spectral(4, 6)
head = paddle.nn.Conv1D(4, 1, 1)
opt = paddle.optimizer.Adam(parameters=net.parameters() + head.parameters())
for _ in range(3):
    x = paddle.randn([5, 4, 32])
    loss = (head(net(x) + x) - x.mean(1, keepdim=True)).abs().mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
