"""Who asks: the account at the far end of a unix socket, as the kernel knows it.

What a client sends says nothing of who it is. Through an SSH connection the far end is the sshd of
the account that has logged in, so identity is the SSH account.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import pwd
import socket
import struct
from pathlib import Path

from gpuconsole.core.lab_service.rights import Caller
from gpuconsole.core.text import clean

_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid: `struct ucred` of Linux."""


def caller_of(transport: asyncio.BaseTransport) -> Caller:
    """Return who is at the far end of a connection. OSError where the kernel does not tell."""
    sock: socket.socket = transport.get_extra_info("socket")
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(data)
    name, groups = _account(uid, gid)
    return Caller(uid, name, groups, gid, _origin(pid))


def _account(uid: int, gid: int) -> tuple[str, frozenset[str]]:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # An account that has no name is named by its number, which no name can be.
        return f"#{uid}", frozenset()
    numbers = {gid, entry.pw_gid}
    with contextlib.suppress(OSError):
        numbers |= set(os.getgrouplist(entry.pw_name, entry.pw_gid))
    names = set()
    for number in numbers:
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    return entry.pw_name, frozenset(names)


def _origin(pid: int) -> str:
    """Return the command at the far end, which says whether it is an sshd; for the audit alone:
    a process may call itself as it likes."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        return clean(f"{command} (pid {pid})", 80)
    return f"pid {pid}"
