import numpy as np
import paddle
from paddle.vision.ops import nms, roi_align


class Boxes(paddle.io.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        n = 1 + i % 4
        boxes = np.zeros((6, 4), "float32")
        boxes[:n] = np.random.rand(n, 4) * 8 + np.array([0, 0, 8, 8])
        return np.random.rand(3, 32, 32).astype("float32"), boxes, np.int64(n)


body = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3, stride=2, padding=1), paddle.nn.ReLU())
head = paddle.nn.Linear(8 * 9, 5)
opt = paddle.optimizer.Momentum(0.01, parameters=body.parameters() + head.parameters())
for x, boxes, n in paddle.io.DataLoader(Boxes(), batch_size=4, drop_last=True):
    rois = paddle.concat([b[:int(k)] for b, k in zip(boxes, n)])
    feats = roi_align(body(x), rois, n.astype("int32"), 3, spatial_scale=0.5)
    out = head(feats.flatten(1))
    keep = nms(rois, 0.5, scores=out.max(1).detach())
    assert len(keep) <= len(rois)
    target = paddle.randint(0, 5, [rois.shape[0]])
    loss = paddle.nn.functional.cross_entropy(out, target) + out[keep].square().mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
