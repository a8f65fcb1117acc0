"""Data sets of PaddleNLP where they cannot be downloaded: rows with the fields of their own
readers, and texts longer than scripts usually take, so that these cut them to their length."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from typing import TYPE_CHECKING

from ..notes import note
from . import devices_and_downloads
from .missing_files import when_imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from paddlenlp.datasets import DatasetBuilder

ROWS, WORDS = 512, 600
_LISTS: dict[str, list[object]] = {
    "answers": ["word"],
    "answer_starts": [0],
    "choice": ["word"] * 4,
}
"""Fields that are lists, in readers of questions and answers."""
_SHORT = {**dict.fromkeys(("id", "qid", "answer"), 1),
          **dict.fromkeys(("question", "title", "query"), 32)}  # fmt: skip
"""Words of fields that are not cut to a length."""


def install() -> None:
    """Give rows from now on where a data set cannot be fetched."""
    when_imported("paddlenlp.datasets.dataset", _serve)


def _serve(module: ModuleType) -> None:
    cls = module.DatasetBuilder
    own = cls.read_datasets

    def read_datasets(
        self: DatasetBuilder, splits: object = None, data_files: object = None
    ) -> object:
        try:
            return own(self, splits=splits, data_files=data_files)
        except Exception as error:
            if data_files is not None or not devices_and_downloads.wants_network(error):
                raise
            sample = row(self)
            if sample is None:
                raise
        self._get_data = lambda split: ""
        self._read = lambda filename: [copy.deepcopy(sample) for _ in range(ROWS)]
        name = type(self).__name__
        note(f"Not downloaded: the data set {name}; {ROWS} rows of its fields are in its place, "
             f"with texts of {WORDS} words.")  # fmt: skip
        return own(self, splits=splits, data_files=data_files)

    cls.read_datasets = read_datasets


def row(builder: DatasetBuilder) -> dict[str, object] | None:
    """Return a row of a data set, with the fields of the first one in its reader's source; None
    where that does not say them."""
    source = ast.parse(textwrap.dedent(inspect.getsource(type(builder)._read)))
    names = {"self": builder, "split": "train"}
    fields = next(_yielded(source.body[0].body, names), None)  # type: ignore[attr-defined]
    if fields is None:
        return None
    labels = builder.get_labels()
    parted = "tokens" in fields
    return {name: _value(name, labels, parted) for name in fields}


def _yielded(statements: Iterable[ast.AST], names: Mapping[str, object]) -> Iterator[list[str]]:
    """Yield the keys of the dictionaries that statements yield, in the branches that are taken."""
    for node in statements:
        if isinstance(node, ast.If):
            taken = _taken(node.test, names)
            for block, other in ((node.body, False), (node.orelse, True)):
                if taken is not other:
                    yield from _yielded(block, names)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield):
            given = node.value.value
            while isinstance(given, ast.IfExp):
                given = given.orelse if _taken(given.test, names) is False else given.body
            if isinstance(given, ast.Dict):
                yield [ast.literal_eval(key) for key in given.keys if key is not None]
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _yielded(getattr(node, part, ()), names)


def _taken(test: ast.expr, names: Mapping[str, object]) -> bool | None:
    """Return what a test of the data set's own name says; None where it asks for more."""
    asked = {part.id for part in ast.walk(test) if isinstance(part, ast.Name)}
    calls = any(isinstance(part, ast.Call) for part in ast.walk(test))
    if calls or not asked <= set(names):
        return None
    try:
        return bool(eval(compile(ast.Expression(test), "<test>", "eval"), {}, dict(names)))
    except Exception:
        return None


def _value(name: str, labels: Sequence[object] | None, parted: bool) -> object:
    if name in ("label", "labels"):
        value: object = labels[0] if labels else 0.0
        value = next(iter(value)) if isinstance(value, (list, tuple)) else value
        return [value] * WORDS if parted else value
    if name == "tokens":
        return ["word"] * WORDS
    if name in _LISTS:
        return list(_LISTS[name])
    if name.startswith("is_"):
        return False
    return " ".join(["word"] * _SHORT.get(name, WORDS))
