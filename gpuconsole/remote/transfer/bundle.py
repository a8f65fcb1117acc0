"""The code of a job, packed: the script's project folder as a tar that is equal for equal content.

What is packed was chosen with care about what must not leave the user's machine: see
`bundle_files`. A home folder, the root or a system folder is never taken for a project.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shlex
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from gpuconsole.core.submission.projects import is_too_wide, project_of
from gpuconsole.core.submission.script_edits import Edit, edited_texts
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.remote.transfer.bundle_files import Entry, Walk
from gpuconsole.remote.transfer.bundle_secrets import OwnKeys, found_in
from gpuconsole.remote.transfer.packed_project import FILE_LIMIT

_FIXED_TIME = 315_532_800
"""1980-01-01: the oldest time that every archive format can hold."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A packed project.

    `script_name` is the script's path inside it, `size_mib` what it unpacks to, `skipped`
    sentences about what was left out for a reason other than an ignore rule.
    """

    path: Path
    files: int
    size_mib: float
    script_name: str
    sha256: str
    skipped: tuple[str, ...] = ()


def make_bundle(
    script: Path,
    project: Path | None,
    target: Path,
    *,
    limit_mib: float,
    edits: Sequence[Edit] = (),
    ship: Sequence[Path] = (),
) -> Bundle:
    """Pack a script and its project (found from the script when None) into `target` (tar.gz).

    `edits` change lines in the packed copy alone. `ship` are files of the project that go along
    although a rule leaves them out, or they look secret.

    UsageError when the script is missing or outside the project, or holds a secret, the folder is
    one that is never shipped, it is larger than `limit_mib`, `target` cannot be written, or an
    edit's line is no longer as it was.
    """
    script = _existing(script)
    root = project_of(script) if project is None else _given(project, script)
    wanted = _wanted(ship, script.parent if root is None else root)
    if root is None:
        walk = Walk(script.parent, wanted)
        walk.skipped.append(f"{script.parent}: holds more than a project; the script goes alone")
        entries_found = [_entry_of(walk.root / name, walk.root) for name in sorted(wanted)]
    else:
        walk = Walk(root, wanted)
        entries_found = _bounded(walk, limit_mib)
    script_name = script.relative_to(walk.root).as_posix()
    if script_name not in (entry.name for entry in entries_found):
        # Asked for by name, so no ignore rule holds it back.
        entries_found.append(_entry_of(script, walk.root))
    changed = _changed(
        edits, {entry.path.resolve(): entry.name for entry in entries_found if entry.link is None}
    )
    entries = sorted(entries_found, key=lambda entry: entry.name)
    files, size = _write(entries, target, walk, script_name, changed)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    return Bundle(target, files, size / MIB, script_name, digest, tuple(map(clean, walk.skipped)))


def make_folder_bundle(project: Path | None, target: Path, *, limit_mib: float) -> Bundle:
    """Pack a folder that has no script, or nothing at all, into `target` (tar.gz).

    UsageError as `make_bundle`.
    """
    with tempfile.TemporaryDirectory(prefix="gpuconsole-") as nothing:
        walk = Walk(Path(nothing) if project is None else _folder(project))
        entries = sorted(_bounded(walk, limit_mib), key=lambda entry: entry.name)
        files, size = _write(entries, target, walk, "", {})
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    return Bundle(target, files, size / MIB, "", digest, tuple(map(clean, walk.skipped)))


def _changed(edits: Sequence[Edit], packed: Mapping[Path, str]) -> dict[str, bytes]:
    """Return the new content of edited files by their name in the archive."""
    contents: dict[str, bytes] = {}
    for path, text in edited_texts(edits).items():
        name = packed.get(path)
        if name is None:
            raise UsageError(
                "A file to change is not shipped",
                msg("{path} is not part of the packed project.", path=path),
                "Name a project folder that holds it.",
            )
        contents[name] = text.encode()
    return contents


def _existing(script: Path) -> Path:
    try:
        resolved = script.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the link leads in a circle"
        raise UsageError(
            "The script cannot be found",
            msg("{script}: {reason}.", script=script, reason=reason),
            "Check the path.",
        ) from error
    if not resolved.is_file():
        raise UsageError(
            "The script is not a file", msg("{script}", script=script), "Name a Python file."
        )
    return resolved


def _folder(project: Path) -> Path:
    root = project.resolve()
    if not root.is_dir():
        raise UsageError(
            "The project is not a folder", msg("{project}", project=project), "Check the path."
        )
    if is_too_wide(root):
        raise UsageError(
            "This folder is never shipped",
            msg("{root} holds more than one project.", root=root),
            "Put the project into a folder of its own and name that.",
        )
    return root


def _given(project: Path, script: Path) -> Path:
    root = _folder(project)
    if not script.is_relative_to(root):
        raise UsageError(
            "The script is outside the project",
            msg("{script} is not below {root}.", script=script, root=root),
            "Name a project folder that holds the script.",
        )
    return root


def _wanted(ship: Sequence[Path], root: Path) -> frozenset[str]:
    """Return the names within a project of files that are shipped on the user's word."""
    names = set()
    for path in ship:
        full = path.resolve()
        if not full.is_relative_to(root) or not full.is_file():
            raise UsageError(
                "File to ship is not in the project",
                msg("{value} is no file below {root}.", value=clean(str(path), 512), root=root),
                "Name a file of the project.",
            )
        names.add(full.relative_to(root).as_posix())
    return frozenset(names)


def _entry_of(script: Path, root: Path) -> Entry:
    return Entry(script.relative_to(root).as_posix(), script, script.stat().st_size)


def _bounded(walk: Walk, limit_mib: float) -> list[Entry]:
    entries: list[Entry] = []
    for entry in walk.entries():
        entries.append(entry)
        if len(entries) > FILE_LIMIT:
            raise UsageError(
                "The project has too many files",
                msg("{root} has more than {file_limit}.", root=walk.root, file_limit=FILE_LIMIT),
                "List folders the job does not need in .gpuconsoleignore; mount data instead.",
            )
    size_mib = sum(entry.size for entry in entries) / MIB
    if size_mib > limit_mib:
        largest = sorted(entries, key=lambda entry: -entry.size)[:3]
        named = ", ".join(f"{clean(e.name, 200)} ({format_mib(e.size / MIB)})" for e in largest)
        raise UsageError(
            "The project is too large to ship",
            msg(
                "{root} has {amount}, the limit is {amount2}. Largest: {named}.",
                root=walk.root,
                amount=format_mib(size_mib),
                amount2=format_mib(limit_mib),
                named=named,
            ),
            "List them in .gpuconsoleignore, and give data to the job as a mount.",
        )
    return entries


def _write(
    entries: Iterable[Entry], target: Path, walk: Walk, script: str, changed: Mapping[str, bytes]
) -> tuple[int, int]:
    """Write the archive beside its place, then move it there; returns files and bytes."""
    try:
        handle, name = tempfile.mkstemp(prefix=".bundle-", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                done = _archive(entries, out, walk, script, changed)
                out.flush()
                os.fsync(out.fileno())
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UsageError(
            "The project cannot be packed",
            msg("{target}: {value}.", target=target, value=error.strerror or error),
            "Free some space there." if full else "Check the folder's rights.",
        ) from error
    return done


def _archive(
    entries: Iterable[Entry],
    out: IO[bytes],
    walk: Walk,
    script: str,
    changed: Mapping[str, bytes],
) -> tuple[int, int]:
    files = size = 0
    own_keys = OwnKeys()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for entry in entries:
            if entry.link is not None:
                tar.addfile(_info(entry.name, link=entry.link))
                continue
            try:
                content, status = _read(entry.path)
            except OSError as error:
                if entry.name == script:
                    raise
                walk.skipped.append(f"{entry.name}: {error.strerror}")
                continue
            content = changed.get(entry.name, content)
            secret = "" if entry.name in walk.wanted else _secret(entry, content, status, own_keys)
            if secret and entry.name == script:
                raise UsageError(
                    "The script holds a secret",
                    msg("{value}: {secret}.", value=walk.root / script, secret=secret),
                    msg(
                        "Give it as a variable (`--env-file FILE`), or ship it "
                        "all the same: --ship {value}",
                        value=shlex.quote(str(walk.root / script)),
                    ),
                )
            if secret:
                walk.leave_out(entry.name, secret)
                continue
            executable = bool(status.st_mode & stat.S_IXUSR)
            tar.addfile(_info(entry.name, len(content), executable), io.BytesIO(content))
            files, size = files + 1, size + len(content)
    return files, size


def _secret(entry: Entry, content: bytes, status: os.stat_result, own_keys: OwnKeys) -> str:
    """Return why a file looks secret, as the end of a sentence; "" where it does not."""
    if own_keys.have(status):
        return "a hard link to one of your own keys"
    return found_in(entry.name, content)


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """Return a file's content and status; never waits on a pipe, nor follows."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(), status


def _info(
    name: str, size: int = 0, executable: bool = False, link: str | None = None
) -> tarfile.TarInfo:
    """Return an entry with nothing of this machine in it: no owner, no time."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, _FIXED_TIME
    info.mode = 0o755 if executable else 0o644
    if link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, link, 0o777
    return info
