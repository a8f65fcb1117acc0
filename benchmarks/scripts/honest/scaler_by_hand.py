import paddle
import paddle.nn.functional as F

net = paddle.nn.Sequential(paddle.nn.Conv2D(1, 4, 3), paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(4 * 36, 10))
opt = paddle.optimizer.Momentum(0.01, parameters=net.parameters())
scaler = paddle.amp.GradScaler(enable=True, init_loss_scaling=2.0**12)
clip = paddle.nn.ClipGradByGlobalNorm(5.0)
skipped = 0
for step in range(5):
    with paddle.amp.auto_cast(custom_white_list={"elementwise_add"}, level="O1"):
        logits = net(paddle.rand([8, 1, 8, 8]))
        loss = F.cross_entropy(logits, paddle.randint(0, 10, [8]))
    scaled = scaler.scale(loss)
    scaled.backward()
    scaler.unscale_(opt)
    total = sum(float((p.grad.astype("float32") ** 2).sum()) for p in net.parameters())
    if total != total or total == float("inf"):
        skipped += 1
    scaler.step(opt)
    scaler.update()
    opt.clear_grad()
assert skipped < 5
