# -*- coding: utf-8 -*-
"""文字识别 CRNN + CTC 训练脚本 (合成字形, 无需下载数据)"""
import os
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import Dataset, DataLoader

ROOT = os.path.dirname(os.path.abspath(__file__))

# ---------------- 超参数 ----------------
DICT_PATH = os.path.join(ROOT, 'ppocr_keys.txt')
LABEL_FILE = os.path.join(ROOT, 'train_list.txt')
IMG_SHAPE = (1, 32, 160)       # C, H, W
MAX_TEXT_LEN = 12
HIDDEN = 96
BATCH_SIZE = 32
EPOCHS = 1
LR = 5e-4
SAVE_MODEL = False


def load_dict(path):
    with open(path, encoding='utf-8') as f:
        chars = [line.rstrip('\n') for line in f if line.strip()]
    return ['<blank>'] + chars


class RecDataset(Dataset):
    def __init__(self, label_file, char_list):
        self.char2id = {c: i for i, c in enumerate(char_list)}
        self.samples = []
        with open(label_file, encoding='utf-8') as f:
            for line in f:
                name, text = line.rstrip('\n').split('\t')
                if 0 < len(text) <= MAX_TEXT_LEN:
                    self.samples.append((name, text))
        # 每个字符一个固定的 20x14 "字形"
        rng = np.random.RandomState(0)
        self.glyphs = (rng.rand(len(char_list), 20, 14) > 0.5).astype('float32')

    def render(self, ids):
        c, h, w = IMG_SHAPE
        canvas = np.zeros((c, h, w), 'float32')
        x = 4
        for i in ids:
            if x + 14 > w:
                break
            canvas[0, 6:26, x:x + 14] = self.glyphs[i]
            x += 16
        return (canvas - 0.5) / 0.5

    def __getitem__(self, idx):
        _, text = self.samples[idx]
        ids = [self.char2id[c] for c in text]
        label = np.zeros(MAX_TEXT_LEN, 'int32')
        label[:len(ids)] = ids
        return self.render(ids), label, np.array(len(ids), 'int64')

    def __len__(self):
        return len(self.samples)


class CNN(nn.Layer):
    def __init__(self, in_c=1):
        super(CNN, self).__init__()

        def block(i, o, k=3, bn=False):
            layers = [nn.Conv2D(i, o, k, padding=1 if k == 3 else 0)]
            if bn:
                layers.append(nn.BatchNorm2D(o))
            layers.append(nn.ReLU())
            return layers

        self.features = nn.Sequential(
            *block(in_c, 32), nn.MaxPool2D(2, 2),                       # 16 x 80
            *block(32, 64), nn.MaxPool2D(2, 2),                         # 8 x 40
            *block(64, 128, bn=True), *block(128, 128),
            nn.MaxPool2D((2, 1), (2, 1)),                               # 4 x 40
            *block(128, 192, bn=True), *block(192, 192),
            nn.MaxPool2D((2, 1), (2, 1)),                               # 2 x 40
            *block(192, 192, k=2, bn=True))                             # 1 x 39

    def forward(self, x):
        x = self.features(x)
        return x.squeeze(2).transpose([0, 2, 1])


class CRNN(nn.Layer):
    def __init__(self, num_classes):
        super(CRNN, self).__init__()
        self.backbone = CNN(IMG_SHAPE[0])
        self.rnn = nn.LSTM(192, HIDDEN, num_layers=2, direction='bidirect')
        self.fc = nn.Linear(HIDDEN * 2, num_classes)

    def forward(self, x):
        x = self.backbone(x)
        x, _ = self.rnn(x)
        x = self.fc(x)
        return x.transpose([1, 0, 2])      # T, B, C


def ctc_greedy(logits, char_list):
    ids = logits.argmax(-1).numpy().T
    res = []
    for seq in ids:
        out, last = [], 0
        for k in seq:
            if k != 0 and k != last:
                out.append(char_list[k])
            last = k
        res.append(''.join(out))
    return res


def main():
    paddle.seed(7)
    chars = load_dict(DICT_PATH)
    train_set = RecDataset(LABEL_FILE, chars)
    loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    model = CRNN(len(chars))
    ctc = nn.CTCLoss(blank=0, reduction='mean')
    scheduler = paddle.optimizer.lr.CosineAnnealingDecay(LR, T_max=EPOCHS * len(loader))
    optim = paddle.optimizer.Adam(scheduler, parameters=model.parameters(),
                                  grad_clip=nn.ClipGradByNorm(5.0))
    print('字典大小:', len(chars), '样本数:', len(train_set))
    for epoch in range(EPOCHS):
        model.train()
        for step, (img, label, length) in enumerate(loader):
            logits = model(img)
            t, b = logits.shape[0], logits.shape[1]
            in_len = paddle.full([b], t, dtype='int64')
            loss = ctc(logits, label, in_len, length)
            optim.clear_grad()
            loss.backward()
            optim.step()
            scheduler.step()
            if step % 2 == 0:
                print('epoch %d step %d loss %.4f' % (epoch, step, float(loss)))
    model.eval()
    with paddle.no_grad():
        img, _, _ = train_set[0]
        pred = ctc_greedy(model(paddle.to_tensor(img[None])), chars)
    print('gt:', train_set.samples[0][1], 'pred:', pred[0])
    if SAVE_MODEL:
        paddle.save(model.state_dict(), os.path.join(ROOT, 'crnn.pdparams'))


if __name__ == '__main__':
    main()
