"""Names that are unique across users, consoles and machines."""

from __future__ import annotations

import secrets

# Crockford's base 32: no letter that looks like a digit, and text order is number order.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH = 1704067200.0  # 2024-01-01: six letters of seconds last until 2058
_TIME_LETTERS, _RANDOM_LETTERS = 6, 4


def new_job_id(now: float) -> str:
    """Return ten letters: the second it was made, then 20 random bits; sorts by time."""
    seconds = max(0, int(now - _EPOCH)) % 32**_TIME_LETTERS
    return _base32(seconds, _TIME_LETTERS) + _base32(
        secrets.randbits(5 * _RANDOM_LETTERS), _RANDOM_LETTERS
    )


def new_nonce() -> str:
    """Return an unguessable word, to distinguish an own container from one with a copied name."""
    return secrets.token_hex(6)


def _base32(number: int, width: int) -> str:
    letters = []
    for _ in range(width):
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(reversed(letters))
