import json
import os
import sys

__dir__ = os.path.dirname(os.path.abspath(__file__))
sys.path.append(__dir__)

import paddle
from paddle.io import DataLoader

from dataset import CharacterDict, SyntheticWords
from modeling import build_model


def main():
    path = os.environ.get("OCR_CONFIG", os.path.join(__dir__, "config.json"))
    with open(path) as f:
        config = json.load(f)
    g = config["Global"]
    dictionary = CharacterDict(os.path.join(__dir__, g["dictionary"]))
    model = build_model(config["Architecture"], len(dictionary), g["max_text_length"])
    dataset = SyntheticWords(dictionary, g["image_shape"], g["max_text_length"])
    loader = DataLoader(
        dataset,
        batch_size=config["Train"]["batch_size_per_card"],
        shuffle=config["Train"]["shuffle"],
        drop_last=True,
    )
    clip = paddle.nn.ClipGradByGlobalNorm(clip_norm=config["Optimizer"]["clip"])
    opt = paddle.optimizer.Adam(config["Optimizer"]["lr"], parameters=model.parameters(), grad_clip=clip)
    criterion = paddle.nn.CrossEntropyLoss(reduction="mean")
    model.train()
    for epoch in range(g["epochs"]):
        for batch_id, batch in enumerate(loader):
            images, targets = batch[0], batch[1]
            preds = model(images, targets[:, :-1])
            loss = criterion(preds.reshape([-1, preds.shape[-1]]), targets[:, 1:].reshape([-1]))
            loss.backward()
            opt.step()
            opt.clear_grad()
            if batch_id % 10 == 0:
                print("epoch", epoch, "batch", batch_id, "loss", float(loss))


if __name__ == "__main__":
    main()
