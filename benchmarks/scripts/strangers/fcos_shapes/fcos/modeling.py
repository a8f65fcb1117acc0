import math
import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class ConvBNReLU(nn.Sequential):
    def __init__(self, cin, cout, k=3, stride=1):
        super().__init__(
            nn.Conv2D(cin, cout, k, stride, k // 2, bias_attr=False),
            nn.BatchNorm2D(cout), nn.ReLU())


class BasicBlock(nn.Layer):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = ConvBNReLU(cin, cout, 3, stride)
        self.conv2 = nn.Conv2D(cout, cout, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(cout)
        self.short = None
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(
                nn.Conv2D(cin, cout, 1, stride, bias_attr=False), nn.BatchNorm2D(cout))

    def forward(self, x):
        y = self.bn2(self.conv2(self.conv1(x)))
        s = x if self.short is None else self.short(x)
        return F.relu(y + s)


class Backbone(nn.Layer):
    def __init__(self, width=32, depths=(2, 2, 2, 2)):
        super().__init__()
        self.stem = nn.Sequential(ConvBNReLU(3, width, 3, 2), nn.MaxPool2D(3, 2, 1))
        self.stages = nn.LayerList()
        cin = width
        self.out_channels = []
        for i, d in enumerate(depths):
            cout = width * 2**i
            blocks = [BasicBlock(cin if j == 0 else cout, cout, 2 if (j == 0 and i > 0) else 1)
                      for j in range(d)]
            self.stages.append(nn.Sequential(*blocks))
            self.out_channels.append(cout)
            cin = cout

    def forward(self, x):
        x = self.stem(x)
        outs = []
        for stage in self.stages:
            x = stage(x)
            outs.append(x)
        return outs[1:]          # strides 8, 16, 32


class FPN(nn.Layer):
    def __init__(self, in_channels, out_channels, num_outs):
        super().__init__()
        self.lateral = nn.LayerList([nn.Conv2D(c, out_channels, 1) for c in in_channels])
        self.smooth = nn.LayerList([nn.Conv2D(out_channels, out_channels, 3, padding=1) for _ in in_channels])
        self.extra = nn.LayerList([nn.Conv2D(out_channels, out_channels, 3, 2, 1)
                                   for _ in range(num_outs - len(in_channels))])

    def forward(self, feats):
        lat = [conv(f) for conv, f in zip(self.lateral, feats)]
        for i in range(len(lat) - 1, 0, -1):
            up = F.interpolate(lat[i], size=lat[i - 1].shape[2:], mode='nearest')
            lat[i - 1] = lat[i - 1] + up
        outs = [s(l) for s, l in zip(self.smooth, lat)]
        for conv in self.extra:
            outs.append(conv(F.relu(outs[-1])))
        return outs


class FCOSHead(nn.Layer):
    def __init__(self, channels, num_classes, stacked_convs, strides, **kw):
        super().__init__()
        self.strides = strides

        def tower():
            layers = []
            for _ in range(stacked_convs):
                layers += [nn.Conv2D(channels, channels, 3, padding=1), nn.GroupNorm(16, channels), nn.ReLU()]
            return nn.Sequential(*layers)

        self.cls_tower, self.reg_tower = tower(), tower()
        prior = -math.log((1 - 0.01) / 0.01)
        self.cls_logits = nn.Conv2D(channels, num_classes, 3, padding=1,
                                    bias_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(prior)))
        self.bbox_pred = nn.Conv2D(channels, 4, 3, padding=1)
        self.centerness = nn.Conv2D(channels, 1, 3, padding=1)
        self.scales = nn.ParameterList([
            paddle.create_parameter([1], 'float32', default_initializer=nn.initializer.Constant(1.0))
            for _ in strides])

    @staticmethod
    def _flat(x):
        b, c = x.shape[:2]
        return x.reshape([b, c, -1]).transpose([0, 2, 1])

    def forward(self, feats):
        cls, reg, ctr = [], [], []
        for f, s, scale in zip(feats, self.strides, self.scales):
            c, r = self.cls_tower(f), self.reg_tower(f)
            cls.append(self._flat(self.cls_logits(c)))
            reg.append(self._flat(F.relu(self.bbox_pred(r) * scale) * s))
            ctr.append(self._flat(self.centerness(r)))
        return paddle.concat(cls, 1), paddle.concat(reg, 1), paddle.concat(ctr, 1).squeeze(-1)


class FCOS(nn.Layer):
    def __init__(self, cfg, num_classes):
        super().__init__()
        self.backbone = Backbone(**cfg['backbone'])
        self.neck = FPN(self.backbone.out_channels[1:], **cfg['fpn'])
        self.head = FCOSHead(cfg['fpn']['out_channels'], num_classes, **cfg['head'])

    def forward(self, x):
        return self.head(self.neck(self.backbone(x)))


def iou_loss(pred, target):
    pl, pt, pr, pb = paddle.split(pred, 4, axis=-1)
    tl, tt, tr, tb = paddle.split(target, 4, axis=-1)
    parea = (pl + pr) * (pt + pb)
    tarea = (tl + tr) * (tt + tb)
    w = paddle.minimum(pl, tl) + paddle.minimum(pr, tr)
    h = paddle.minimum(pt, tt) + paddle.minimum(pb, tb)
    inter = w * h
    iou = (inter + 1.0) / (parea + tarea - inter + 1.0)
    return -paddle.log(iou).squeeze(-1)


def fcos_loss(outs, cls_t, reg_t, ctr_t, pos):
    cls, reg, ctr = outs
    n_pos = paddle.clip(pos.sum(), min=1.0)
    l_cls = F.sigmoid_focal_loss(cls, cls_t, normalizer=n_pos.reshape([1]))
    l_reg = (iou_loss(reg, reg_t) * ctr_t).sum() / paddle.clip(ctr_t.sum(), min=1.0)
    l_ctr = (F.binary_cross_entropy_with_logits(ctr, ctr_t, reduction='none') * pos).sum() / n_pos
    return {'cls': l_cls, 'reg': l_reg, 'ctr': l_ctr}
