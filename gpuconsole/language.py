"""`Language`: what is said, in the language of the one who reads.

The code says everything in English, as a `Message` where there are values in it
(`core/wording.py`), and what is drawn passes `say`. A catalogue is a file that maps English
templates to others. A message is found by its template alone; its values are not looked at.

A plain text has lost its template, by way of the journal or of the lab's queue. It is found if this
process has made it lately, or as a whole if it has no places, or nothing but figures in them, or if
it is several such sentences.
Nothing else is: a name could be mistaken for words. What is not found stays English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple

from gpuconsole.core.wording import Joined, Message, recalled

ENGLISH, CHINESE = "en", "zh"
CODES = (ENGLISH, CHINESE)
NAMES: Mapping[str, str] = {ENGLISH: "English", CHINESE: "中文"}

_PLACE = re.compile(r"\{(\w+)\}")
_SENTENCES = re.compile(r"(?<=[.?!]) (?=\S)")
"""Where one sentence ends and the next begins."""
_TRANSLATED, _LISTED, _WORD = "_text", "_list", "_word"
"""The ends of the names of places that hold words of the program: they are looked for in the
catalogue too, of a list each text between two commas."""
_OURS = (_TRANSLATED, _WORD)
FIGURES = frozenset({"n", "all", "size", "limit", "time", "percent", "low", "high", "index", "pid"})
"""Places of these names are figures, with their unit: anything else there is another sentence."""
_FIGURE = r"(?:[-+~]?\d[\w.,:%µ/+-]*(?: [A-Za-zµ%]{1,6})?|n/a)"
LABELS = "keys"
"""The section with the labels of keys."""
_REMEMBERED = 8192
_LONGEST = 600
"""Longer texts are not sentences of ours: logs, plots, source lines."""


class _Shape(NamedTuple):
    text: str
    other: str


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
        self._texts: Mapping[str, str] = texts or {}
        self._known: dict[str, str] = {}
        # What says more is tried first: `{n} of {m} free` before `{n} free`.
        shapes = [
            _Shape(text, self._texts[text])
            for text in sorted(self._texts, key=_letters, reverse=True)
            if (names := _PLACE.findall(text)) and FIGURES.issuperset(names)
        ]
        self._shapes = {
            letter: [shape for shape in shapes if shape.text[0] in ("{", letter)]
            for letter in {"", *(shape.text[0] for shape in shapes)}
        }
        """What a plain text may be like, by its first letter: with figures alone in it."""

    def say(self, text: str) -> str:
        """Return an English text in this language, or as it is where the catalogue has none."""
        if self.code == ENGLISH or not text:
            return text
        if isinstance(text, Message):
            return self._said(text)
        message = recalled(text)
        if isinstance(message, Message):
            return self._said(message)
        translated = self._known.get(text)
        if translated is None:
            translated = self._found(text)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[text] = translated
        return translated

    def label(self, text: str) -> str:
        """Return what a key is called."""
        return self._labels.get(text, text)

    def _said(self, message: Message) -> str:
        if isinstance(message, Joined):
            parts = map(self.say, message.parts)
            if message.separator == " ":
                return _joined(parts)
            return ("、" if message.separator == ", " else message.separator).join(parts)
        other = self._texts.get(message.template)
        if other is None:
            if re.search("[A-Za-z]{2}", _PLACE.sub("", message.template)):
                # A sentence without its Chinese: half of it would be worse than none.
                return str(message)
            other = message.template
        return _PLACE.sub(lambda place: self._value(message, place[1]), other)

    def _value(self, message: Message, place: str) -> str:
        value = message.values[place]
        if isinstance(value, Message) or place.endswith(_OURS):
            return self.say(value)
        if place.endswith(_LISTED):
            return "、".join(map(self.say, value.split(", ")))
        return value

    def _found(self, text: str) -> str:
        words = text.strip(" ")
        if words != text:
            # Blanks around a text are layout.
            start = text.index(words) if words else 0
            return text[:start] + self.say(words) + text[start + len(words) :]
        whole = self._sentence(text)
        if whole is not None or len(text) > _LONGEST:
            return text if whole is None else whole
        parts = [self._sentence(part) for part in _SENTENCES.split(text)]
        translated = [part for part in parts if part is not None]
        return _joined(translated) if len(translated) == len(parts) else text

    def _sentence(self, text: str) -> str | None:
        exact = self._texts.get(text)
        if exact is not None:
            return exact
        if len(text) > _LONGEST or not any(letter.isdigit() for letter in text):
            return None
        for shape in self._shapes.get(text[0], self._shapes[""]):
            match = _pattern(shape.text).fullmatch(text)
            if match is not None:
                return _PLACE.sub(partial(_filled, match), shape.other)
        return None


def _filled(match: re.Match[str], place: re.Match[str]) -> str:
    return match[place[1]]


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
    sections: dict[str, dict[str, object]] = yaml.load(source.read_text("utf-8"), Loader=loader)
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
    """Return what a text of the catalogue that has nothing but figures in it looks like."""
    parts, at = [], 0
    for place in _PLACE.finditer(text):
        parts += [re.escape(text[at : place.start()]), f"(?P<{place[1]}>{_FIGURE})"]
        at = place.end()
    return re.compile("".join((*parts, re.escape(text[at:]))), re.DOTALL)
