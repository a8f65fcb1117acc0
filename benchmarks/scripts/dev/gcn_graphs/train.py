import os

import paddle
import yaml
from paddle.io import DataLoader
from paddle.metric import Accuracy

from graph_data import RandomGraphs
from layers import GraphClassifier

HERE = os.path.dirname(os.path.abspath(__file__))


def load_config(path):
    with open(path, encoding="utf-8") as f:
        return yaml.safe_load(f)


def make_optimizer(cfg, parameters):
    kind = getattr(paddle.optimizer, cfg["name"])
    return kind(
        learning_rate=cfg["lr"], parameters=parameters, weight_decay=cfg.get("weight_decay", 0.0)
    )


def run(cfg):
    data = RandomGraphs(cfg["data"])
    loader = DataLoader(data, batch_size=cfg["data"]["batch_size"], shuffle=True, drop_last=True)
    model = GraphClassifier(cfg["data"]["node_features"], cfg["data"]["classes"], **cfg["model"])
    opt = make_optimizer(cfg["optim"], model.parameters())
    criterion = paddle.nn.CrossEntropyLoss()
    metric = Accuracy()
    for epoch in range(cfg["optim"]["epochs"]):
        metric.reset()
        model.train()
        for x, adj, mask, y in loader():
            logits = model(x, adj, mask)
            loss = criterion(logits, y)
            loss.backward()
            opt.step()
            opt.clear_grad()
            metric.update(metric.compute(logits, y.unsqueeze(-1)))
        print("epoch %d: loss %.4f, accuracy %.3f" % (epoch, loss.item(), metric.accumulate()))


if __name__ == "__main__":
    run(load_config(os.path.join(HERE, "gcn.yaml")))
