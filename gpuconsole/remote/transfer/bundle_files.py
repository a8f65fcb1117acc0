"""Which files of a project are shipped: found by walking its folder once, top down.

Left out are what git would not see (`.gitignore`), what `.gpuconsoleignore` names (same grammar,
and a `!pattern` there brings back what git ignores), folders that tools make, and whatever looks
like a key or a password, which no rule can bring back: only the user's own word for this one file.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

import pathspec

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.remote.transfer.bundle_secrets import is_secret_folder, is_secret_name

IGNORE_FILES = (".gitignore", ".gpuconsoleignore")
"""Read in this order in every folder: a later line wins over an earlier one."""
TOOL_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".tox", ".nox"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".eggs"),
    )
)
_IGNORE_FILE_LIMIT = 2**20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or link to ship. `name` is relative to the project, with slashes."""

    name: str
    path: Path
    size: int = 0
    link: str | None = None
    """Where a symbolic link leads, relative to its own folder; None for a file."""


@dataclass(slots=True)
class Walk:
    """Walks a project. What is left out for a reason that a person may not expect is in
    `skipped`, as sentences; ignored files are not."""

    root: Path
    wanted: frozenset[str] = frozenset()
    """Names of files that are shipped whatever rules and looks say."""
    skipped: list[str] = field(default_factory=list)

    def entries(self) -> Iterator[Entry]:
        """Give all files and links to ship, folder by folder, each folder in order of name; those
        that are wanted first."""
        for name in sorted(self.wanted):
            yield Entry(name, self.root / name, (self.root / name).stat().st_size)
        yield from self._folder(self.root, "", ())

    def _folder(self, folder: Path, prefix: str, rules: tuple[_Rules, ...]) -> Iterator[Entry]:
        rules = (*rules, _Rules.of(folder, prefix))
        try:
            items = sorted(os.scandir(folder), key=lambda item: item.name)
        except OSError as error:
            self.skipped.append(f"{prefix or '.'}: {error.strerror}")
            return
        for item in items:
            name = prefix + item.name
            if name in self.wanted:
                continue
            is_folder = item.is_dir(follow_symlinks=False)
            if _ignored(rules, name, is_folder):
                continue
            if is_folder:
                if not self._is_left_out(item, name):
                    yield from self._folder(Path(item.path), name + "/", rules)
            elif (entry := self._entry(item, name)) is not None:
                yield entry

    def _is_left_out(self, item: os.DirEntry[str], name: str) -> bool:
        if is_secret_folder(name):
            self.skipped.append(f"{name}: a folder of keys")
            return True
        # A virtual environment is known by its marker, whatever its name.
        return item.name in TOOL_FOLDERS or os.path.exists(os.path.join(item.path, "pyvenv.cfg"))

    def _entry(self, item: os.DirEntry[str], name: str) -> Entry | None:
        if item.name == ".git":
            return None
        if is_secret_name(item.name):
            self.leave_out(name, "looks like a key or password file")
            return None
        if item.is_symlink():
            return self._link(Path(item.path), name)
        try:
            status = item.stat(follow_symlinks=False)
        except OSError as error:
            self.skipped.append(f"{name}: {error.strerror}")
            return None
        if not stat.S_ISREG(status.st_mode):
            self.skipped.append(f"{name}: not a regular file")
            return None
        return Entry(name, Path(item.path), status.st_size)

    def leave_out(self, name: str, why: str) -> None:
        """Note a file that is not shipped because it looks secret."""
        self.skipped.append(f"{name}: {why}; `--ship {shlex.quote(name)}` ships it")

    def _link(self, path: Path, name: str) -> Entry | None:
        try:
            leads_to = Path(os.path.realpath(path))
        except OSError:
            leads_to = path.parent.parent
        if not leads_to.is_relative_to(self.root):
            self.skipped.append(f"{name}: a link that leads outside the project")
            return None
        # Relative to where the link really is, so that it leads to the same file elsewhere.
        return Entry(name, path, link=os.path.relpath(leads_to, path.parent.resolve()))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The ignore rules of one folder; `prefix` is the folder, relative to the project."""

    prefix: str
    spec: pathspec.GitIgnoreSpec | None

    @classmethod
    def of(cls, folder: Path, prefix: str) -> _Rules:
        lines: list[str] = []
        for name in IGNORE_FILES:
            try:
                with open(folder / name, "rb") as file:
                    text = file.read(_IGNORE_FILE_LIMIT).decode(errors="surrogateescape")
            except OSError:
                continue
            lines += text.splitlines()
        return cls(prefix, pathspec.GitIgnoreSpec.from_lines(lines) if lines else None)

    def verdict(self, name: str) -> bool | None:
        """Return True for ignored, False for brought back, None when no rule speaks of it."""
        if self.spec is None:
            return None
        return self.spec.check_file(name.removeprefix(self.prefix)).include


def _ignored(rules: tuple[_Rules, ...], name: str, is_folder: bool) -> bool:
    """Tell whether a name is ignored; the rules of the deepest folder speak first."""
    shown = name + "/" if is_folder else name
    for rule in reversed(rules):
        verdict = rule.verdict(shown)
        if verdict is not None:
            return verdict
    return False
