"""Lines of one file on their way to being changed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from gpuconsole.core.submission.script_edits import Edit, EditKind, apply_edits
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.rewriting.sources import Source, column


class DoubtError(Exception):
    """Why a script is not changed: its shape is not one that is certain."""

    def __init__(self, why: str, source: Source | None = None, node: ast.AST | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.file: Path | None = None if source is None else source.path
        self.line: int = getattr(node, "lineno", 0)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a change is put into a script: edits, or where to make it by hand and why."""

    edits: tuple[Edit, ...] = ()
    file: str = ""
    line: int = 0
    why: str = ""
    """Why there are no edits, as the end of a sentence."""
    names: frozenset[str] = frozenset()
    """The containers with recomputed blocks."""
    why_file: str = ""
    why_line: int = 0


@dataclass(slots=True)
class Draft:
    """The changed lines of a file: the replacement of each line by its number."""

    source: Source
    changed: dict[int, list[str]] = field(default_factory=dict)

    def of(self, line: int) -> list[str]:
        """Return the replacement of a line."""
        return self.changed.setdefault(line, [self.source.lines[line - 1]])

    def put(self, node: ast.expr, text: str) -> None:
        """Replace an expression, which has to be on one line that was not changed yet."""
        if node.lineno != node.end_lineno or node.end_col_offset is None:
            raise DoubtError("an expression goes over several lines", self.source, node)
        line = self.of(node.lineno)
        first = column(self.source, node.lineno, node.col_offset)
        last = column(self.source, node.lineno, node.end_col_offset)
        if len(line) > 1 or line[0] != self.source.lines[node.lineno - 1]:
            raise DoubtError("a line would have to be changed twice", self.source, node)
        line[0] = f"{line[0][:first]}{text}{line[0][last:]}"

    def write(self, statement: ast.stmt, *lines: str) -> None:
        """Replace a statement by others of the same depth."""
        self.require_own_lines(statement)
        indent = self.source.indent(statement)
        if statement.lineno != statement.end_lineno:
            raise DoubtError("a statement goes over several lines", self.source, statement)
        self.changed[statement.lineno] = [f"{indent}{line}" for line in lines]

    def before(self, statement: ast.stmt, *lines: str) -> None:
        """Put statements before one, of its depth."""
        self.require_own_lines(statement)
        indent = self.source.indent(statement)
        self.of(statement.lineno)[:0] = [f"{indent}{line}" for line in lines]

    def below(self, statements: Sequence[ast.stmt], head: str, step: str) -> None:
        """Put statements that follow one another below a head, `step` deeper than they are."""
        for statement in statements:
            self.require_own_lines(statement)
        first, last = statements[0].lineno, statements[-1].end_lineno or 0
        indent = self.source.indent(statements[0])
        for line in range(first, last + 1):
            self.changed[line] = [
                f"{step}{text}" if text.strip() else text for text in self.of(line)
            ]
        self.changed[first][:0] = [f"{indent}{head}"]

    def require_own_lines(self, statement: ast.stmt) -> None:
        """Doubt a statement that shares a line with another, or holds text over several lines."""
        lines = self.source.lines
        if self.source.indent(statement).strip():
            raise DoubtError("two statements stand on one line", self.source, statement)
        for node in ast.walk(statement):
            text = isinstance(node, ast.JoinedStr) or (
                isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
            )
            if text and getattr(node, "lineno", 0) != getattr(node, "end_lineno", 0):
                raise DoubtError("a text goes over several lines", self.source, statement)
        end = column(self.source, statement.end_lineno or 1, statement.end_col_offset or 0)
        rest = lines[(statement.end_lineno or 1) - 1][end:].strip()
        if rest and not rest.startswith("#"):
            raise DoubtError("two statements stand on one line", self.source, statement)

    def edits(self, kind: EditKind) -> tuple[Edit, ...]:
        """Return the changes as edits, those further down first: none moves another's lines."""
        lines = self.source.lines
        changed = sorted(
            number for number, new in self.changed.items() if new != [lines[number - 1]]
        )
        runs: list[list[int]] = []
        for line in changed:
            if runs and runs[-1][-1] == line - 1:
                runs[-1].append(line)
            else:
                runs.append([line])
        return tuple(
            Edit(
                str(self.source.path), run[0],
                "\n".join(lines[number - 1] for number in run),
                "\n".join(text for number in run for text in self.changed[number]),
                kind, self.source.sha256,
            )
            for run in reversed(runs)
        )  # fmt: skip

    def require_python(self, edits: Sequence[Edit]) -> None:
        """Doubt edits after which the file is no Python."""
        text = "\n".join(self.source.lines) + "\n"
        plain = [Edit(edit.file, edit.line, edit.old, edit.new) for edit in edits]
        try:
            ast.parse(apply_edits(text, plain, str(self.source.path)))
        except (SyntaxError, ValueError, RecursionError):
            raise DoubtError("the changed file would be no Python", self.source) from None
