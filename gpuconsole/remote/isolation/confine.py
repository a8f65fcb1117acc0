"""Give up rights, then become another program: `python confine.py SETTINGS PROGRAM ARGUMENT…`.

This file is run by its path, in processes that see little of the file system: it uses the standard
library alone. SETTINGS is a JSON object; what it does not name is left as it is:

- `parent`: the id of the process with which this one ends;
- `join`: a file that takes the id of a process which joins its group;
- `limits`: resource limits by name, as in `{"RLIMIT_CPU": 600}`;
- `filtered`: true for a process that opens only sockets of its own network, makes no namespaces and
  no mounts, takes no memory that limits do not count, and reads no keys of its user.
"""

from __future__ import annotations

import contextlib
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
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_CALL, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data: the call, the machine, the low halves of two arguments."""
_ALLOWED, _DENIED, _UNKNOWN = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
"""Verdicts: the call is made, fails with EPERM, or fails as one that the system does not have."""
_PR_SET_SECCOMP, _FILTERING, _PR_SET_NO_NEW_PRIVS, _PR_SET_PDEATHSIG = 22, 2, 38, 1
_SIGKILL = 9
_MACHINES = {
    # The audit number, and those of socket, socketpair and clone.
    "x86_64": (0xC000003E, 41, 53, 56),
    "aarch64": (0xC00000B7, 198, 199, 220),
    "riscv64": (0xC00000F3, 198, 199, 220),
    "loongarch64": (0xC0000102, 198, 199, 220),
}
_CALLS = {
    # By name: the number on x86-64, and on the others. Namespaces and mounts, by which a process
    # has folders in memory of any size; flags of clone3 cannot be seen, and libraries do without.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "clone3": (435, 435), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442),
    # Memory that belongs to no process and lies in no folder.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    # Keys of the user, and ways into the kernel; io_uring opens sockets past any filter of calls.
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
}  # fmt: skip
_NEW_NAMESPACES = 0x7E020000
"""Flags of clone: namespaces for mounts, cgroups, names, messages, users, processes and network."""
_OTHER_TABLE = 0x40000000
"""From here on the numbers of x86-64 mean calls of its 32-bit table."""
_FAMILIES = (2, 10, 16)
"""IPv4, IPv6 and netlink: all three end at the borders of a network namespace."""
_PAIRED = (1, 5)
"""Types of a pair of sockets that cannot be connected to anything else."""


def is_known(machine: str) -> bool:
    """Tell whether system calls can be denied on such a machine."""
    return machine in _MACHINES


def call_filter(machine: str) -> bytes:
    """Return the filter of system calls under which a process opens no socket of a kind that
    leaves its network namespace, such as those in the file system, and makes none of `_CALLS`."""
    audit, socket, pair, clone = _MACHINES[machine]
    table = 0 if machine == "x86_64" else 1
    checks: list[tuple[int, int, str, str]] = [
        (_LOAD, _MACHINE, "", ""),
        (_IF_EQUAL, audit, "", "deny"),
        (_LOAD, _CALL, "", ""),
        (_IF_AT_LEAST, _OTHER_TABLE, "deny", ""),
        *((_IF_EQUAL, numbers[table], "unknown", "") for numbers in _CALLS.values()),
        (_IF_EQUAL, clone, "clone", ""),
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
        (_LOAD, _FIRST, "clone:", ""),
        (_IF_ANY, _NEW_NAMESPACES, "", "allow"),
        (_RETURN, _DENIED, "", ""),
        (_RETURN, _UNKNOWN, "unknown:", ""),
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


def _filter_calls() -> None:
    """Make the filter hold for this process and all that it starts."""
    text = call_filter(platform.machine())
    code = ctypes.create_string_buffer(text, len(text))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    program = Program(len(text) // _INSTRUCTION.size, ctypes.addressof(code))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _prctl(_PR_SET_SECCOMP, _FILTERING, ctypes.byref(program), 0, 0)


def _prctl(*call: object) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(*call):
        raise OSError(ctypes.get_errno(), f"the system refuses prctl {call[0]}")


def _end_with(parent: int) -> None:
    """End this process with its parent, and before others where memory runs out."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # It has ended already.
        os._exit(1)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def main(settings: str, *program: str) -> None:
    """Do what the settings say, and become the program."""
    said = json.loads(settings)
    if said.get("parent"):
        _end_with(said["parent"])
    if said.get("join"):
        with open(said["join"], "w") as group:
            group.write(str(os.getpid()))
    for name, most in said.get("limits", {}).items():
        what = getattr(resource, name)
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    if said.get("filtered"):
        _filter_calls()
    os.execv(program[0], program)


if __name__ == "__main__":
    main(*sys.argv[1:])
