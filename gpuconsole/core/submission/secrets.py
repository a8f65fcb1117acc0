"""What is secret among a job's variables, and text from which secret values are taken out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

CUT = "…"
"""With this ends a text that was longer."""
HIDDEN = "***"
"""Shown in place of a secret value."""
SHORTEST = 4
"""Letters of a value that is taken out of text: of shorter ones any text is full."""
_WORDS = frozenset(
    {"auth", "credential", "credentials", "dsn", "pass", "passwd", "passphrase", "pat", "secrets"}
)
_ENDS = ("key", "password", "secret", "token")
_USER_IN_ADDRESS = re.compile(r"://[^/?#\s]*:[^/?#\s]+@")


def looks_secret(name: str, value: str = "") -> bool:
    """Return whether a variable probably holds a secret, by a word of its name (`HF_TOKEN`,
    `WANDB_API_KEY`, `DB_PASSWORD`) or a password within an address in its value."""
    words = [word for word in re.split(r"[^a-z]+", name.lower()) if word]
    named = any(word in _WORDS or word.endswith(_ENDS) for word in words)
    return named or _USER_IN_ADDRESS.search(value) is not None


def withheld(env: Mapping[str, str], secrets: Iterable[str] = ()) -> frozenset[str]:
    """Return the names of variables with values that are not shown: those given as secrets, and
    those with names that look like a secret."""
    return frozenset((*secrets, *(name for name in env if looks_secret(name, env[name]))))


def masked(text: str, values: Iterable[str]) -> str:
    """Return text without these values, also where they are quoted as in JSON or Go, are only a
    line of several, or were cut at the end of the text."""
    if not text:
        return text
    # The longest first: one value may be the beginning of another.
    for form in sorted({form for value in values for form in _forms(value)}, key=len, reverse=True):
        text = text.replace(form, HIDDEN)
        text = _without_beginning(text, form)
    return text


def _forms(value: str) -> Iterator[str]:
    for line in {value, value.replace("\n", " "), *value.splitlines()}:
        for form in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1]):
            if len(form) >= SHORTEST:
                yield form


def _without_beginning(text: str, form: str) -> str:
    """Return a text that was cut without the part of a value with which it ends."""
    if not text.endswith(CUT):
        return text
    body = text.removesuffix(CUT)
    for size in range(min(len(form), len(body)), SHORTEST - 1, -1):
        if body.endswith(form[:size]):
            return body[:-size] + HIDDEN + CUT
    return text
