import paddle

vocab = {i: f"w{i}" for i in range(5)}
table = [10, 20, 30, 40, 50]
net = paddle.nn.Linear(6, 5)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(4):
    out = net(paddle.randn([4, 6]))
    best = out.argmax(-1)
    names = [vocab[i] for i in best.tolist()]
    total = sum(table[int(i)] for i in best)
    values, places = paddle.topk(out, 2)
    count = paddle.bincount(best, minlength=5)
    unique, inverse, counts = paddle.unique(best, return_inverse=True, return_counts=True)
    assert int(counts.sum()) == 4, counts
    assert int(count.sum()) == 4
    groups = paddle.split(out, [1, 3], axis=0)
    found = paddle.nonzero(out > -100)
    assert found.shape[1] == 2
    loss = paddle.nn.functional.cross_entropy(out, best) + groups[0].mean() + out[inverse == 0].sum() * 0
    loss.backward()
    opt.step()
    opt.clear_grad()
    assert len(names) == 4 and total >= 40
