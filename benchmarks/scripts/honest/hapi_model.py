import numpy as np
import paddle


class Data(paddle.io.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        return np.random.rand(1, 12, 12).astype("float32"), np.array([i % 10], "int64")


class Log(paddle.callbacks.Callback):
    def on_train_batch_end(self, step, logs=None):
        assert logs["loss"][0] >= 0


net = paddle.nn.Sequential(paddle.nn.Conv2D(1, 6, 3), paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(600, 10))
model = paddle.Model(net)
model.prepare(paddle.optimizer.Adam(parameters=model.parameters()), paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy(topk=(1, 2)))
model.fit(Data(), Data(), batch_size=8, epochs=2, verbose=0, callbacks=[Log(), paddle.callbacks.EarlyStopping("loss", patience=1)])
found = model.evaluate(Data(), batch_size=8, verbose=0)
assert set(found) >= {"loss", "acc_top1", "acc_top2"}, found
model.predict(Data(), batch_size=8, verbose=0)
