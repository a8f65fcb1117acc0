"""Files and folders that belong to this user: what decides whom the console trusts, which only
this user and root may change, and what holds secrets, which only they may read.

A path is walked from the root, one descriptor after the other, and each component is checked by the
descriptor through which the next is opened. What was checked is therefore what is read, whatever is
renamed meanwhile. The rules are those of OpenSSH for its own files, and go for every parent folder:

- The owner is this user or root, of links too.
- Others cannot write. A sticky folder such as /tmp may be writable: there only the owner of an
  entry replaces it, and that owner is checked next.
- The group cannot write, unless it is the owner's private group: of the same name, the primary
  group of no other account, without members, and no access control list says more. OpenSSH of
  Debian and Fedora, where the umask of accounts is 002, reads its files so as well.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat
import sys
from collections import deque
from pathlib import Path

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import TrustError, UsageError

MAX_LINKS = 40
"""Links in a path at which Linux itself stops."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SHOWN = 512


def open_trusted(path: Path) -> int:
    """Open a file that only this user and root can change, and return its descriptor.

    The caller closes it, and looks at what kind of file it is. Raises TrustError that names the
    component which others can change and the command that closes it, OSError as `os.open` does.
    """
    handle, place = _walk(path, _FILE)
    try:
        _require_trusted(handle, place)
    except BaseException:
        os.close(handle)
        raise
    return handle


def require_private(folder: Path) -> None:
    """Raise TrustError unless a folder is this user's own, closed to all others, and no parent of
    it can be changed by others; OSError where it cannot be looked at."""
    handle, place = _walk(folder, _FOLDER)
    try:
        status = os.fstat(handle)
    finally:
        os.close(handle)
    name = clean(str(place), _SHOWN)
    if status.st_uid != os.geteuid():
        raise TrustError(
            "Folder of somebody else",
            msg(
                "{name} belongs to {user} ({described}).",
                name=name,
                user=_user(status.st_uid),
                described=_described(status),
            ),
            "Choose a folder of your own with --state DIR.",
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TrustError(
            "Folder is open to others",
            msg(
                "{name} may be entered or written by others ({described}).",
                name=name,
                described=_described(status),
            ),
            msg("Look at what is in it, then run: chmod 700 {quoted}", quoted=_quoted(place)),
        )


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone; OSError why not."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def private(path: str, flags: int) -> int:
    """Open a file as the `opener` of `open`; a new one is for this user alone."""
    return os.open(path, flags, 0o600)


def read_private(path: Path, what: str, most: int) -> tuple[str, float]:
    """Return the text of a small file that only this user and root can read, and when it was
    written (seconds since the epoch). `what` names it in errors; it has `most` bytes at most.

    UsageError when it cannot be read, is no regular file, no UTF-8, too large, somebody else's, or
    open to others in any way.
    """
    name = clean(str(path), _SHOWN)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            _require_unread(status, name, what)
            data = file.read(most + 1)
    except OSError as error:
        raise UsageError(
            msg("{what_text} cannot be read", what_text=what),
            msg("{name}: {strerror}.", name=name, strerror=error.strerror),
        ) from error
    if len(data) > most:
        raise UsageError(
            msg("{what_text} is too large", what_text=what),
            msg("{name} has more than {most} bytes.", name=name, most=most),
        )
    try:
        return data.decode(), status.st_mtime
    except UnicodeDecodeError:
        raise UsageError(
            msg("{what_text} cannot be read", what_text=what),
            msg("{name} is not UTF-8.", name=name),
        ) from None


def _walk(path: Path, last: int) -> tuple[int, Path]:
    """Open a path, its last component with the flags `last`; all before it are checked.

    Returns the descriptor and the path that was found behind all links.
    """
    names = deque(path.absolute().parts)
    place, here, links = Path("/"), -1, 0
    try:
        while True:
            name = names.popleft()
            # For `/`, the first of an absolute path, the folder before it does not matter.
            status = os.stat(name, dir_fd=None if here < 0 else here, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                # Who can write its folder was refused there, or is refused here as the owner.
                _require_owner(status, place / name)
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                names.extendleft(reversed(Path(os.readlink(name, dir_fd=here)).parts))
                continue
            flags = _FOLDER if names else last
            handle = os.open(name, flags, dir_fd=None if here < 0 else here)
            if here >= 0:
                os.close(here)
            here, place = handle, place.parent if name == ".." else place / name
            if not names:
                return here, place
            _require_trusted(here, place)
    except BaseException:
        if here >= 0:
            os.close(here)
        raise


def _require_unread(status: os.stat_result, name: str, what: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(
            msg("{what_text} cannot be read", what_text=what),
            msg("{name} is not a regular file.", name=name),
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            msg("{what_text} is open to others", what_text=what),
            msg("{name} belongs to somebody else.", name=name),
            "Make a copy.",
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            msg("{what_text} is open to others", what_text=what),
            msg("{name} may be read by other users.", name=name),
            msg("Run: {command}", command=f"chmod 600 {shlex.quote(name)}"),
        )


def _require_trusted(handle: int, place: Path) -> None:
    status = os.fstat(handle)
    _require_owner(status, place)
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return
    by_all = bool(status.st_mode & stat.S_IWOTH)
    by_group = bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(handle, status)
    if by_all or by_group:
        who = "everybody" if by_all else f"the group {_group(status.st_gid)}"
        rights = ("g" if by_group else "") + ("o" if by_all else "")
        raise TrustError(
            "Bad owner or permissions",
            msg(
                "{place} is writable by {who} ({described}). Anyone who can change it "
                "can run commands as you.",
                place=clean(str(place), _SHOWN),
                who=who,
                described=_described(status),
            ),
            msg(
                "{doer}chmod {rights}-w {quoted}",
                doer=_doer(status),
                rights=rights,
                quoted=_quoted(place),
            ),
        )


def _require_owner(status: os.stat_result, place: Path) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise TrustError(
            "Bad owner or permissions",
            msg(
                "{place} belongs to {user} ({described}). Anyone who can change it can "
                "run commands as you.",
                place=clean(str(place), _SHOWN),
                user=_user(status.st_uid),
                described=_described(status),
            ),
            msg(
                "Copy it to a folder of your own, or run as root: chown -h {user} {quoted}",
                user=_user(os.geteuid()),
                quoted=_quoted(place),
            ),
        )


def _is_private_group(handle: int, status: os.stat_result) -> bool:
    """Return True if the group of a file contains only its owner, and nothing else grants rights to
    it."""
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return (
        group.gr_name == owner.pw_name
        and group.gr_gid == owner.pw_gid
        and set(group.gr_mem) <= {owner.pw_name}
        and {user.pw_uid for user in pwd.getpwall() if user.pw_gid == owner.pw_gid}
        <= {owner.pw_uid}
        and not _has_acl(handle)
    )


def _has_acl(handle: int) -> bool:
    """Whether an access control list may stand behind the group's bits; yes where none can tell."""
    if sys.platform != "linux":
        return True
    try:
        return "system.posix_acl_access" in os.listxattr(f"/proc/self/fd/{handle}")
    except OSError:
        return True


def _described(status: os.stat_result) -> str:
    return f"mode {stat.S_IMODE(status.st_mode):04o}, owner {_user(status.st_uid)}"


def _doer(status: os.stat_result) -> str:
    return "Run: " if os.geteuid() in (status.st_uid, 0) else "Run as root: "


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _quoted(place: Path) -> str:
    return clean(shlex.quote(str(place)), _SHOWN)
