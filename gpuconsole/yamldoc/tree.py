"""YAML text to nodes with places, and nodes to plain values; safe for any input.

Plain scalars follow one rule that has no surprises: `true`, `false`, `null` and numbers written
the way Python would print them are what they look like, all else is text. So `on`, `no`, `1.10`,
`0700` and `12:30` stay as written, and pydantic still reads a number from such text where a model
wants one. Anchors and `<<` merges work; documents that grow by them are refused.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from gpuconsole.core.file_trust import open_trusted
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg
from gpuconsole.core.wording import name as named
from gpuconsole.errors import DocumentError

MAX_BYTES = 4 * 2**20
"""A file above this is no hand-written document; reading it would only cost memory."""
MAX_NODES = 200_000
"""Nodes after aliases are followed: a thousand hosts with twenty keys take about 40,000."""
MAX_DEPTH = 40
MAX_PROBLEMS = 10

Loc = tuple[str | int, ...]
"""A place in a document: keys and list positions from the root."""
Worded = tuple[int, int, str, str]
"""Line, column, text, hint of one problem."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A composed document and its plain value."""

    root: yaml.Node
    value: dict[str, Any]

    @classmethod
    def read(cls, text: str, source: str) -> Tree | None:
        """Read text; None when it holds nothing, DocumentError when it is wrong."""
        root = _compose(text, source)
        if root is None:
            return None
        builder = _Builder()
        value = builder.build(root)
        if not builder.problems and not isinstance(value, dict):
            builder.report(root, with_found("expected keys and values", _found(root)))
        if builder.problems:
            raise document_error(source, builder.problems)
        return cls(root, value)

    @classmethod
    def empty(cls) -> Tree:
        """Return the tree of a document that holds nothing."""
        start = yaml.Mark("", 0, 0, 0, None, 0)
        return cls(yaml.MappingNode("tag:yaml.org,2002:map", [], start, start), {})


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of a part of a document."""

    line: int
    column: int
    prefix: str
    """The part's path for a message, `hosts[3].port: `, or "" for the root."""
    content: str
    scalar: bool


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader without YAML 1.1's guesses about plain scalars."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the loader's own contract


def read_text(path: Path, *, trusted: bool) -> str:
    """Read a small UTF-8 file; DocumentError for everything that can be wrong with it.

    A `trusted` file decides what the console trusts: TrustError where others can change it.
    """
    name = clean(str(path), 512)
    try:
        handle = open_trusted(path) if trusted else os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
                raise DocumentError(
                    "Not a file",
                    msg("{name} is {what_text}.", name=name, what_text=what),
                    "Name a YAML file.",
                )
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise DocumentError(
            "No such file",
            msg("{path} does not exist.", path=name),
            "Check the path, or make the file.",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DocumentError(
            "Cannot read the file",
            msg("{name}: {reason}.", name=name, reason=reason),
            "Check its path and rights.",
        ) from None
    if len(data) > MAX_BYTES:
        raise DocumentError(
            "File too large",
            msg("{name} is larger than {size}.", name=name, size=f"{MAX_BYTES // 2**20} MiB"),
            "Split it.",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = msg("the byte {byte} is not UTF-8 text", byte=f"0x{data[error.start]:02x}")
        raise _error_at(str(path), line, column, problem, "Save the file as UTF-8.") from None


# --- YAML text to nodes -------------------------------------------------------------------------

_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _compose(text: str, source: str) -> yaml.Node | None:
    text = text.removeprefix("\ufeff")
    if match := _UNPRINTABLE.search(text):
        line, column = _line_column(text, match.start())
        character = f"U+{ord(match.group()):04X}"
        problem = msg("the character {character} is not allowed in YAML", character=character)
        raise _error_at(source, line, column, problem, "Remove it, or write it as an escape.")
    try:
        _bound(yaml.parse(text, Loader=_Loader), source)
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, source) from None
    if node is not None:
        _bound_expansion(node, source)
    return node


def _bound(events: Iterable[yaml.Event], source: str) -> None:
    """Refuse deep or long documents before anything recursive or costly touches them."""
    depth = count = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH or count > MAX_NODES:
            raise _too_big(source, event.start_mark)


def _bound_expansion(root: yaml.Node, source: str) -> None:
    """Refuse documents that aliases make endless, deep, or very large."""
    sizes: dict[int, int] = {}
    above: set[int] = set()

    def size(node: yaml.Node, depth: int) -> int:
        if id(node) in above:
            problem = "an anchor contains an alias to itself"
            raise _error_at(source, *_start(node), problem, "Write the part out.")
        if depth > MAX_DEPTH:
            raise _too_big(source, node.start_mark)
        if id(node) not in sizes:
            above.add(id(node))
            sizes[id(node)] = 1 + sum(size(child, depth + 1) for child in _children(node))
            above.discard(id(node))
        if sizes[id(node)] > MAX_NODES:
            raise _too_big(source, node.start_mark)
        return sizes[id(node)]

    size(root, 1)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


# --- nodes to values ----------------------------------------------------------------------------

_NULLS = ("", "~", "null", "Null", "NULL")
_TEXT_TAG = "tag:yaml.org,2002:str"
_PLAIN_TAGS = (_TEXT_TAG, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!")


class _Builder:
    """Builds plain values from nodes and collects what YAML allows but a document must not hold."""

    def __init__(self) -> None:
        self.problems: list[Worded] = []

    def build(self, node: yaml.Node) -> Any:
        """Return the value of a node: dict, list, str, int, float, bool or None."""
        if node.tag not in _PLAIN_TAGS:
            tag = clean(node.tag, 60)
            self.report(node, msg("the tag `{tag}` is not allowed; write plain values", tag=tag))
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child) for child in node.value]
        return node.value if _quoted(node) else _plain(node.value)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        places: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str):
                self.report(key_node, with_found("expected a name as key", _found(key_node)))
            elif key == "<<" and not _quoted(key_node):
                merged = {**self._merged(value_node), **merged}
            elif key in places:
                twice = msg(
                    "`{key}` is given twice (first on line {n})", key=clean(key, 60), n=places[key]
                )
                self.report(key_node, twice)
            else:
                places[key] = key_node.start_mark.line + 1
                result[key] = self.build(value_node)
        return {**merged, **result} if merged else result

    def _merged(self, node: yaml.Node) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            value = self.build(source)
            if not isinstance(value, dict):
                self.report(source, with_found("expected keys to merge", _found(source)))
                continue
            merged = {**value, **merged}
        return merged

    def report(self, node: yaml.Node, text: str) -> None:
        """Note a problem at a node."""
        self.problems.append((*_start(node), text, ""))


def _plain(text: str) -> str | int | float | bool | None:
    """Return what a plain scalar means; a number only when it would print as it is written."""
    if text in _NULLS:
        return None
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except (ValueError, OverflowError):
            continue
        if str(number) == text and text not in ("nan", "inf", "-inf"):
            return number
    return text


# --- places and messages ------------------------------------------------------------------------


def place(root: yaml.Node, loc: Loc, *, about_key: bool = False) -> Spot:
    """Find the part at `loc`: its value, or its key; as near as the document goes."""
    node, at, path = root, root, ""
    for position, step in enumerate(loc):
        pair = _child(node, step)
        # A step that is no key is pydantic's name for the branch of a union, or missing.
        if pair is None:
            continue
        key_node, node = pair
        path += f"[{step}]" if isinstance(step, int) else f".{clean(str(step), 60)}"
        at = key_node if about_key and position == len(loc) - 1 and key_node else node
    prefix = f"`{path.lstrip('.')}`: " if path else ""
    return Spot(*_start(at), prefix, _found(node), isinstance(node, yaml.ScalarNode))


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode):
        if isinstance(step, int) and step < len(node.value):
            return None, node.value[step]
        return None
    if not isinstance(node, yaml.MappingNode):
        return None
    name = str(step)
    for key_node, value_node in node.value:
        if key_node.value == name:
            return key_node, value_node
    for key_node, value_node in node.value:
        if key_node.value == "<<":
            sources = (
                value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            )
            for source in sources:
                if (pair := _child(source, step)) is not None:
                    return pair
    return None


def _found(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "keys and values"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if not _quoted(node) and node.value in _NULLS:
        return "nothing"
    text = clean(node.value, 60)
    return named(f'`"{text}"`' if _quoted(node) else f"`{text}`")


def with_found(problem: str, content: str) -> str:
    """Return what was expected together with what is there instead."""
    if content == "nothing":
        return msg("{problem_text}, found nothing", problem_text=problem)
    return msg("{problem_text}, found {content_text}", problem_text=problem, content_text=content)


def _quoted(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and bool(node.style)


def _start(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _line_column(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def document_error(source: str, problems: list[Worded], unplaced: int = 0) -> DocumentError:
    """Join problems in the order of the file; the hint is about the first.

    `unplaced` counts problems beyond those given.
    """
    ordered = sorted(dict.fromkeys(problems))
    name = clean(source, 512)
    lines = [
        joined("", (named(f"{name}:{line}:{column}: "), text))
        for line, column, text, _ in ordered[:MAX_PROBLEMS]
    ]
    total = len(ordered) + unplaced
    if total > MAX_PROBLEMS:
        lines.append(msg("... and {n} more problems", n=total - MAX_PROBLEMS))
    title = "Invalid file" if total == 1 else msg("Invalid file: {n} problems", n=total)
    return DocumentError(title, joined("\n", lines), ordered[0][3])


def _error_at(source: str, line: int, column: int, text: str, hint: str = "") -> DocumentError:
    return document_error(source, [(line, column, text, hint)])


def _too_big(source: str, mark: Any) -> DocumentError:
    problem = msg(
        "the document is nested deeper than {n} levels or has over {all} parts",
        n=MAX_DEPTH, all=MAX_NODES,
    )  # fmt: skip
    return _error_at(
        source, mark.line + 1, mark.column + 1, problem, "Count what aliases repeat too."
    )


def _syntax_error(error: yaml.MarkedYAMLError, text: str, source: str) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    written = lines[line] if line < len(lines) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        column = written.index("\t")
        return _error_at(source, line + 1, column + 1, "a tab indents this line", "Use spaces.")
    problem = clean(str(error.problem or "cannot be read"), 200)
    if "mapping values are not allowed" in problem:
        hint = "Put text that holds `: ` in quotes, and check the indentation."
    elif error.context and error.context_mark and error.context_mark.line != line:
        opened = error.context_mark
        hint = msg(
            "It began {what} on line {n}, column {index}.",
            what=error.context, n=opened.line + 1, index=opened.column + 1,
        )  # fmt: skip
    else:
        hint = "Check quotes, brackets and indentation near this place."
    invalid = msg("not valid YAML: {reason}", reason=problem)
    return _error_at(source, line + 1, column + 1, invalid, hint)
