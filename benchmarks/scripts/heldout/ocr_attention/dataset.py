import numpy as np
from paddle.io import Dataset


class CharacterDict:
    def __init__(self, path):
        with open(path) as f:
            chars = [line.rstrip("\n") for line in f if line.strip()]
        self.chars = ["<sos>"] + chars + ["<eos>"]
        self.index = {c: i for i, c in enumerate(self.chars)}

    def __len__(self):
        return len(self.chars)

    def encode(self, text, length):
        ids = [self.index["<sos>"]] + [self.index[c] for c in text] + [self.index["<eos>"]]
        ids += [self.index["<eos>"]] * (length + 2 - len(ids))
        return np.array(ids, dtype="int64")


class SyntheticWords(Dataset):
    def __init__(self, dictionary, image_shape, max_len, size=5000):
        super().__init__()
        self.dictionary = dictionary
        self.image_shape = image_shape
        self.max_len = max_len
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        n = rng.randint(3, self.max_len + 1)
        text = [self.dictionary.chars[j] for j in rng.randint(1, len(self.dictionary) - 1, size=n)]
        c, h, w = self.image_shape
        image = rng.normal(size=(h, w, c)).astype(np.float32)
        image = (image - 0.5) / 0.5
        return image.transpose((2, 0, 1)), self.dictionary.encode(text, self.max_len)
