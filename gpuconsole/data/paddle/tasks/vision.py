"""What a task file asks for when it names a vision model and no script: training it."""

import argparse

import paddle

parser = argparse.ArgumentParser()
parser.add_argument("--model")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--side", type=int, default=224)
parser.add_argument("--inference", action="store_true")
args = parser.parse_args()


class Pictures(paddle.io.Dataset):
    def __getitem__(self, index):
        return paddle.zeros([3, args.side, args.side]), paddle.zeros([], "int64")

    def __len__(self):
        return 1_000_000


model = getattr(paddle.vision.models, args.model)()
loader = paddle.io.DataLoader(Pictures(), batch_size=args.batch_size)
if args.inference:
    model.eval()
    with paddle.no_grad():
        for x, _ in loader:
            out = model(x)
else:
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for x, label in loader:
        out = model(x)
        out = out[0] if isinstance(out, tuple) else out
        loss = paddle.nn.functional.cross_entropy(out, label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
