import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class KLDiv(nn.Layer):
    def __init__(self, temperature):
        super().__init__()
        self.t = temperature

    def forward(self, s, t):
        p = F.softmax(t / self.t, axis=-1)
        logq = F.log_softmax(s / self.t, axis=-1)
        return F.kl_div(logq, p, reduction='batchmean') * self.t ** 2


class HintLoss(nn.Layer):
    """1x1 regressor from student to teacher feature space + L2."""

    def __init__(self, s_ch, t_ch):
        super().__init__()
        self.adapt = nn.Conv2D(s_ch, t_ch, 1)

    def forward(self, fs, ft):
        return F.mse_loss(self.adapt(fs), ft)


class DistillLoss(nn.Layer):
    def __init__(self, cfg, student, teacher):
        super().__init__()
        self.w_ce, self.w_kl, self.w_hint = cfg['ce'], cfg['kl']['weight'], cfg['hint']['weight']
        self.stage = cfg['hint']['stage']
        self.kl = KLDiv(cfg['kl']['temperature'])
        self.hint = HintLoss(student.out_channels, teacher.out_channels)

    def forward(self, s_out, t_out, label):
        (s_logit, s_feats), (t_logit, t_feats) = s_out, t_out
        parts = {
            'ce': self.w_ce * F.cross_entropy(s_logit, label),
            'kl': self.w_kl * self.kl(s_logit, t_logit),
            'hint': self.w_hint * self.hint(s_feats[self.stage], t_feats[self.stage]),
        }
        return paddle.add_n(list(parts.values())), parts
