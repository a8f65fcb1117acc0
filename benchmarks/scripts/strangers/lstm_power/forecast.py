# Hourly load forecasting, seq2one, sliding windows
import csv
import os

import numpy as np
import paddle
import paddle.nn as nn

CSV_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'load.csv')
WINDOW = 72
HORIZON = 6
STRIDE = 1
HIDDEN = 160
LAYERS = 2
batch_size = 64
num_epochs = 1
split_ratio = 0.8


def read_csv(path):
    rows = []
    with open(path, newline='') as fp:
        reader = csv.DictReader(fp)
        for row in reader:
            hour = float(row['hour'])
            rows.append([float(row['load']), float(row['temp']), float(row['humidity']), float(row['wind']),
                         np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)])
    return np.asarray(rows, dtype='float32')


def make_windows(series):
    xs, ys = [], []
    for start in range(0, len(series) - WINDOW - HORIZON + 1, STRIDE):
        xs.append(series[start:start + WINDOW])
        ys.append(series[start + WINDOW:start + WINDOW + HORIZON, 0])
    return np.stack(xs), np.stack(ys)


class LoadDataset(paddle.io.Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def __len__(self):
        return len(self.x)


class LSTMForecaster(nn.Layer):
    def __init__(self, n_features):
        super(LSTMForecaster, self).__init__()
        self.rnn = nn.LSTM(input_size=n_features, hidden_size=HIDDEN, num_layers=LAYERS, dropout=0.1)
        self.head = nn.Sequential(nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, HORIZON))

    def forward(self, x):
        out, (h, c) = self.rnn(x)
        return self.head(h[-1])


data = read_csv(CSV_FILE)
n_train = int(len(data) * split_ratio)
mean, std = data[:n_train].mean(axis=0), data[:n_train].std(axis=0) + 1e-6
data = (data - mean) / std
x_train, y_train = make_windows(data[:n_train])
x_test, y_test = make_windows(data[n_train:])
print('train', x_train.shape, 'test', x_test.shape)

train_loader = paddle.io.DataLoader(LoadDataset(x_train, y_train), batch_size=batch_size, shuffle=True, drop_last=True)
net = LSTMForecaster(data.shape[1])
scheduler = paddle.optimizer.lr.StepDecay(learning_rate=2e-3, step_size=10, gamma=0.5)
opt = paddle.optimizer.RMSProp(learning_rate=scheduler, parameters=net.parameters())
mse = nn.MSELoss()

for epoch in range(num_epochs):
    net.train()
    total = []
    for i, (x, y) in enumerate(train_loader()):
        pred = net(x)
        loss = mse(pred, y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        total.append(loss.item())
        if i % 5 == 0:
            print('epoch {} step {} mse {:.4f}'.format(epoch, i, total[-1]))
    scheduler.step()

net.eval()
with paddle.no_grad():
    mae = [float((net(paddle.to_tensor(x_test[i:i + 32])) - paddle.to_tensor(y_test[i:i + 32])).abs().mean())
           for i in range(0, len(x_test), 32)]
print('test MAE (normalised): %.4f' % float(np.mean(mae)))
