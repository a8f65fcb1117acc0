"""The state folder: made, locked, and held against what SQLite's write-ahead log needs of it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gpuconsole.core.file_trust import make_private, require_private
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import JournalError

# Shared memory of the write-ahead log is not coherent between machines on any of these.
NETWORK_TYPES = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "ceph", "lustre", "gpfs"),
        *("beegfs", "glusterfs", "ocfs2", "gfs2", "orangefs", "coda", "davfs", "vboxsf"),
    }
)
NETWORK_FUSE = ("sshfs", "glusterfs", "ceph", "s3fs", "davfs", "rclone", "curlftpfs", "smb", "nfs")
REMEDY = "Choose a folder on a local disk with --state DIR."

MOUNTINFO = Path("/proc/self/mountinfo")


def network_mount(folder: Path, mountinfo: str) -> tuple[str, str] | None:
    """Return (mount point, type) when `folder` lies on a network filesystem.

    `folder` is absolute and resolved; `mountinfo` is the text of /proc/self/mountinfo, in which
    a later line hides an earlier one on the same mount point (proc_pid_mountinfo(5)).
    """
    best: tuple[str, str] | None = None
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        words, kinds = left.split(), right.split()
        if not separator or len(words) < 5 or not kinds:
            continue
        point = _unescape(words[4])
        if not folder.is_relative_to(point):
            continue
        if best is None or len(point) >= len(best[0]):
            best = (point, kinds[0])
    return best if best is not None and _is_network(best[1]) else None


def require_local(folder: Path) -> None:
    """Raise JournalError when `folder` is on a network filesystem. Tells nothing without /proc."""
    try:
        mountinfo = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    mount = network_mount(folder.resolve(), mountinfo)
    if mount is not None:
        point, kind = mount
        raise JournalError(
            "State folder is on a network filesystem",
            msg(
                "{folder} lies on {kind} ({point}), where a journal can be damaged silently.",
                folder=folder,
                kind=kind,
                point=point,
            ),
            REMEDY,
        )


def make_folder(folder: Path) -> None:
    """Make a folder of state for this user alone; JournalError says why it cannot be, TrustError
    why one that exists will not do."""
    try:
        make_private(folder)
        require_private(folder)
    except (FileExistsError, NotADirectoryError) as error:
        raise JournalError(
            "State folder is a file", msg("{folder} is not a folder.", folder=folder), REMEDY
        ) from error
    except OSError as error:
        raise JournalError(
            "State folder cannot be made",
            msg("{folder}: {value}.", folder=folder, value=os.strerror(error.errno or 0)),
            REMEDY,
        ) from error


def require_writable(folder: Path) -> None:
    """Raise JournalError when nothing can be written into `folder`."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise JournalError(
            "State folder is read-only",
            msg(
                "Cannot write into {folder}: {value}.",
                folder=folder,
                value=os.strerror(error.errno or 0),
            ),
            sentences(REMEDY, "Or open the console with --read-only."),
        ) from error


def open_lock(path: Path) -> int:
    """Open a file that processes lock; it is made if missing. JournalError where it cannot be."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(
            "State folder cannot be used",
            msg("{path}: {strerror}.", path=path, strerror=error.strerror),
            "Check space and rights of the state folder.",
        ) from error


def lock(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file for as long as it is open; False while another process has it locked."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_network(kind: str) -> bool:
    if kind in NETWORK_TYPES:
        return True
    return kind.startswith("fuse.") and any(word in kind for word in NETWORK_FUSE)


def _unescape(point: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point
