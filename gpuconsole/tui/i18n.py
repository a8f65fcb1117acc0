"""`Language`: what the screens say, in the language of the one who reads.

The code says everything in English, and what is drawn passes `say`. A catalogue is a file that
maps English texts to others; a `{name}` in a text stands for whatever is there on the screen, so
that sentences which preflight, placement or a host's fault have written are found again by their
shape. A text of several sentences is looked for sentence by sentence. What no text of the catalogue
is like stays English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

ENGLISH, CHINESE = "en", "zh"
CODES = (ENGLISH, CHINESE)
NAMES: Mapping[str, str] = {ENGLISH: "English", CHINESE: "中文"}

_PLACE = re.compile(r"\{(\w+)\}")
_SENTENCES = re.compile(r"(?<=[.?!]) (?=\S)")
"""Where one sentence ends and the next begins."""
_TRANSLATED, _LISTED, _WORD = "_text", "_list", "_word"
"""The ends of the names of places whose own text is looked for in the catalogue too, or each of
several with commas between them, or which must be in it for the text to be this one."""
FIGURES = frozenset({"n", "all", "size", "limit", "time", "percent", "low", "high", "index", "pid"})
"""Places of these names are figures, with their unit: anything else there is another sentence."""
_FIGURE = r"(?:[-+~]?\d[\w.,:%µ/+-]*(?: [A-Za-zµ%]{1,6})?|n/a)"
LABELS = "keys"
"""The section with the labels of keys."""
_REMEMBERED = 8192
_LONGEST = 600
"""Longer texts are not sentences of ours: logs, plots, source lines."""
_LOOSE_LONGEST = 200
"""Each place of a sentence multiplies what a text that nearly fits costs; with three it is much."""


class _Shape(NamedTuple):
    text: str
    other: str
    breaks: int
    """How often one sentence ends in it and another begins: no place goes beyond that."""

    def too_loose_for(self, text: str) -> bool:
        """Whether to try it on such a long text would take longer than a frame."""
        return len(text) > _LOOSE_LONGEST and len(_PLACE.findall(self.text)) > 2


class Language:
    """A language that the screens may speak."""

    def __init__(
        self,
        code: str = ENGLISH,
        texts: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self._labels = labels or {}
        """What keys are called: `down` is a way to go there, and the state of a host elsewhere."""
        self._exact: dict[str, str] = {}
        self._shapes: dict[str, list[_Shape]] = {}
        """What a text may be like, by its first letter; "" for any other letter."""
        self._known: dict[str, str] = {}
        # What says more is tried first: `{n} of {m} free` before `{n} free`.
        shapes: list[tuple[str, _Shape]] = []
        for text in sorted(texts or {}, key=_letters, reverse=True):
            other = (texts or {})[text]
            if _PLACE.search(text):
                first = "" if text.startswith("{") else text[0]
                breaks = len(_SENTENCES.findall(text))
                shapes.append((first, _Shape(text, other, breaks)))
            else:
                self._exact[text] = other
        for letter in {"", *(first for first, _ in shapes)}:
            self._shapes[letter] = [shape for first, shape in shapes if first in ("", letter)]

    def say(self, text: str) -> str:
        """Return an English text in this language, or as it is where the catalogue has none."""
        if self.code == ENGLISH or not text:
            return text
        known = self._known.get(text)
        if known is None:
            known = self._translated(text)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[text] = known
        return known

    def label(self, text: str) -> str:
        """Return what a key is called."""
        return self._labels.get(text, text)

    def _translated(self, text: str) -> str:
        exact = self._exact.get(text)
        if exact is not None:
            return exact
        words = text.strip(" ")
        if words != text:
            # Blanks around a text are layout.
            start = text.index(words) if words else 0
            return text[:start] + self.say(words) + text[start + len(words) :]
        if len(text) > _LONGEST:
            return text
        sentences = _SENTENCES.split(text)
        for shape in self._shapes.get(text[0], self._shapes[""]):
            if shape.breaks != len(sentences) - 1 or shape.too_loose_for(text):
                continue
            found = _pattern(shape.text).fullmatch(text)
            if found is not None and self._has_words(found):
                return _PLACE.sub(partial(self._filled, found), shape.other)
        return _joined(map(self.say, sentences)) if len(sentences) > 1 else text

    def _has_words(self, found: re.Match[str]) -> bool:
        return all(
            value in self._exact
            for name, value in found.groupdict().items()
            if name.endswith(_WORD)
        )

    def _filled(self, found: re.Match[str], place: re.Match[str]) -> str:
        name = place[1]
        value = found[name]
        if name.endswith(_LISTED):
            return "、".join(map(self.say, value.split(", ")))
        return self.say(value) if name.endswith((_TRANSLATED, _WORD)) else value


def language(code: str) -> Language:
    """Return a language of `CODES`; its catalogue is read only when it is asked for."""
    if code == ENGLISH:
        return Language()
    sections = catalogue(code)
    labels = sections.pop(LABELS, {})
    texts = {text: other for part in sections.values() for text, other in part.items()}
    return Language(code, texts, labels)


def catalogue(code: str) -> dict[str, dict[str, str]]:
    """Return the shipped texts of a language other than English, by section."""
    import yaml

    source = files("gpuconsole") / "data" / "languages" / f"{code}.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    sections: dict[str, dict[str, Any]] = yaml.load(source.read_text("utf-8"), Loader=loader)
    return {
        name: {str(text): str(other) for text, other in part.items()}
        for name, part in sections.items()
    }


def spoken(wanted: str, environment: Mapping[str, str]) -> str:
    """Return the code of a language: the wanted one, or with `auto` that of the environment."""
    if wanted in CODES:
        return wanted
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name, ""):
            return CHINESE if value.lower().startswith("zh") else ENGLISH
    return ENGLISH


def places(text: str) -> Iterable[str]:
    """Give the names of the places in a text of a catalogue."""
    return _PLACE.findall(text)


def _joined(sentences: Iterable[str]) -> str:
    """Put sentences behind each other; a full stop of Chinese has its blank with it."""
    result = ""
    for sentence in sentences:
        wide = result.endswith(("。", "？", "！", "："))
        result += sentence if wide or not result else f" {sentence}"
    return result


def _letters(text: str) -> int:
    return len(_PLACE.sub("", text))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return what a text of a catalogue looks like on the screen."""
    parts, at = [], 0
    for place in _PLACE.finditer(text):
        what = _FIGURE if place[1] in FIGURES else ".+?"
        parts += [re.escape(text[at : place.start()]), f"(?P<{place[1]}>{what})"]
        at = place.end()
    return re.compile("".join((*parts, re.escape(text[at:]))), re.DOTALL)
