"""`paddlenlp.data`: how samples become a batch."""

import numpy as np


class Stack:
    def __init__(self, axis=0, dtype=None):
        self.dtype = dtype

    def __call__(self, data):
        made = np.stack(data)
        return made if self.dtype is None else made.astype(self.dtype)


class Pad:
    def __init__(self, pad_val=0, axis=0, ret_length=None, dtype=None, pad_right=True):
        self.dtype = dtype

    def __call__(self, data):
        made = np.stack(data)
        return made if self.dtype is None else made.astype(self.dtype)


class Tuple:
    def __init__(self, fn, *more):
        self.fns = [*fn, *more] if isinstance(fn, (list, tuple)) else [fn, *more]

    def __call__(self, data):
        return tuple([fn([sample[place] for sample in data])
                      for place, fn in enumerate(self.fns)])  # fmt: skip


class Dict:
    def __init__(self, fn):
        self.fns = fn

    def __call__(self, data):
        return tuple([fn([sample[name] for sample in data]) for name, fn in self.fns.items()])


class DataCollatorWithPadding:
    def __init__(self, tokenizer, padding=True, max_length=None, pad_to_multiple_of=None,
                 return_tensors="pd", return_attention_mask=None):  # fmt: skip
        self.tokenizer = tokenizer

    def __call__(self, features):
        return {("labels" if name in ("label", "label_ids") else name):
                np.stack([one[name] for one in features]) for name in features[0]}  # fmt: skip


class DataCollatorForTokenClassification(DataCollatorWithPadding):
    """Labels are padded like the tokens."""
