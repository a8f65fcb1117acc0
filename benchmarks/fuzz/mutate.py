"""Input that is almost right: documents with odd values in them, bytes with damage in them."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, -0.0, 0.5),
    *(float("nan"), float("inf"), "", "0", "-1", "\0", "a" * 5000, "\x1b]52;c;YQ==\x07", "‮x"),
    *("../../etc/passwd", "$(id)", "%s%n", "{0}", "[red]x", "0001-01-01T00:00:00Z", "9" * 400),
    *([], {}, [[]], [None] * 50, {"": ""}, {"a": {"b": {"c": []}}}),
)
ODD_BYTES = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t", b"{", b"}", b"[" * 60, b"]"),
    *(b'"', b"'", b"\\", b"\x1b[2J", b"\xe2\x80\xae", b"9" * 300, b"1e999", b"&a *a", b"<<: *a"),
    *(b"!!python/object:os.system", b": ", b"- ", b"#", b"%", b"\xf0\x9f\x92\xa9", b"\xc3\x28"),
)


def document(rng: random.Random, value: Any, changes: int = 3) -> Any:
    """Return a copy of a JSON-like value with up to so many parts of it replaced, doubled or
    removed."""
    changed = {"": copy.deepcopy(value)}
    # Many copies once only: of copies of copies the input alone would fill the memory.
    many = 300
    for _ in range(rng.randint(1, changes)):
        holder, key = rng.choice(_places(changed))
        kind = rng.random()
        if kind < 0.6:
            holder[key] = copy.deepcopy(rng.choice(ODD_VALUES))
        elif kind < 0.8 and holder is not changed:
            del holder[key]
        else:
            times = rng.choice((1, 2, many))
            holder[key] = [holder[key]] * times
            many = 2 if times == many else many
    return changed[""]


def damage(rng: random.Random, data: bytes, changes: int = 4) -> bytes:
    """Return bytes with up to so many pieces flipped, cut, doubled, moved or put in."""
    made = bytearray(data)
    for _ in range(rng.randint(1, changes)):
        start = rng.randrange(len(made) + 1)
        end = min(len(made), start + rng.choice((1, 1, 2, 4, 16, 64, 500)))
        kind = rng.randrange(6)
        if kind == 0 and start < len(made):
            made[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del made[start:end]
        elif kind == 2:
            made[start:start] = made[start:end] * rng.choice((1, 2, 20))
        elif kind == 3:
            made[start:start] = rng.choice(ODD_BYTES) * rng.choice((1, 1, 1, 40))
        elif kind == 4:
            made[start:end] = rng.randbytes(end - start)
        else:
            piece = made[start:end]
            del made[start:end]
            at = rng.randrange(len(made) + 1)
            made[at:at] = piece
    return bytes(made)


def json_bytes(rng: random.Random, value: Any) -> bytes:
    """Return a document as JSON with odd values, damaged bytes, or both."""
    kind = rng.random()
    data = json.dumps(document(rng, value) if kind < 0.7 else value).encode()
    return damage(rng, data) if kind > 0.5 else data


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return where a document can be changed: each container with each of its keys."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending and len(found) < 2000:
        holder = pending.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, below in items:
            found.append((holder, key))
            if isinstance(below, (dict, list)) and below:
                pending.append(below)
    return found
