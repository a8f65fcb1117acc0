"""Recipes for speech: sounds, and a vocabulary of its characters."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path

FIRST = 0x4E00
"""The first of the characters that stand for words."""


def sounds(folder: Path, *, name: str = "{i}.wav", count: int = 16, seconds: float = 4.0) -> None:
    """Write sounds of 16 kHz, a low hum each, in WAV."""
    rate = 16_000
    hum = b"".join(((i % 160 - 80) * 40).to_bytes(2, "little", signed=True) for i in range(160))
    for i in range(count):
        path = folder / name.format(i=i)
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as written:
            written.setnchannels(1)
            written.setsampwidth(2)
            written.setframerate(rate)
            written.writeframes(hum * int(seconds * rate / 160))


def characters(folder: Path, *, name: str = "model", count: int = 4000) -> None:
    """Write a vocabulary of so many Chinese characters as SentencePiece makes it."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    kinds: Sequence[str] = [chr(FIRST + i) for i in range(count)]
    texts = ["".join(kinds[i : i + 20]) for i in range(0, count, 20)]
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(texts), model_prefix=str(folder / name), model_type="char",
        pad_id=0, unk_id=1, eos_id=2, bos_id=-1, pad_piece="<blank>", unk_piece="<unk>",
        eos_piece="<eos>", character_coverage=1.0, use_all_vocab=True, minloglevel=4,
    )  # fmt: skip
