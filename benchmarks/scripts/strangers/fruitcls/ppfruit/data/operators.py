import numpy as np

from ..utils.registry import TRANSFORMS


@TRANSFORMS.register
class RandFlipImage:
    def __init__(self, flip_code=1):
        self.flip_code = flip_code

    def __call__(self, img):
        if np.random.rand() < 0.5:
            img = img[:, ::-1] if self.flip_code == 1 else img[::-1]
        return img


@TRANSFORMS.register
class RandCropImage:
    def __init__(self, size, pad=4):
        self.size, self.pad = size, pad

    def __call__(self, img):
        p = self.pad
        img = np.pad(img, ((p, p), (p, p), (0, 0)))
        top = np.random.randint(0, img.shape[0] - self.size + 1)
        left = np.random.randint(0, img.shape[1] - self.size + 1)
        return img[top:top + self.size, left:left + self.size]


@TRANSFORMS.register
class NormalizeImage:
    def __init__(self, mean, std, scale=1.0 / 255):
        self.mean = np.array(mean, dtype="float32").reshape(1, 1, 3)
        self.std = np.array(std, dtype="float32").reshape(1, 1, 3)
        self.scale = np.float32(scale)

    def __call__(self, img):
        return (img.astype("float32") * self.scale - self.mean) / self.std


@TRANSFORMS.register
class ToCHWImage:
    def __call__(self, img):
        return np.ascontiguousarray(img.transpose((2, 0, 1)))


def create_operators(params):
    ops = []
    for op in params:
        name = list(op)[0]
        ops.append(TRANSFORMS[name](**(op[name] or {})))
    return ops


def transform(img, ops):
    for op in ops:
        img = op(img)
    return img
