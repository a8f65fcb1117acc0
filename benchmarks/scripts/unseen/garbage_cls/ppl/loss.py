import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class CELoss(nn.Layer):
    def forward(self, logits, label):
        return {"CELoss": F.cross_entropy(logits, label).mean()}


class SmoothCE(nn.Layer):
    def __init__(self, epsilon=0.1):
        super().__init__()
        assert 0 < epsilon < 1
        self.epsilon = epsilon

    def forward(self, logits, label):
        n = logits.shape[-1]
        one_hot = F.one_hot(label.reshape([-1]), n)
        soft = F.label_smooth(one_hot, epsilon=self.epsilon)
        soft = paddle.reshape(soft, shape=[-1, n])
        loss = F.cross_entropy(logits, label=soft, soft_label=True)
        return {"SmoothCE": loss.mean()}


def build_loss(config):
    config = dict(config)
    name = config.pop("name")
    return {"CELoss": CELoss, "SmoothCE": SmoothCE}[name](**config)
