"""YAML documents read strictly into pydantic models.

`load` and `parse` return the model or raise one `DocumentError` that names `file:line:column`,
what was expected and what was found for up to ten problems at once, and the nearest known key for
an unknown one. `tree` turns text into nodes and values, `problems` words what pydantic refuses.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Generic, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg, name
from gpuconsole.errors import DocumentError
from gpuconsole.yamldoc.problems import MAX_WORDED, known_keys, members, worded
from gpuconsole.yamldoc.tree import MAX_BYTES, Loc, Tree, document_error, place, read_text
from gpuconsole.yamldoc.values import Seconds, SizeMib, Text

M = TypeVar("M", bound=BaseModel)


class Section(BaseModel):
    """Base of every model read from a document: unknown keys are refused, values are fixed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _a_switch_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        # To Python `true` is 1; to a person `port: true` is a mistake.
        if isinstance(value, bool) and info.field_name in cls.model_fields:
            allowed = set(members(cls.model_fields[info.field_name].annotation))
            if allowed & {int, float} and not allowed & {bool, str}:
                raise PydanticCustomError("float_type", "expected a number")
        return value


@dataclass(frozen=True, slots=True)
class Document(Generic[M]):
    """A valid document: the model, and the position of each of its parts in the file."""

    value: M
    source: str
    _root: yaml.Node = field(repr=False)

    def error(self, loc: Loc, text: str, hint: str = "") -> DocumentError:
        """Return an error about the part at `loc`, such as `("hosts", 3, "jump")`."""
        spot = place(self._root, loc)
        words = joined("", (name(spot.prefix), text))
        return document_error(self.source, [(spot.line, spot.column, words, hint)])


def load(path: Path, model: type[M], *, trusted: bool = True) -> M:
    """Read a YAML file as `model`; DocumentError says what is wrong and where.

    TrustError where others can change the file, unless it decides nothing (`trusted=False`).
    """
    return load_document(path, model, trusted=trusted).value


def parse(text: str, source: str, model: type[M]) -> M:
    """Read YAML text as `model`; `source` is the name that errors give to it."""
    return parse_document(text, source, model).value


def load_document(path: Path, model: type[M], *, trusted: bool = True) -> Document[M]:
    """Read a YAML file as `model` like `load`, keeping the places of its parts."""
    return parse_document(read_text(path, trusted=trusted), str(path), model)


def parse_document(text: str, source: str, model: type[M]) -> Document[M]:
    """Read YAML text as `model`, keeping the places of its parts."""
    tree = Tree.read(text, source)
    if tree is None:
        # Nothing written is fine where nothing must be.
        if any(info.is_required() for info in model.model_fields.values()):
            keys = ", ".join(f"`{key}`" for key in known_keys(model))
            empty = (1, 1, "the document is empty", msg("It can hold {keys}.", keys=keys))
            raise document_error(source, [empty])
        tree = Tree.empty()
    try:
        return Document(model.model_validate(tree.value), source, tree.root)
    except ValidationError as error:
        problems = worded(error, model, tree.root)
        unplaced = max(0, error.error_count() - MAX_WORDED)
    raise document_error(source, problems, unplaced)


__all__ = [
    "MAX_BYTES",
    "Document",
    "Seconds",
    "Section",
    "SizeMib",
    "Text",
    "load",
    "load_document",
    "parse",
    "parse_document",
    "read_text",
]
