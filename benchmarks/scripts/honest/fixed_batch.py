import paddle

BATCH = 24
net = paddle.nn.Linear(6, 6)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([96, 6])])
state = paddle.zeros([BATCH, 6])
for epoch in range(2):
    for i, (x,) in enumerate(paddle.io.DataLoader(data, batch_size=BATCH)):
        assert x.shape[0] == BATCH, x.shape
        left, right = x[:12], x[12:]
        loss = (net(left) - net(right)).square().mean() + (net(x) * state).mean()
        state = net(x).detach()
        pair = x.reshape([4, 6, 6])[3, 5]
        (loss + net(pair).mean()).backward()
        opt.step()
        opt.clear_grad()
