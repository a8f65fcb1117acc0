"""Answers to preflight's questions: how they are written, and what they say.

`NAME=VALUE`: NAME is what the script calls it (a variable, a dotted name, a call or any other
expression), `file.py:40:NAME` only there. VALUE is a number, text, a truth value, a list, or the
shape of a tensor: `[N, 128] int64`, N being the batch.
"""

from __future__ import annotations

import ast
import re

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.preflight.interpreter.domain.values import Value
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES

MAX_TEXT = 2000
_PLACE = re.compile(r"(?P<file>[^\s:()]+\.(?:py|ipynb)):(?P<line>\d+):(?P<name>.+)", re.DOTALL)
_SHAPE = re.compile(r"\[(?P<extents>[^\[\]]*)\]\s*(?P<dtype>[a-z]+\d*)?")
_EXTENT = re.compile(r"N|\d+")
_WORDS: dict[str, Value] = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True, slots=True)
class ShapeAnswer:
    """The shape and type of an array; "N" is the batch, and makes it a batch of the loader."""

    extents: tuple[int | str, ...]
    dtype: str

    @property
    def batched(self) -> bool:
        """Whether the batch is among the extents."""
        return "N" in self.extents

    def shape(self, batch: int) -> tuple[int, ...]:
        """Return the shape at a batch size."""
        return tuple(batch if extent == "N" else int(extent) for extent in self.extents)


@dataclass(frozen=True, slots=True)
class Assumption:
    """One answer, read."""

    given: str
    """As the user wrote it, without the value."""
    name: str
    """The expression in one spelling."""
    file: str
    line: int
    """Where alone it holds; "" and 0 for everywhere."""
    value: Value

    def holds_at(self, file: str, line: int) -> bool:
        """Tell whether it is meant for this place."""
        if not self.file:
            return True
        return line == self.line and (file == self.file or file.endswith("/" + self.file))


def split(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`; the name may be a call with `=` in it.

    UsageError where there is no name, or it is not an expression.
    """
    if len(text) <= MAX_TEXT and "\0" not in text:
        for at, letter in enumerate(text):
            if letter == "=" and text[at + 1 : at + 2] != "=" and text[at - 1 : at] not in "=!<>":
                name = text[:at].strip()
                if name and _spelling(_unplaced(name)[2]) is not None:
                    return name, text[at + 1 :].strip()
    raise UsageError(
        "Not an assumption",
        msg("{value} is not NAME=VALUE.", value=f"{text[:200]!r}"),
        "Write what the script calls it: --assume vocab_size=30000, "
        "--assume 'len(vocab)=30000', --assume 'x=[N, 128] int64'.",
    )


def read_assumption(given: str, text: str) -> Assumption:
    """Return an answer in the form that the analysis uses; UsageError says what is wrong."""
    file, line, name = _unplaced(given)
    spelling = _spelling(name)
    if spelling is None:
        raise UsageError(
            "Not a name",
            msg("{value} is neither a name nor an expression of Python.", value=f"{given[:200]!r}"),
            "Write it as the script does: vocab_size, len(vocab), args.max_len.",
        )
    value = _value(given, text.strip())
    if _is_length(spelling) and (type(value) is not int or value < 0):
        raise UsageError(
            "Value not understood",
            msg(
                "{name} is a number of items; {value} is none.",
                name=given[:200],
                value=f"{text[:200]!r}",
            ),
            msg("Give a whole number: --assume '{name}=30000'.", name=given[:200]),
        )
    return Assumption(given, spelling, file, line, value)


def _is_length(spelling: str) -> bool:
    call = ast.parse(spelling, mode="eval").body
    return isinstance(call, ast.Call) and ast.unparse(call.func) == "len"


def _unplaced(given: str) -> tuple[str, int, str]:
    placed = _PLACE.fullmatch(given.strip())
    if placed is None:
        return "", 0, given.strip()
    return placed["file"], int(placed["line"]), placed["name"].strip()


def _spelling(name: str) -> str | None:
    """Return an expression as `ast.unparse` writes it: blanks and quotes do not count."""
    try:
        return ast.unparse(ast.parse(name, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(name: str, text: str) -> Value:
    shape = _shape(text)
    if shape is not None:
        return shape
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        value = None
        # What begins like a number, a list or quoted text is a slip of the pen, not a word.
        if not text or text[0] in "[({'\"" or text[0].isdigit():
            raise UsageError(
                "Value not understood",
                msg(
                    "{value} is not a value for {name}.",
                    value=f"{text[:200]!r}",
                    name=name[:200],
                ),
                "Give a number, text, True or False, a list, or a shape such as [N, 128] int64.",
            ) from None
        value = text
    if isinstance(value, (int, float, str, bool, list, tuple, dict, type(None))):
        return value
    raise UsageError(
        "Value not understood",
        msg("{value} is a {name}.", value=f"{text[:200]!r}", name=type(value).__name__),
        "Give a number, text, True or False, a list, or a shape such as [N, 128] int64.",
    )


def _shape(text: str) -> ShapeAnswer | None:
    """Read `[N, 128] int64`; a list of plain numbers without a type stays a list."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    parts = [part.strip() for part in match["extents"].split(",") if part.strip()]
    dtype = match["dtype"]
    if not all(_EXTENT.fullmatch(part) for part in parts) or (dtype is None and "N" not in parts):
        return None
    if dtype is not None and dtype not in ITEM_BYTES:
        raise UsageError(
            "Type not known",
            msg(
                "{dtype} in {value} is not a type of tensors.",
                dtype=f"{dtype!r}",
                value=f"{text[:200]!r}",
            ),
            msg("Use one of {item_bytes}.", item_bytes=", ".join(sorted(ITEM_BYTES))),
        )
    extents = tuple(part if part == "N" else int(part) for part in parts)
    return ShapeAnswer(extents, dtype or "float32")
