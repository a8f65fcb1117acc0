import numpy as np
from paddle.io import Dataset


class ShapesDataset(Dataset):
    """Rectangles of uniform colour on noise; the colour decides the class."""

    def __init__(self, num_samples, image_size, max_boxes, num_classes):
        super().__init__()
        self.n = num_samples
        self.h, self.w = image_size
        self.max_boxes = max_boxes
        self.num_classes = num_classes

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        rng = np.random.RandomState(idx)
        img = rng.normal(0.0, 0.1, (3, self.h, self.w)).astype('float32')
        n_box = rng.randint(1, self.max_boxes + 1)
        boxes, labels = [], []
        for _ in range(n_box):
            bw, bh = rng.randint(12, self.w // 2), rng.randint(12, self.h // 2)
            x1, y1 = rng.randint(0, self.w - bw), rng.randint(0, self.h - bh)
            c = rng.randint(0, self.num_classes)
            img[c % 3, y1:y1 + bh, x1:x1 + bw] += 0.3 * (c + 1)
            boxes.append([x1, y1, x1 + bw, y1 + bh])
            labels.append(c)
        return img, np.asarray(boxes, 'float32'), np.asarray(labels, 'int64')


class FCOSTargetCollate(object):
    """Stacks images and assigns per-location targets for every level."""

    def __init__(self, image_size, strides, ranges, num_classes):
        self.num_classes = num_classes
        points, rng_of_point = [], []
        h, w = image_size
        for s, r in zip(strides, ranges):
            fh, fw = -(-h // s), -(-w // s)
            ys, xs = np.meshgrid(np.arange(fh), np.arange(fw), indexing='ij')
            p = np.stack([xs.ravel(), ys.ravel()], 1).astype('float32') * s + s / 2
            points.append(p)
            rng_of_point.append(np.tile(np.array([r], 'float32'), (len(p), 1)))
        self.points = np.concatenate(points)
        self.ranges = np.concatenate(rng_of_point)

    def assign(self, boxes, labels):
        px, py = self.points[:, 0:1], self.points[:, 1:2]
        ltrb = np.stack([px - boxes[None, :, 0], py - boxes[None, :, 1],
                         boxes[None, :, 2] - px, boxes[None, :, 3] - py], axis=-1)
        inside = ltrb.min(-1) > 0
        mx = ltrb.max(-1)
        in_range = (mx >= self.ranges[:, 0:1]) & (mx <= self.ranges[:, 1:2])
        area = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))[None]
        area = np.where(inside & in_range, area, 1e8)
        best = area.argmin(1)
        pos = area.min(1) < 1e8
        cls = np.zeros((len(self.points), self.num_classes), 'float32')
        cls[pos, labels[best[pos]]] = 1.0
        reg = ltrb[np.arange(len(best)), best] * pos[:, None]
        l, t, r, b = [np.maximum(reg[:, i], 1e-3) for i in range(4)]
        ctr = np.sqrt(np.minimum(l, r) / np.maximum(l, r) * np.minimum(t, b) / np.maximum(t, b))
        return cls, reg.astype('float32'), (ctr * pos).astype('float32'), pos.astype('float32')

    def __call__(self, batch):
        imgs = np.stack([b[0] for b in batch])
        targets = [self.assign(b[1], b[2]) for b in batch]
        cls, reg, ctr, pos = [np.stack(t) for t in zip(*targets)]
        return imgs, cls, reg, ctr, pos
