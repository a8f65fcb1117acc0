"""Models of SentencePiece that are not there: one of made-up pieces, so that texts become numbers.

How many pieces a text has is the tokenizer's own; scripts usually cut texts to their length.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from ..notes import note

PIECES = 32000
"""Of a model: as many as T5's and most since."""
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
"""What a piece is, as the format numbers it."""
_ENDINGS = (".model", ".spm")
_WORDS = ("sentencepiece", "spiece", "spm", "tokenizer", "bpe")
"""Words in the names of such models."""


def is_model(path: str) -> bool:
    """Tell whether a file of this name holds such a model."""
    name = os.path.basename(path.lower().strip())
    return name.endswith(_ENDINGS) and any(one in name for one in _WORDS)


def model() -> Any:
    """Return a model in the format of the library (messages of Protocol Buffers)."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<mask>"]
    letters = [chr(one) for one in (*range(0x21, 0x7F), *range(0x4E00, 0x9FA6))]
    words = [*special, "\u2581", "\u2581word", *letters]
    words += [f"\u2581word{one}" for one in range(PIECES - 3 - len(words))]
    fixed = [("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)]
    pieces = [*fixed, *((word, _NORMAL) for word in words)]
    # Of two ways to part a text that with fewer pieces is better, and the earlier ones of them.
    made = [_piece(word, -10.0 - 1e-4 * place, kind) for place, (word, kind) in enumerate(pieces)]
    unigram = _number(3, 1)
    normalizer = _field(1, b"identity")
    return b"".join([*made, _field(2, unigram), _field(3, normalizer)])


def _piece(word: Any, score: object, kind: object) -> Any:
    scored = _varint(2 << 3 | 5) + struct.pack("<f", score)
    return _field(1, _field(1, word.encode()) + scored + _number(3, kind))


def _field(place: Any, content: Any) -> Any:
    return _varint(place << 3 | 2) + _varint(len(content)) + content


def _number(place: Any, value: object) -> Any:
    return _varint(place << 3) + _varint(value)


def _varint(value: Any) -> bytes:
    made = b""
    while value > 0x7F:
        made += bytes([value & 0x7F | 0x80])
        value >>= 7
    return made + bytes([value])


def serve(sentencepiece: Any) -> None:
    """Give a model to readers whose file is not there; they open it outside of Python."""
    cls = sentencepiece.SentencePieceProcessor
    load = cls.LoadFromFile

    def loaded(self: Any, filename: str, *args: object, **kwargs: object) -> Any:
        if os.path.exists(filename):
            return load(self, filename, *args, **kwargs)
        note(f"Data made up: {os.path.basename(filename)} is not here; in its place: a tokenizer's "
             f"model of {PIECES} made-up pieces.")  # fmt: skip
        return self.LoadFromSerializedProto(model())

    cls.LoadFromFile = loaded
