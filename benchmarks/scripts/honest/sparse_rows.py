import paddle

words = paddle.nn.Embedding(1000, 16, padding_idx=0, sparse=True)
bag = paddle.nn.Embedding(50, 16, sparse=True)
head = paddle.nn.Linear(16, 2)
params = [*words.parameters(), *bag.parameters(), *head.parameters()]
opt = paddle.optimizer.SGD(0.1, parameters=params, weight_decay=1e-4, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
lazy = paddle.optimizer.Adam(parameters=params, lazy_mode=True)
for step in range(6):
    ids = paddle.randint(0, 1000, [8, 12])
    out = head(words(ids).mean(1) + bag(ids[:, :3] % 50).sum(1))
    loss = paddle.nn.functional.cross_entropy(out, paddle.randint(0, 2, [8]))
    loss.backward()
    (opt if step % 2 else lazy).step()
    (opt if step % 2 else lazy).clear_grad()
