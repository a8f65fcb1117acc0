"""Who a process is: user, command and container, as far as /proc tells without root."""

import os
import pwd
import re
from typing import Dict, Iterable, List, Tuple

COMMAND_LIMIT = 160
"""Bytes of a command line that are sent."""
Facts = Tuple[str, str, str]
_CONTAINER = re.compile(r"(?:^|[/:_-])([0-9a-f]{64})(?:\.scope)?(?=/|$)", re.MULTILINE)


def container_of(cgroup: str) -> str:
    """Return the container id in the text of /proc/PID/cgroup, or ''.

    Docker, containerd and podman all put the 64 hex digits into a path (`/docker/ID`,
    `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`); the innermost one counts.
    """
    ids = _CONTAINER.findall(cgroup)
    return ids[-1] if ids else ""


class Processes(object):
    """Facts of processes, read once per process."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: Dict[int, Tuple[object, Facts]] = {}
        self._users: Dict[int, str] = {}

    def facts(self, pid: int) -> Facts:
        """Return (user, command, container id); empty strings if unknown."""
        started = self._started(pid)
        cached = self._known.get(pid)
        if cached is not None and cached[0] == started:
            return cached[1]
        facts = (self._user(pid), self._command(pid), container_of(self._text(pid, "cgroup")))
        self._known[pid] = (started, facts)
        return facts

    def keep(self, pids: Iterable[int]) -> None:
        """Forget all processes but these."""
        for pid in set(self._known).difference(pids):
            del self._known[pid]

    def _started(self, pid: int) -> Tuple[str, List[str]]:
        # Field 22, after a name that may contain anything: its closing bracket is the last one.
        # An exec keeps the start time, so the name counts as well.
        text = self._text(pid, "stat")
        return text[: text.rfind(")")], text[text.rfind(")") + 2 :].split(" ")[19:20]

    def _user(self, pid: int) -> str:
        try:
            uid = os.stat(os.path.join(self._proc, str(pid))).st_uid
        except OSError:
            return ""
        if uid not in self._users:
            try:
                self._users[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                self._users[uid] = str(uid)
        return self._users[uid]

    def _command(self, pid: int) -> str:
        line = self._text(pid, "cmdline").replace("\0", " ").strip()
        return (line or self._text(pid, "comm").strip())[:COMMAND_LIMIT]

    def _text(self, pid: int, name: str) -> str:
        try:
            with open(os.path.join(self._proc, str(pid), name), "rb") as file:
                return file.read(8192).decode("utf-8", "replace")
        except OSError:
            return ""
