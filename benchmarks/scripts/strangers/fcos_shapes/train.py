import argparse
import os
import time

import paddle
import yaml
from paddle.io import DataLoader, BatchSampler

from fcos.dataset import ShapesDataset, FCOSTargetCollate
from fcos.modeling import FCOS, fcos_loss

HERE = os.path.dirname(os.path.abspath(__file__))


def parse_args():
    p = argparse.ArgumentParser('FCOS training')
    p.add_argument('-c', '--config', default=os.path.join(HERE, 'configs', 'fcos_tiny.yml'))
    p.add_argument('--seed', type=int, default=2023)
    return p.parse_args()


def build_optimizer(cfg, model):
    lr = paddle.optimizer.lr.PiecewiseDecay([40, 60], [cfg['base_lr'] * 0.1**i for i in range(3)])
    lr = paddle.optimizer.lr.LinearWarmup(lr, cfg['warmup_iters'], cfg['base_lr'] / 10, cfg['base_lr'])
    opt = paddle.optimizer.Momentum(
        learning_rate=lr, momentum=cfg['momentum'], parameters=model.parameters(),
        weight_decay=paddle.regularizer.L2Decay(cfg['weight_decay']),
        grad_clip=paddle.nn.ClipGradByGlobalNorm(cfg['clip_norm']))
    return opt, lr


def main():
    args = parse_args()
    with open(args.config) as f:
        cfg = yaml.safe_load(f)
    paddle.seed(args.seed)
    ds_cfg, tr_cfg = cfg['dataset'], cfg['train']

    dataset = ShapesDataset(**ds_cfg)
    collate = FCOSTargetCollate(ds_cfg['image_size'], cfg['model']['head']['strides'],
                                cfg['model']['head']['ranges'], ds_cfg['num_classes'])
    sampler = BatchSampler(dataset, shuffle=True, batch_size=tr_cfg['batch_size'], drop_last=True)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, num_workers=0)

    model = FCOS(cfg['model'], ds_cfg['num_classes'])
    opt, sched = build_optimizer(tr_cfg, model)
    n_params = sum(p.numel().item() for p in model.parameters())
    print('parameters: %.2fM, points per image: %d' % (n_params / 1e6, len(collate.points)))

    model.train()
    it = 0
    for epoch in range(tr_cfg['epochs']):
        for img, cls_t, reg_t, ctr_t, pos in loader:
            t0 = time.time()
            with paddle.amp.auto_cast(enable=tr_cfg['amp']):
                losses = fcos_loss(model(img), cls_t, reg_t, ctr_t, pos)
            total = sum(losses.values())
            total.backward()
            opt.step()
            opt.clear_grad()
            sched.step()
            it += 1
            if it % tr_cfg['log_interval'] == 0:
                parts = ' '.join('%s=%.4f' % (k, v.item()) for k, v in losses.items())
                print('epoch %d iter %d loss %.4f %s lr %.5f (%.2fs)' % (
                    epoch, it, total.item(), parts, opt.get_lr(), time.time() - t0))
    if cfg['output_dir']:
        os.makedirs(cfg['output_dir'], exist_ok=True)
        paddle.save(model.state_dict(), os.path.join(cfg['output_dir'], 'model_final.pdparams'))


if __name__ == '__main__':
    main()
