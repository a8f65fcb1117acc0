"""Files in and out: code into a container, results folders on the host."""

from __future__ import annotations

import contextlib
import copy
import re
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import docker

from gpuconsole.core.containers import HostAccount
from gpuconsole.core.text import clean
from gpuconsole.core.vendors import VENDORS
from gpuconsole.errors import EngineError, UsageError
from gpuconsole.remote.link import Completed, Link
from gpuconsole.remote.small_files import ARCHIVE_BYTES, small_files

# Constant scripts that take arguments: nothing is glued into them. They hold no newline, single
# quote, backslash or exclamation mark, so every login shell passes them on unharmed.
_BASE = 'base="$HOME/.local/state/gpuconsole/results"; '
_PREPARE = (
    'umask 077; mkdir -p "$base/$1/$2" && id -u && id -g && cd "$base/$1" && pwd -P && '
    # Which numbers the makers' groups have is each host's own; a name need not be in the image.
    'for node in $3; do test -c "$node" && stat -c %g "$node"; done | sort -u'
    # A host without such nodes has a line too, which is empty.
    ' | tr "[:space:]" " " && echo'
)
NODES = " ".join(sorted(
    {
        f"{node.format('[0-9]*')}{'/*' if node == '/dev/dri' else ''}"
        for vendor in VENDORS.values()
        for node in (*vendor.nodes, *vendor.shared)
    }
))  # fmt: skip
"""Patterns of all makers' nodes, for a shell."""
_LOCATE = 'cd "$base/$1/$2" && pwd -P'
_TIDY = (
    'cd "$base" 2>/dev/null || exit 0; '
    'for job; do rmdir -- "$job" 2>/dev/null && echo removed; done; '
    'for left in *; do test -d "$left" && echo "kept $left"; done; true'
)
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def rewrite(bundle: Path, archive: IO[bytes], target: str, user: str) -> None:
    """Write a bundle again into `archive`, below `target` and all owned by `user`, and rewind.

    `user` is `uid:gid`; anything else means root. UsageError when the bundle cannot be read.
    """
    owner = re.fullmatch(r"(\d+)(?::(\d+))?", user)
    uid, gid = (int(owner[1]), int(owner[2] or owner[1])) if owner else (0, 0)
    try:
        with (
            tarfile.open(bundle, "r:*") as old,
            tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as new,
        ):
            folder = PurePosixPath(target).relative_to("/")
            made = {*folder.parents}
            if target == "/":
                # The folder that it is unpacked in becomes the user's, too.
                new.addfile(_owned(_directory("."), uid, gid))
                made.add(folder)
            for member in old:
                moved = _owned(copy.copy(member), uid, gid)
                moved.name = str(folder / member.name)
                # A folder without an entry of its own would be made as root's.
                for parent in reversed(PurePosixPath(moved.name).parents):
                    if parent not in made:
                        made.add(parent)
                        new.addfile(_owned(_directory(str(parent)), uid, gid))
                new.addfile(moved, old.extractfile(member) if member.isreg() else None)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise UsageError(
            "The packed project cannot be read", f"{bundle}: {error}", "Submit the job again."
        ) from error
    archive.seek(0)


def read_files(client: docker.APIClient, container: str, folder: str) -> dict[str, bytes]:
    """Return the small regular files that lie in a folder of a container, by name."""
    try:
        chunks, _ = client.get_archive(container, folder)
    except docker.errors.NotFound:
        return {}
    with contextlib.closing(chunks), tempfile.TemporaryFile() as archive:
        for chunk in chunks:
            archive.write(chunk)
            if archive.tell() > ARCHIVE_BYTES:
                return {}
        archive.seek(0)
        return small_files(archive)


async def prepare(link: Link, host: str, job_id: str, folder: str) -> HostAccount:
    """Make the job's results folder, and `folder` in it, open to their owner only."""
    done = await _run(link, _PREPARE, job_id, folder, extra=NODES)
    uid, gid, folder, groups = _lines(done, 4, f"making the results folder on {host}")
    # Not root's group: whoever owns more than devices there is not meant.
    owners = tuple(sorted({int(word) for word in groups.split()} - {0}))
    return HostAccount(int(uid), int(gid), folder, owners)


async def locate(link: Link, host: str, job_id: str, folder: str) -> str:
    """Return the job's results folder on the host, or `folder` in it; EngineError when there is
    none."""
    done = await _run(link, _LOCATE, job_id, folder)
    return _lines(done, 1, f"looking for the results of {job_id} on {host}")[0]


async def tidy(link: Link, host: str, jobs: Sequence[str], keep: frozenset[str]) -> tuple[int, int]:
    """Remove the empty results folders of these jobs; one with anything in it always stays.

    Returns how many were removed, and how many folders of jobs not in `keep` are left.
    """
    done = await _run(link, _TIDY, *jobs)
    said = _lines(done, 0, f"looking through the results on {host}")
    left = {line.removeprefix("kept ") for line in said if line.startswith("kept ")}
    return said.count("removed"), len(left - keep)


async def _run(link: Link, script: str, *folders: str, extra: str = "") -> Completed:
    for folder in filter(None, folders):
        if not _JOB_ID.fullmatch(folder):
            raise UsageError("Not a job id", f"{clean(folder, 80)!r} cannot name a folder.")
    more = (extra,) if extra else ()
    return await link.run(["sh", "-c", _BASE + script, "sh", *folders, *more])


def _lines(done: Completed, count: int, doing: str) -> list[str]:
    """Return the last `count` lines of output (0: all); a login shell may have said more."""
    lines = done.stdout.decode(errors="surrogateescape").splitlines()
    if done.exit_status != 0 or len(lines) < count:
        said = clean(done.stderr.decode(errors="replace").strip(), 500)
        raise EngineError(
            "The results folder cannot be used",
            f"While {doing}: {said or f'exit status {done.exit_status}'}.",
            "Look at the rights of ~/.local/state on the host, and at its free space.",
        )
    return lines[-count:]


def _directory(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    return entry


def _owned(entry: tarfile.TarInfo, uid: int, gid: int) -> tarfile.TarInfo:
    entry.uid, entry.gid, entry.uname, entry.gname = uid, gid, "", ""
    return entry
