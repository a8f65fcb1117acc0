"""The commands that pages say: lines of their blocks, and what stands in the text as code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "gpuconsole"
_BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IN_TEXT = re.compile(rf"`({PROGRAM}(?: [^`\n]*)?(?:\n[^`\n]+)?)`")
_LINE = re.compile(rf"(\$ )?([^#]*[|;&] *|sudo |\w+=\S+ )*{PROGRAM}\b")
STANDS_FOR = {"N": "1", "PORT": "8040", "TIME": "1h"}
"""What a reader puts where a number or a time is to be written."""
_OPTIONAL = re.compile(r" \[([^\]\n]*)\]")


@dataclass(frozen=True)
class Command:
    """A line as a page says it."""

    line: str
    in_block: bool
    """Whether it is to be typed; in the text a command may be named without its arguments."""

    def written(self) -> Iterator[list[str]]:
        """Yield the words of each `gpuconsole` of the line, without that one: what is in brackets
        may be left out, so that there are two ways to write it."""
        shortest, longest = _OPTIONAL.sub("", self.line), _OPTIONAL.sub(r" \1", self.line)
        for line in dict.fromkeys((shortest, longest)):
            for words in _commands_of(line):
                while words and ("=" in words[0] or words[0] == "sudo"):
                    words = words[1:]
                if words and words[0] == PROGRAM:
                    yield [STANDS_FOR.get(word, word) for word in words[1:]]


def commands(page: Path) -> list[Command]:
    """Return the commands of a page, in the order of its blocks, then of its text."""
    text = page.read_text("utf-8")
    lines = [
        line.strip().removeprefix("$ ")
        for block in _BLOCK.findall(text)
        for line in block.replace("\\\n", " ").splitlines()
        if _LINE.match(line.strip())
    ]
    typed = [Command(line, in_block=True) for line in lines]
    named = _IN_TEXT.findall(_BLOCK.sub("", text))
    return typed + [Command(" ".join(line.split()), in_block=False) for line in named]


def _commands_of(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for word in lexer:
        if set(word) <= set("|&;"):
            yield words
            words = []
        elif skip or set(word) <= set("<>"):
            # A redirection and its file.
            skip = not skip
        else:
            words.append(word)
    yield words
