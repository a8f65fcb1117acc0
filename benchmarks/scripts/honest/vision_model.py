import paddle
from paddle.vision import transforms
from paddle.vision.datasets import MNIST
from paddle.vision.models import mobilenet_v3_small

net = mobilenet_v3_small(num_classes=10, scale=0.5)
opt = paddle.optimizer.Momentum(0.01, parameters=net.parameters(), weight_decay=1e-4)
turn = transforms.Compose([transforms.Resize(40), transforms.RandomCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)])


class Made(paddle.io.Dataset):
    def __getitem__(self, i):
        import numpy as np
        from PIL import Image

        return turn(Image.fromarray(np.random.randint(0, 255, (48, 40, 3), "uint8"))), i % 10

    def __len__(self):
        return 32


for x, y in paddle.io.DataLoader(Made(), batch_size=8):
    loss = paddle.nn.functional.cross_entropy(net(x), y.unsqueeze(1))
    loss.backward()
    opt.step()
    opt.clear_grad()
