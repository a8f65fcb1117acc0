"""One way to run an argument list through whatever login shell a host has.

sshd hands a command to the user's login shell, which may be bash, dash, fish or csh, and which
runs its start-up files first. So the command itself is a constant that all of them read alike;
it becomes /bin/sh, which reads the real command from its input. A nonce marks where the noise of
start-up files ends and the command's own output begins.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

NOISE_LIMIT = 1024 * 1024
"""Bytes that start-up files may print before the host is given up."""
# `read` takes exactly one line, byte by byte: what follows is left for the command itself.
REMOTE_COMMAND = """exec /bin/sh -c 'IFS= read -r l; eval "$l"'"""


def script(argv: Sequence[str], nonce: str) -> bytes:
    """Return the line that starts `argv` and marks the beginning of its output and errors."""
    if any("\0" in word for word in argv):
        raise ValueError("an argument holds a NUL byte")
    # The script is one line, so a newline within an argument comes out of a variable.
    words = " ".join(shlex.quote(word).replace("\n", "'\"$n\"'") for word in argv)
    line = f"n=$(printf '\\nx');n=${{n%x}};echo {nonce};echo {nonce} >&2;exec {words}\n"
    return line.encode("utf-8", "surrogateescape")


class Cleared:
    """Bytes after the line that is the nonce; everything before it is dropped."""

    def __init__(self, nonce: str) -> None:
        self._mark = nonce.encode() + b"\n"
        self._noise = b""
        self.begun = False

    def feed(self, data: bytes) -> bytes:
        """Return what in a chunk is the command's; ValueError on endless noise."""
        if self.begun:
            return data
        self._noise += data
        where = self._noise.find(self._mark)
        if where < 0:
            if len(self._noise) > NOISE_LIMIT:
                raise ValueError("start-up files print without end")
            return b""
        self.begun = True
        rest = self._noise[where + len(self._mark) :]
        self._noise = b""
        return rest

    @property
    def noise(self) -> bytes:
        """What came instead of the command's output, for a message."""
        return self._noise[-400:]
