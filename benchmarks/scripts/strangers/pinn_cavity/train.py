import os
import sys

import paddle
import yaml

from model import Burgers, ModifiedMLP
from points import collocation

HERE = os.path.dirname(os.path.abspath(__file__))


def load_conf(argv):
    name = argv[0] if argv else "burgers"
    with open(os.path.join(HERE, "conf", name + ".yaml")) as f:
        return yaml.safe_load(f)


def main():
    conf = load_conf(sys.argv[1:])
    tr, lw = conf["train"], conf["loss"]
    paddle.seed(3)
    model = Burgers(ModifiedMLP(2, 1, **conf["net"]))
    lr = paddle.optimizer.lr.ExponentialDecay(tr["lr"], tr["gamma"])
    opt = paddle.optimizer.Adam(lr, parameters=model.parameters())
    batches = collocation(tr["batch_size"], tr["steps"], tr["n_bc"])
    for it, (t, x, zb, ub) in enumerate(batches):
        t, x = paddle.to_tensor(t), paddle.to_tensor(x)
        res = model.residual(t, x)
        pde = paddle.mean(res ** 2)
        bc = paddle.mean((model.net(paddle.to_tensor(zb)) - paddle.to_tensor(ub)) ** 2)
        loss = lw["w_pde"] * pde + lw["w_bc"] * bc
        loss.backward()
        opt.step()
        opt.clear_grad()
        lr.step()
        print("it %d pde %.3e bc %.3e nu %.5f" % (it, float(pde), float(bc), model.log_nu.exp().item()))


if __name__ == "__main__":
    main()
