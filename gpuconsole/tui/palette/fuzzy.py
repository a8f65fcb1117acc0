"""Fuzzy matching of what is typed in the palette; linear in the text, so a long list is no trouble.

Every word must be found: best as a part of the text, else as letters in their order.
"""

from __future__ import annotations

from itertools import pairwise

PART, LETTERS = 1000, 200
"""What a word is worth that is a part of the text, and at most one that is only letters of it."""
_EVERYWHERE = frozenset({"a", "an", "at", "for", "in", "no", "of", "on", "or", "the", "to"})
"""Words that tell nothing: `the` is rather the beginning of `theme`."""


def score(words: tuple[str, ...], text: str) -> int:
    """Tell how well the words match a text, both in lower case; 0 for not at all."""
    total = 1
    for word in words:
        worth = _part(word, text) or _letters(word, text)
        if not worth:
            return 0
        total += worth
    return total


def places(words: tuple[str, ...], text: str) -> frozenset[int]:
    """Return where in the text the letters stand that were matched, for drawing."""
    positions: set[int] = set()
    for word in words:
        at = _best(word, text)
        if at >= 0:
            positions.update(range(at, at + len(word)))
        elif _letters(word, text):
            positions.update(_spread(word, text))
    return frozenset(positions)


def _part(word: str, text: str) -> int:
    at = _best(word, text)
    if at < 0:
        return 0
    begins = at == 0 or not text[at - 1].isalnum()
    whole = word not in _EVERYWHERE and f" {word} " in f" {text} "
    return PART + 300 * begins + 200 * whole + max(0, 100 - at)


def _best(word: str, text: str) -> int:
    """Return the position of the word in the text: as a whole word, else at the beginning of a
    word, else anywhere."""
    first = text.find(word)
    if first < 0:
        return -1
    whole = f" {text} ".find(f" {word} ")
    if whole >= 0:
        return whole
    at = first
    while at > 0 and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    return at if at >= 0 else first


def _letters(word: str, text: str) -> int:
    spread = _spread(word, text)
    if not spread:
        return 0
    begun = sum(at == 0 or not text[at - 1].isalnum() for at in spread)
    joined = sum(after == before + 1 for before, after in pairwise(spread))
    if begun + joined < len(word) - 1:
        # Letters here and there are no match that a person would see.
        return 0
    return max(1, min(LETTERS, 40 + 20 * (begun + joined) - (spread[-1] - spread[0])))


def _spread(word: str, text: str) -> list[int]:
    """Places of the letters in their order; beginnings of words are taken where they can be."""
    positions: list[int] = []
    at = -1
    for letter in word:
        after = at + 1
        at = text.find(letter, after)
        if at < 0:
            return []
        if at > after:
            begun = text.find(" " + letter, after)
            at = begun + 1 if begun >= 0 and _goes_on(text, at) else at
        positions.append(at)
    return positions


def _goes_on(text: str, at: int) -> bool:
    """Whether a place is within a word."""
    return at > 0 and text[at - 1].isalnum()
