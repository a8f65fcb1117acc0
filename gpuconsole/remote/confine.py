"""Give up rights, then become another program: `python confine.py SETTINGS PROGRAM ARGUMENT…`.

This file is run by its path, in processes that see little of the file system: it uses the standard
library alone. SETTINGS is a JSON object; what it does not name is left as it is:

- `join`: a file that takes the id of a process which joins its group;
- `limits`: resource limits by name, as in `{"RLIMIT_CPU": 600}`;
- `sockets`: false for a process that may open only sockets of its own network.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Sequence

# struct sock_filter of <linux/filter.h>, and the numbers of <linux/seccomp.h> and <linux/audit.h>.
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_CALL, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data: the call, the machine, the low halves of two arguments."""
_ALLOWED, _DENIED = 0x7FFF0000, 0x00050000 | 1
_PR_SET_SECCOMP, _FILTERING, _PR_SET_NO_NEW_PRIVS = 22, 2, 38
_MACHINES = {
    # The audit number, and those of socket and socketpair.
    "x86_64": (0xC000003E, 41, 53),
    "aarch64": (0xC00000B7, 198, 199),
    "riscv64": (0xC00000F3, 198, 199),
    "loongarch64": (0xC0000102, 198, 199),
}
_IO_URING_SETUP = 425
"""Opens sockets past any filter of calls."""
_OTHER_TABLE = 0x40000000
"""From here on the numbers of x86-64 mean calls of its 32-bit table."""
_FAMILIES = (2, 10, 16)
"""IPv4, IPv6 and netlink: all three end at the borders of a network namespace."""
_PAIRED = (1, 5)
"""Types of a pair of sockets that cannot be connected to anything else."""


def is_known(machine: str) -> bool:
    """Tell whether sockets can be denied on such a machine."""
    return machine in _MACHINES


def no_foreign_sockets(machine: str) -> bytes:
    """Return the filter of system calls under which a process opens no socket of a kind that
    leaves its network namespace, such as those in the file system."""
    audit, socket, pair = _MACHINES[machine]
    checks: list[tuple[int, int, str, str]] = [
        (_LOAD, _MACHINE, "", ""),
        (_IF_EQUAL, audit, "", "deny"),
        (_LOAD, _CALL, "", ""),
        (_IF_AT_LEAST, _OTHER_TABLE, "deny", ""),
        (_IF_EQUAL, _IO_URING_SETUP, "deny", ""),
        (_IF_EQUAL, pair, "pair", ""),
        (_IF_EQUAL, socket, "", "allow"),
        (_LOAD, _FIRST, "", ""),
        *((_IF_EQUAL, family, "allow", "") for family in _FAMILIES),
        (_RETURN, _DENIED, "deny:", ""),
        (_LOAD, _SECOND, "pair:", ""),
        # The upper bits are flags.
        (_AND, 0xF, "", ""),
        *((_IF_EQUAL, kind, "allow", "") for kind in _PAIRED),
        (_RETURN, _DENIED, "", ""),
        (_RETURN, _ALLOWED, "allow:", ""),
    ]
    return _assembled(checks)


def _assembled(lines: Sequence[tuple[int, int, str, str]]) -> bytes:
    """Return instructions with their jumps; a name with a colon says where a jump leads."""
    places = {name[:-1]: at for at, (_, _, name, _) in enumerate(lines) if name.endswith(":")}

    def away(name: str, at: int) -> int:
        return places[name] - at - 1 if name in places else 0

    return b"".join(
        _INSTRUCTION.pack(code, away(true, at), away(false, at), value)
        for at, (code, value, true, false) in enumerate(lines)
    )


def _deny_sockets() -> None:
    """Never let this process, or one that it starts, reach another by a socket."""
    text = no_foreign_sockets(platform.machine())
    code = ctypes.create_string_buffer(text, len(text))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    program = Program(len(text) // _INSTRUCTION.size, ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)
    for call in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _FILTERING, ctypes.byref(program), 0, 0),
    ):
        if library.prctl(*call):
            raise OSError(ctypes.get_errno(), "the system does not deny sockets")


def main(settings: str, *program: str) -> None:
    """Do what the settings say, and become the program."""
    said = json.loads(settings)
    if said.get("join"):
        with open(said["join"], "w") as group:
            group.write(str(os.getpid()))
    for name, most in said.get("limits", {}).items():
        what = getattr(resource, name)
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    if said.get("sockets") is False:
        _deny_sockets()
    os.execv(program[0], program)


if __name__ == "__main__":
    main(*sys.argv[1:])
