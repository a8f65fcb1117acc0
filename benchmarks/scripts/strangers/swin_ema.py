import copy
import logging
import math
import sys

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format='[%(asctime)s] %(message)s')
logger = logging.getLogger('swin')

BATCH_SIZE = 16

config = dict(
    data=dict(num=400, img_size=64, classes=20, batch_size=BATCH_SIZE),
    model=dict(patch=4, dim=48, depths=[2, 2], heads=[3, 6], window=4, mlp_ratio=4.0, drop_path=0.1),
    optim=dict(lr=5e-4, weight_decay=0.05, warmup=2, total=100, clip=5.0),
    ema=dict(enable=True, decay=0.99),
    train=dict(max_iters=8, mixup_alpha=0.2, label_smooth=0.1),
)
for item in sys.argv[1:]:                        # e.g.  data.batch_size=32
    key, value = item.split('=')
    group, name = key.split('.')
    old = config[group][name]
    config[group][name] = type(old)(eval(value))


class RandomImages(paddle.io.Dataset):
    def __init__(self, num, img_size, classes, **unused):
        rs = np.random.RandomState(3)
        self.proto = rs.randn(classes, 3, img_size, img_size).astype('float32')
        self.labels = rs.randint(0, classes, num).astype('int64')
        self.num = num

    def __getitem__(self, i):
        noise = np.random.RandomState(i).randn(*self.proto.shape[1:]).astype('float32')
        return self.proto[self.labels[i]] + noise, self.labels[i]

    def __len__(self):
        return self.num


def window_partition(x, ws):
    b, h, w, c = x.shape
    x = x.reshape([b, h // ws, ws, w // ws, ws, c])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, ws * ws, c])


def window_reverse(win, ws, h, w):
    c = win.shape[-1]
    x = win.reshape([-1, h // ws, w // ws, ws, ws, c])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, h, w, c])


class DropPath(nn.Layer):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        keep = 1 - self.p
        mask = paddle.floor(keep + paddle.rand([x.shape[0]] + [1] * (x.ndim - 1)))
        return x / keep * mask


class WindowAttention(nn.Layer):
    def __init__(self, dim, ws, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads)**-0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = self.create_parameter([(2 * ws - 1)**2, heads],
                                           default_initializer=nn.initializer.TruncatedNormal(std=0.02))
        coords = np.stack(np.meshgrid(np.arange(ws), np.arange(ws), indexing='ij')).reshape(2, -1)
        rel = (coords[:, :, None] - coords[:, None]).transpose(1, 2, 0) + ws - 1
        self.register_buffer('index', paddle.to_tensor((rel[..., 0] * (2 * ws - 1) + rel[..., 1]).reshape(-1)))

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape([b, n, 3, self.heads, c // self.heads]).transpose([2, 0, 3, 1, 4]).unbind(0)
        attn = paddle.matmul(q * self.scale, k, transpose_y=True)
        bias = paddle.index_select(self.table, self.index).reshape([n, n, self.heads]).transpose([2, 0, 1])
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nw = mask.shape[0]
            attn = attn.reshape([b // nw, nw, self.heads, n, n]) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.reshape([b, self.heads, n, n])
        attn = F.softmax(attn, -1)
        return self.proj(paddle.matmul(attn, v).transpose([0, 2, 1, 3]).reshape([b, n, c]))


class SwinBlock(nn.Layer):
    def __init__(self, dim, res, heads, ws, shift, mlp_ratio, dp):
        super().__init__()
        self.res, self.ws, self.shift = res, ws, shift
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, ws, heads)
        hidden = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
        self.dp = DropPath(dp)
        self.mask = None
        if shift:
            img = np.zeros((1, res, res, 1), 'float32')
            cuts = (slice(0, -ws), slice(-ws, -shift), slice(-shift, None))
            for a, hs in enumerate(cuts):
                for b, w_ in enumerate(cuts):
                    img[:, hs, w_] = a * 3 + b
            m = window_partition(paddle.to_tensor(img), ws).squeeze(-1)
            diff = m.unsqueeze(1) - m.unsqueeze(2)
            self.mask = (diff != 0).astype('float32') * -100.0

    def forward(self, x):
        b, l, c = x.shape
        y = self.norm1(x).reshape([b, self.res, self.res, c])
        if self.shift:
            y = paddle.roll(y, [-self.shift, -self.shift], axis=[1, 2])
        y = self.attn(window_partition(y, self.ws), self.mask)
        y = window_reverse(y, self.ws, self.res, self.res)
        if self.shift:
            y = paddle.roll(y, [self.shift, self.shift], axis=[1, 2])
        x = x + self.dp(y.reshape([b, l, c]))
        return x + self.dp(self.mlp(self.norm2(x)))


class PatchMerging(nn.Layer):
    def __init__(self, dim, res):
        super().__init__()
        self.res, self.norm = res, nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias_attr=False)

    def forward(self, x):
        b, _, c = x.shape
        x = x.reshape([b, self.res, self.res, c])
        x = paddle.concat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.reduction(self.norm(x.reshape([b, -1, 4 * c])))


class Swin(nn.Layer):
    def __init__(self, img_size, classes, patch, dim, depths, heads, window, mlp_ratio, drop_path):
        super().__init__()
        self.embed = nn.Conv2D(3, dim, patch, patch)
        res = img_size // patch
        rates = np.linspace(0, drop_path, sum(depths)).tolist()
        layers = []
        for s, (d, h) in enumerate(zip(depths, heads)):
            for i in range(d):
                layers.append(SwinBlock(dim, res, h, window, 0 if i % 2 == 0 else window // 2,
                                        mlp_ratio, rates[len([l for l in layers if isinstance(l, SwinBlock)])]))
            if s < len(depths) - 1:
                layers.append(PatchMerging(dim, res))
                dim, res = dim * 2, res // 2
        self.layers = nn.Sequential(*layers)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose([0, 2, 1])
        return self.head(self.norm(self.layers(x)).mean(1))


class ModelEMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.clone().detach() for k, v in model.state_dict().items()}

    @paddle.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            if v.dtype == paddle.float32:
                self.shadow[k] = self.shadow[k] * self.decay + v * (1 - self.decay)


def main():
    d, o, t = config['data'], config['optim'], config['train']
    paddle.seed(0)
    np.random.seed(0)
    loader = paddle.io.DataLoader(RandomImages(**d), batch_size=d['batch_size'], shuffle=True, drop_last=True)
    model = Swin(d['img_size'], d['classes'], **copy.deepcopy(config['model']))
    cosine = paddle.optimizer.lr.LambdaDecay(
        o['lr'], lambda i: (i + 1) / o['warmup'] if i < o['warmup']
        else 0.5 * (1 + math.cos(math.pi * (i - o['warmup']) / (o['total'] - o['warmup']))))
    opt = paddle.optimizer.AdamW(cosine, parameters=model.parameters(), weight_decay=o['weight_decay'],
                                 apply_decay_param_fun=lambda n: not n.endswith('.b_0'),
                                 grad_clip=nn.ClipGradByGlobalNorm(o['clip']))
    ema = ModelEMA(model, config['ema']['decay']) if config['ema']['enable'] else None
    it = 0
    for x, y in loader:
        lam = float(np.random.beta(t['mixup_alpha'], t['mixup_alpha']))
        perm = paddle.randperm(x.shape[0])
        x = lam * x + (1 - lam) * x[perm]
        onehot = F.label_smooth(F.one_hot(y, d['classes']), epsilon=t['label_smooth'])
        target = lam * onehot + (1 - lam) * onehot[perm]
        loss = F.cross_entropy(model(x), target, soft_label=True)
        loss.backward()
        opt.step()
        opt.clear_grad()
        cosine.step()
        if ema:
            ema.update(model)
        it += 1
        logger.info('iter %d/%d loss %.4f lr %.6f', it, t['max_iters'], float(loss), opt.get_lr())
        if it == t['max_iters']:
            break


if __name__ == '__main__':
    main()
