"""Lays the corpus out: the files of each repository at the commit that the manifest names.

Files come from git clones. A clone is made from the repository's URL, without large files, or found
in a folder of mirrors (`OWNER+NAME/repo`). Links and files beyond `LARGEST_FILE` are left out, and
so are those that a clone lacks: preflight needs no data.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from benchmarks.wild.manifest import Repository

LARGEST_FILE = 4 << 20
"""Bytes."""
CLONE_LIMIT_S = 900


class MissingRepositoryError(Exception):
    """A repository cannot be had here; the message says why."""


def lay_out(repository: Repository, folder: Path, mirrors: Path | None) -> Path:
    """Write a repository's files below `folder` and return its own folder; once is enough.

    Raises MissingRepositoryError where neither a mirror nor a clone has the commit.
    """
    target = folder / repository.folder
    finished = folder / f".{repository.folder}.{repository.commit[:12]}"
    if finished.exists():
        return target
    git = _mirror(repository, mirrors) if mirrors else _clone(repository, folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, content in _files(git, repository.commit):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    _mark(target)
    finished.touch()
    return target


def _mark(target: Path) -> None:
    """Make a folder the top of a clone, as a user has one: scripts look for it, and ask git."""
    author = ["-c", "user.name=corpus", "-c", "user.email=corpus@localhost"]
    for words in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "-m", "laid out"]):
        command = ["git", "-C", str(target), *author, *words]
        subprocess.run(command, check=True, capture_output=True)


def _mirror(repository: Repository, mirrors: Path) -> Path:
    for at in (mirrors / repository.folder / "repo" / ".git", mirrors / repository.folder / "repo"):
        if (at / "HEAD").is_file():
            return at
    raise MissingRepositoryError(f"{repository.name} is not below {mirrors}")


def _clone(repository: Repository, folder: Path) -> Path:
    git = folder / ".clones" / f"{repository.folder}.git"
    if not git.exists():
        git.parent.mkdir(parents=True, exist_ok=True)
        limit = f"--filter=blob:limit={LARGEST_FILE}"
        command = ["git", "clone", "--quiet", "--bare", limit, repository.url, str(git)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CLONE_LIMIT_S)
        if done.returncode:
            raise MissingRepositoryError(f"{repository.name}: {done.stderr.strip()[-200:]}")
    return git


def _files(git: Path, commit: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the regular files of a commit that the clone has."""
    entries = list(_entries(git, commit))
    asked = "".join(f"{sha}\n" for sha, _ in entries)
    # A clone without large files would otherwise fetch them.
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    known = subprocess.run(["git", "-C", str(git), "cat-file", "--batch-check"], env=environment,
                           input=asked, capture_output=True, text=True, check=True)  # fmt: skip
    answers = known.stdout.splitlines()
    wanted = [
        (sha, name)
        for (sha, name), answer in zip(entries, answers, strict=True)
        if not answer.endswith("missing") and int(answer.split()[2]) <= LARGEST_FILE
    ]
    with subprocess.Popen(["git", "-C", str(git), "cat-file", "--batch"], env=environment,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:  # fmt: skip
        assert reader.stdin is not None
        assert reader.stdout is not None
        for sha, name in wanted:
            reader.stdin.write(f"{sha}\n".encode())
            reader.stdin.flush()
            size = int(reader.stdout.readline().split()[2])
            yield PurePosixPath(name), reader.stdout.read(size)
            reader.stdout.read(1)


def _entries(git: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Yield object and path of each regular file."""
    command = ["git", "-C", str(git), "ls-tree", "-r", "-z", commit]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise MissingRepositoryError(f"{git} has no commit {commit}")
    for line in filter(None, done.stdout.split("\0")):
        about, name = line.split("\t", 1)
        mode, _, sha = about.split()
        if mode.startswith("100") and ".." not in PurePosixPath(name).parts:
            yield sha, name
