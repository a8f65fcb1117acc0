"""What a task file asks for when it names a language model and no script: fine-tuning it."""

import argparse

import paddle
from paddlenlp.transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

parser = argparse.ArgumentParser()
parser.add_argument("--model")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--length", type=int, default=128)
parser.add_argument("--head", default="classes", choices=["classes", "vocabulary"])
parser.add_argument("--inference", action="store_true")
args = parser.parse_args()


class Texts(paddle.io.Dataset):
    def __getitem__(self, index):
        return paddle.zeros([args.length], "int64"), paddle.zeros([], "int64")

    def __len__(self):
        return 1_000_000


kind = AutoModelForMaskedLM if args.head == "vocabulary" else AutoModelForSequenceClassification
model = kind.from_pretrained(args.model)
loader = paddle.io.DataLoader(Texts(), batch_size=args.batch_size)
if args.inference:
    model.eval()
    with paddle.no_grad():
        for ids, _ in loader:
            out = model(ids)
else:
    optimizer = paddle.optimizer.AdamW(5e-5, parameters=model.parameters())
    for ids, label in loader:
        out = model(ids)
        if args.head == "vocabulary":
            label = ids
        loss = paddle.nn.functional.cross_entropy(out, label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
