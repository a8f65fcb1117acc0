"""What the corpus of the wild is made of: repositories, their scripts, and what is known of each.

Nothing of the repositories is in the manifest but names: paths, command lines, and measured peaks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "manifest.json"


@dataclass(frozen=True, slots=True)
class Repository:
    """A public repository at one commit."""

    name: str
    """`OWNER/NAME` on GitHub."""
    commit: str

    @property
    def url(self) -> str:
        """Where it is cloned from."""
        return f"https://github.com/{self.name}.git"

    @property
    def folder(self) -> str:
        """Its folder in a corpus that is laid out."""
        return self.name.replace("/", "+")


@dataclass(frozen=True, slots=True)
class Truth:
    """The measured peak at one batch size."""

    batch: int | None
    """None stands for the size that the script has by itself."""
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A script of a repository, as its users start it."""

    id: str
    batch: str
    """The named batch of the corpus that it belongs to."""
    repository: Repository
    script: str
    """Relative to the repository."""
    workdir: str
    """The working folder, relative to the repository."""
    argv: tuple[str, ...]
    cannot_run: str
    """Why it does not run on Paddle 3, empty where nothing speaks against it."""
    needs: tuple[str, ...]
    """What is missing to run it: libraries and data."""
    truth: tuple[Truth, ...]
    no_truth: str
    """Why there is no truth."""
    shown_by: str = ""
    """How it was shown that it does not run: `run`, by a run of real Paddle, `part`, by a run of
    its network alone, `source`, it trains with another library; empty where it runs, or where the
    code was only read."""
    data: tuple[Mapping[str, Any], ...] = ()
    """Recipes for the data that its users have beside it (`benchmarks.wild.data`)."""

    @property
    def can_run(self) -> bool:
        """Whether it counts: it runs on Paddle 3, given its data and libraries."""
        return not self.cannot_run

    @property
    def has_truth(self) -> bool:
        """Whether it counts and a peak was measured for it."""
        return self.can_run and bool(self.truth)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole corpus."""

    entries: tuple[Entry, ...]
    held_out: frozenset[str]
    """Batches that are run only when a version is judged by them."""

    @property
    def batches(self) -> tuple[str, ...]:
        """The names of the batches in the order of their first script."""
        return tuple(dict.fromkeys(entry.batch for entry in self.entries))

    def of(self, batch: str) -> list[Entry]:
        """Return the scripts of a batch; raises KeyError where there is no such batch."""
        entries = [entry for entry in self.entries if entry.batch == batch]
        if not entries:
            raise KeyError(f"no batch {batch!r}; there are {', '.join(self.batches)}")
        return entries


def load(path: Path = MANIFEST) -> Manifest:
    """Read the manifest."""
    document = json.loads(path.read_text("utf-8"))
    entries = [
        _entry(Repository(repository["name"], repository["commit"]), one)
        for repository in document["repositories"]
        for one in repository["scripts"]
    ]
    _refuse_doubles([entry.id for entry in entries])
    return Manifest(tuple(entries), frozenset(document["held_out"]))


def _entry(repository: Repository, one: dict[str, Any]) -> Entry:
    truth = sorted(one.get("truth", ()), key=lambda point: int(point["batch"] or 0))
    return Entry(
        one["id"], one["batch"], repository, one["script"], one.get("workdir", "."),
        tuple(one.get("argv", ())), one.get("cannot_run", ""), tuple(one.get("needs", ())),
        tuple(Truth(point["batch"], point["peak_bytes"]) for point in truth),
        one.get("no_truth", ""), one.get("shown_by", ""), tuple(one.get("data", ())),
    )  # fmt: skip


def _refuse_doubles(ids: Sequence[str]) -> None:
    doubles = {one for one in ids if ids.count(one) > 1}
    if doubles:
        raise ValueError(f"ids that are used twice: {', '.join(sorted(doubles))}")
