import os
import sys

import paddle
import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from data import build_dataset
from losses import DistillLoss
from models import build_model


def run(cfg):
    paddle.seed(cfg['common']['seed'])
    ncls = cfg['data']['num_classes']
    teacher = build_model(cfg['arch']['teacher'], ncls)
    student = build_model(cfg['arch']['student'], ncls)
    if cfg['arch']['pretrained_teacher']:
        teacher.set_state_dict(paddle.load(cfg['arch']['pretrained_teacher']))
    teacher.eval()
    for p in teacher.parameters():
        p.stop_gradient = True
    criterion = DistillLoss(cfg['loss'], student, teacher)

    lo = cfg['data']['loader']
    loader = paddle.io.DataLoader(build_dataset(cfg['data']), batch_size=lo['bs'], shuffle=lo['shuffle'],
                                  drop_last=True)
    oc = cfg['optimizer']
    params = student.parameters() + criterion.parameters()
    opt = getattr(paddle.optimizer, oc['name'])(learning_rate=oc['lr'], momentum=oc['momentum'],
                                                parameters=params, weight_decay=4e-5)
    for ep in range(cfg['common']['epochs']):
        student.train()
        right = total = 0
        for i, (x, y) in enumerate(loader):
            with paddle.no_grad():
                t_out = teacher(x)
            s_out = student(x)
            loss, parts = criterion(s_out, t_out, y)
            loss.backward()
            opt.step()
            opt.clear_grad()
            right += int((s_out[0].argmax(1) == y).sum().item())
            total += x.shape[0]
            if i % cfg['common']['print_step'] == 0:
                print(ep, i, 'loss=%.4f' % loss.item(), {k: round(v.item(), 4) for k, v in parts.items()},
                      'acc=%.3f' % (right / total))


if __name__ == '__main__':
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'distill.yaml')) as f:
        run(yaml.safe_load(f))
