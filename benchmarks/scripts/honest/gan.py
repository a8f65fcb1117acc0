import paddle

G = paddle.nn.Sequential(paddle.nn.Linear(8, 32), paddle.nn.LeakyReLU(0.2), paddle.nn.Linear(32, 16), paddle.nn.Tanh())
D = paddle.nn.Sequential(paddle.nn.utils.spectral_norm(paddle.nn.Linear(16, 32)), paddle.nn.LeakyReLU(0.2), paddle.nn.Linear(32, 1))
og = paddle.optimizer.Adam(2e-4, beta1=0.5, parameters=G.parameters())
od = paddle.optimizer.Adam(2e-4, beta1=0.5, parameters=D.parameters())
bce = paddle.nn.BCEWithLogitsLoss()
for step in range(6):
    real, fake = paddle.randn([10, 16]), G(paddle.randn([10, 8]))
    for p in D.parameters():
        p.stop_gradient = False
    d = bce(D(real), paddle.ones([10, 1])) + bce(D(fake.detach()), paddle.zeros([10, 1]))
    d.backward()
    od.step()
    od.clear_grad()
    if step % 2 == 0:
        g = bce(D(fake), paddle.ones([10, 1]))
        g.backward()
        og.step()
        og.clear_grad()
        D.clear_gradients()
