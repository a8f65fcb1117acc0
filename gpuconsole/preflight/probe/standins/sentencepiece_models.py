"""Models of SentencePiece that are not there: one of made-up pieces, so that texts become numbers.

How many pieces a text has is the tokenizer's own; scripts usually cut texts to their length.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from ..notes import note

if TYPE_CHECKING:
    from types import ModuleType

    from sentencepiece import SentencePieceProcessor

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
    return name.endswith(_ENDINGS) and any(word in name for word in _WORDS)


def model() -> bytes:
    """Return a model in the format of the library (messages of Protocol Buffers)."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<mask>"]
    letters = [chr(code) for code in (*range(0x21, 0x7F), *range(0x4E00, 0x9FA6))]
    words = [*special, "\u2581", "\u2581word", *letters]
    words += [f"\u2581word{number}" for number in range(PIECES - 3 - len(words))]
    fixed = [("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)]
    pieces = [*fixed, *((word, _NORMAL) for word in words)]
    # Of two ways to part a text that with fewer pieces is better, and the earlier ones of them.
    messages = [
        _piece(word, -10.0 - 1e-4 * place, kind) for place, (word, kind) in enumerate(pieces)
    ]
    unigram = _number(3, 1)
    normalizer = _field(1, b"identity")
    return b"".join([*messages, _field(2, unigram), _field(3, normalizer)])


def _piece(word: str, score: float, kind: int) -> bytes:
    scored = _varint(2 << 3 | 5) + struct.pack("<f", score)
    return _field(1, _field(1, word.encode()) + scored + _number(3, kind))


def _field(place: int, content: bytes) -> bytes:
    return _varint(place << 3 | 2) + _varint(len(content)) + content


def _number(place: int, value: int) -> bytes:
    return _varint(place << 3) + _varint(value)


def _varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def serve(sentencepiece: ModuleType) -> None:
    """Serve a model to readers of a file that is not there; they open it outside of Python."""
    cls = sentencepiece.SentencePieceProcessor
    load = cls.LoadFromFile

    def loaded(
        self: SentencePieceProcessor, filename: str, *args: object, **kwargs: object
    ) -> object:
        if os.path.exists(filename):
            return load(self, filename, *args, **kwargs)
        note(f"Data made up: {os.path.basename(filename)} is not here; in its place: a tokenizer's "
             f"model of {PIECES} made-up pieces.")  # fmt: skip
        return self.LoadFromSerializedProto(model())

    cls.LoadFromFile = loaded
