"""Changes of a script's text that need less memory, made only where its shape leaves no doubt.

Pure: from syntax trees to lines of the shipped copy. Nothing is run, and no file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from gpuconsole.core.submission.script_edits import Edit, EditKind
from gpuconsole.preflight.rewriting import accumulate, mixed, recompute
from gpuconsole.preflight.rewriting.draft import DoubtError, Draft, Rewrite
from gpuconsole.preflight.rewriting.sources import Source, load

_MAKERS: Mapping[EditKind, Callable[[tuple[Source, ...], int], Draft]] = MappingProxyType(
    {"accumulate": accumulate.draft, "amp": mixed.draft, "recompute": recompute.draft}
)
_PLACES: Mapping[EditKind, Callable[[tuple[Source, ...]], tuple[Path, int] | None]] = (
    MappingProxyType(
        {"accumulate": accumulate.place, "amp": mixed.place, "recompute": recompute.place}
    )
)


def rewrite(kind: EditKind, files: Iterable[Path], steps: int = 1) -> Rewrite:
    """Return how a change is put into a script.

    `files` are the script and the modules of its project that it imports; `steps` is over how many
    batches gradients are accumulated.
    """
    sources = tuple(source for source in map(load, files) if source is not None)
    try:
        draft = _MAKERS[kind](sources, steps)
        edits = draft.edits(kind)
        _require_whole(draft, edits)
        names = recompute.attributes(sources) if kind == "recompute" else frozenset()
        return Rewrite(edits, edits[-1].file, edits[-1].line, names=names)
    except DoubtError as doubt:
        file, line = _PLACES[kind](sources) or ("", 0)
        doubted = "" if doubt.file is None else str(doubt.file)
        return Rewrite((), str(file), line, doubt.why, why_file=doubted, why_line=doubt.line)
    except RecursionError:
        return Rewrite(why="the script is nested too deep to follow")


def _require_whole(draft: Draft, edits: tuple[Edit, ...]) -> None:
    """Doubt edits after which the file is no Python any more, or that change nothing."""
    if not edits:
        raise DoubtError("nothing was found to change")
    draft.require_python(edits)
