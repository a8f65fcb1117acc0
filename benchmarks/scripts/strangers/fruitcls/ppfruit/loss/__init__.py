import paddle
import paddle.nn as nn
import paddle.nn.functional as F

from ..utils.registry import LOSSES


@LOSSES.register
class CELoss(nn.Layer):
    def __init__(self, epsilon=None):
        super().__init__()
        self.epsilon = epsilon

    def forward(self, x, label):
        if self.epsilon:
            one_hot = F.one_hot(label, num_classes=x.shape[-1])
            soft = F.label_smooth(one_hot, epsilon=self.epsilon)
            loss = F.cross_entropy(x, soft, soft_label=True)
        else:
            loss = F.cross_entropy(x, label)
        return {"CELoss": loss.mean()}


class CombinedLoss(nn.Layer):
    def __init__(self, config_list):
        super().__init__()
        funcs, self.weights = [], []
        for item in config_list:
            name = list(item)[0]
            kw = dict(item[name])
            self.weights.append(kw.pop("weight"))
            funcs.append(LOSSES[name](**kw))
        self.funcs = nn.LayerList(funcs)

    def forward(self, x, label):
        total = {}
        for w, f in zip(self.weights, self.funcs):
            total.update({k: v * w for k, v in f(x, label).items()})
        total["loss"] = paddle.add_n(list(total.values()))
        return total
