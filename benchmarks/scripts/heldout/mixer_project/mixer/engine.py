import paddle
import paddle.nn.functional as F

OPTIMIZERS = {
    "adamw": paddle.optimizer.AdamW,
    "momentum": lambda **kw: paddle.optimizer.Momentum(momentum=0.9, **kw),
}


class Engine:
    def __init__(self, model, cfg):
        self.model = model
        self.optimizer = OPTIMIZERS[cfg.name](
            learning_rate=cfg.base_lr, parameters=model.parameters(), weight_decay=cfg.weight_decay
        )
        self.history = []

    def step(self, batch):
        logits = self.model(batch["image"])
        loss = F.cross_entropy(logits, batch["label"])
        self.optimizer.clear_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append(float(loss))
        return logits, loss

    def train(self, loader, max_steps):
        self.model.train()
        for i, batch in enumerate(loader):
            if i == max_steps:
                return
            logits, _ = self.step(batch)
            hits = (paddle.argmax(logits, axis=1) == batch["label"]).sum()
            print(f"step {i:4d}: {self.history[-1]:.4f}, {int(hits)} right")
