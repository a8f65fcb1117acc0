import numpy as np
import paddle
from paddle.io import DataLoader, Dataset


class Texts(Dataset):
    words = ["a cat", "the dog ran", "", "birds fly far away"]

    def __len__(self):
        return 24

    def __getitem__(self, i):
        text = self.words[i % 4]
        extra = None if i % 3 else {"id": i}
        return {"text": text, "x": np.full(6, i, "float32"), "label": i % 2, "extra": extra, "size": (i, i + 1)}


def collate(rows):
    long = max(len(r["text"].split()) for r in rows)
    ids = np.zeros((len(rows), max(1, long)), "int64")
    for place, r in enumerate(rows):
        for at, word in enumerate(r["text"].split()):
            ids[place, at] = len(word)
    return {"ids": paddle.to_tensor(ids), "x": np.stack([r["x"] for r in rows]), "label": paddle.to_tensor([r["label"] for r in rows]), "texts": [r["text"] for r in rows], "extra": [r["extra"] for r in rows]}


net, emb = paddle.nn.Linear(6 + 4, 2), paddle.nn.Embedding(20, 4)
opt = paddle.optimizer.Adam(parameters=net.parameters() + emb.parameters())
for epoch in range(2):
    for batch in DataLoader(Texts(), batch_size=4, shuffle=True, collate_fn=collate, drop_last=True):
        assert isinstance(batch["texts"][0], str)
        some = [e["id"] for e in batch["extra"] if e is not None]
        h = paddle.concat([paddle.to_tensor(batch["x"]), emb(batch["ids"]).mean(1)], -1)
        loss = paddle.nn.functional.cross_entropy(net(h), batch["label"])
        loss.backward()
        opt.step()
        opt.clear_grad()
