import paddle

net = paddle.nn.Sequential(paddle.nn.Linear(10, 20), paddle.nn.LayerNorm(20), paddle.nn.Tanh(), paddle.nn.Linear(20, 2))
decay = [p for n, p in net.named_parameters() if p.ndim > 1]
rest = [p for n, p in net.named_parameters() if p.ndim <= 1]
schedule = paddle.optimizer.lr.LinearWarmup(paddle.optimizer.lr.PolynomialDecay(0.01, 20), 3, 0.0, 0.01)
opt = paddle.optimizer.AdamW(learning_rate=schedule, parameters=[{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0, "learning_rate": 0.5}], grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
plateau = paddle.optimizer.lr.ReduceOnPlateau(0.1, patience=1)
rates = []
for step in range(8):
    loss = net(paddle.randn([16, 10])).square().mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    schedule.step()
    plateau.step(loss)
    rates.append(opt.get_lr())
assert rates[0] < rates[2], rates
assert len({round(r, 8) for r in rates}) > 2
