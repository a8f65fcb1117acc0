import logging
import os

import numpy as np
import paddle
import yaml
from paddle.io import DataLoader

from net import XDeepFM
from reader import RecDataset, load_slots

logging.basicConfig(format='%(asctime)s - %(levelname)s - %(message)s', level=logging.INFO)
logger = logging.getLogger(__name__)
root = os.path.dirname(os.path.abspath(__file__))


def create_model(config, slots):
    hp = config['hyper_parameters']
    return XDeepFM(list(slots.values()), hp['dense_dim'], hp['sparse_feature_dim'],
                   hp['cin_layer_sizes'], hp['fc_sizes'])


def create_optimizer(model, config):
    opt = config['hyper_parameters']['optimizer']
    cls = getattr(paddle.optimizer, opt['class'])
    return cls(learning_rate=opt['learning_rate'], parameters=model.parameters())


def main():
    with open(os.path.join(root, 'config.yaml')) as f:
        config = yaml.load(f, Loader=yaml.FullLoader)
    run = config['runner']
    paddle.seed(run['seed'])
    slots = load_slots(os.path.join(root, run['slot_file']))
    dataset = RecDataset([os.path.join(root, run['train_data'])], slots)
    loader = DataLoader(dataset, batch_size=run['train_batch_size'], drop_last=True)
    model = create_model(config, slots)
    optimizer = create_optimizer(model, config)
    auc = paddle.metric.Auc('ROC', num_thresholds=4095)
    for epoch in range(run['epochs']):
        model.train()
        for batch_id, (sparse, dense, label) in enumerate(loader):
            pred = model(sparse, dense)
            loss = paddle.nn.functional.log_loss(pred, label).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            p = pred.numpy()
            auc.update(preds=np.concatenate([1 - p, p], axis=1), labels=label.numpy())
            if batch_id % run['print_interval'] == 0:
                logger.info('epoch: %d, batch_id: %d, loss: %.5f, auc: %.5f', epoch, batch_id, float(loss), auc.accumulate())
        if run['model_save_path']:
            paddle.save(model.state_dict(), os.path.join(run['model_save_path'], 'rec_%d.pdparams' % epoch))


if __name__ == '__main__':
    main()
