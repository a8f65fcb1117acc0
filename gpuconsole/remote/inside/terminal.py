"""Keeps a terminal with a shell in a container, whether or not anyone is connected to it.

It listens on a unix socket; the path is its one argument. `core.engines.terminals` has the
protocol. There may be several viewers: the last to connect types, unless it asked only to watch,
and those before it watch. A new viewer is shown the last of what was written. All of that goes to
the container's log too. It ends with the shell; the shell's children end with the container.

Plain Python 3.6, the standard library alone.
"""

import collections
import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import sys
import termios
import time
from typing import Any, Deque, Dict, List, Optional

HELLO, INPUT, SIZE, ASK = b"H", b"I", b"S", b"Q"
OUTPUT, NOTICE, END, STATE = b"O", b"N", b"E", b"S"
HEAD = 5
CHUNK = 16384
MOST_BYTES = 1 << 20
"""Of a frame that is taken."""
KEPT = 256 * 1024
"""Bytes of what was written that are shown to those who come."""
BEHIND = 1 << 20
"""Bytes that may wait for a viewer; one that is further behind is shown the last output again."""
LOOK_S = 0.5
LAST_WORDS_S = 2.0
"""How long those who look are waited for once the shell has ended."""
QUERIES = re.compile(rb"\x1b\[[?>=]?[0-9;]*[cn]|\x1b[\]P][^\x07\x1b]*\?(?:\x07|\x1b\\)")
"""What asks a terminal to answer: shown once more, the answer would be typed into the shell."""
SHELLS = ("/bin/bash", "/bin/sh")
NO_SHELL = 127


def frame(kind: bytes, data: bytes) -> bytes:
    """Return a frame as it is sent."""
    return kind + len(data).to_bytes(4, "big") + data


class Viewer:
    """One who looks."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self.link = link
        self.heard = bytearray()
        self.waiting: Deque[bytes] = collections.deque()
        self.behind = 0
        self.seen = False
        """Whether it has said who it is, and is shown what is written."""
        self.watch = False
        self.user = ""
        self.size = (80, 24)
        self.over = False

    def tell(self, kind: bytes, data: bytes) -> None:
        """Send a frame, at once or when there is room."""
        self.waiting.append(frame(kind, data))
        self.behind += len(data) + HEAD

    def send(self) -> None:
        """Send what waits, as far as there is room."""
        while self.waiting:
            try:
                sent = self.link.send(self.waiting[0])
            except BlockingIOError:
                return
            except OSError:
                self.over = True
                return
            self.behind -= sent
            rest = self.waiting.popleft()[sent:]
            if rest:
                self.waiting.appendleft(rest)

    def forget(self, begun: bool) -> None:
        """Forget what waits, but for a frame of which a part is sent."""
        first = self.waiting.popleft() if begun and self.waiting else b""
        self.waiting.clear()
        self.behind = len(first)
        if first:
            self.waiting.append(first)


class Terminal:
    """A shell on a terminal, and those who look at it."""

    def __init__(self, path: str) -> None:
        self.viewers: List[Viewer] = []
        self.typing: Optional[Viewer] = None
        self.written = bytearray()
        self.typed = bytearray()
        """What the shell has not taken yet."""
        self.typed_at: Optional[float] = None
        self.began_at = time.monotonic()
        self.ended: Optional[int] = None
        self.ending = False
        """Whether the shell is asked to end."""
        self.listener = socket.socket(socket.AF_UNIX)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        self.listener.bind(path)
        os.chmod(path, 0o600)
        self.listener.listen(16)
        self.listener.setblocking(False)
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            become_shell()
        # A shell that takes nothing now must not keep us from taking what it says.
        os.set_blocking(self.master, False)
        self.resize((80, 24))

    def run(self) -> int:
        """Serve until the shell has ended; return its exit code, as shells have it."""
        while self.ended is None:
            self.turn(LOOK_S)
            self.look()
            if self.ending and self.ended is None:
                # Bash misses a signal that arrives as it begins to read a line.
                self.hang_up()
        self.drain()
        for viewer in self.viewers:
            viewer.tell(END, b"%d" % self.ended)
        end = time.monotonic() + LAST_WORDS_S
        while any(each.waiting for each in self.viewers) and time.monotonic() < end:
            self.turn(0.05)
        return self.ended

    def turn(self, seconds: float) -> None:
        """Wait for something to do, at most so long, and do it."""
        links: Dict[object, Viewer] = {each.link: each for each in self.viewers}
        held_up = self.typing if len(self.typed) > BEHIND else None
        reads: List[Any] = [each.link for each in self.viewers if each is not held_up]
        writes: List[Any] = [each.link for each in self.viewers if each.waiting]
        if self.ended is None:
            reads += [self.master, self.listener]
            writes += [self.master] if self.typed else []
        readable, writable, _ = select.select(reads, writes, [], seconds)
        for source in writable:
            if source == self.master:
                self.type()
            else:
                links[source].send()
        for source in readable:
            if source is self.listener:
                self.admit()
            elif source == self.master:
                self.read()
            else:
                self.hear(links[source])
        for viewer in [each for each in self.viewers if each.over]:
            self.leave(viewer)

    def admit(self) -> None:
        """Take one more who looks."""
        try:
            self.viewers.append(Viewer(self.listener.accept()[0]))
        except OSError:
            pass

    def read(self) -> bool:
        """Take what is written on the terminal; whether there was something."""
        try:
            data = os.read(self.master, CHUNK)
        except OSError as error:
            if error.errno == errno.EIO:
                # The other end is closed; only `look` tells whether the shell has ended.
                time.sleep(0.05)
            return False
        self.written += data
        if len(self.written) > 2 * KEPT:
            del self.written[:-KEPT]
        write(1, data)
        for viewer in self.viewers:
            if not viewer.seen:
                continue
            if viewer.behind + len(data) > BEHIND:
                # A stalled link must not hold up the shell.
                viewer.forget(begun=True)
                viewer.tell(OUTPUT, b"\r\n" + self.last())
            else:
                viewer.tell(OUTPUT, data)
            viewer.send()
        return bool(data)

    def type(self) -> None:
        """Give the shell what was typed, as far as it takes it."""
        try:
            del self.typed[: os.write(self.master, self.typed)]
        except OSError:
            pass

    def drain(self) -> None:
        """Take what is still there after the end."""
        while self.read():
            pass

    def last(self) -> bytes:
        """Return the last of what was written, from the beginning of a line on."""
        tail = bytes(self.written[-KEPT:])
        if len(self.written) > KEPT:
            tail = tail[tail.find(b"\n") + 1 :]
        return QUERIES.sub(b"", tail)

    def hear(self, viewer: Viewer) -> None:
        """Take what one who looks has to say."""
        try:
            data = viewer.link.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            viewer.over = True
            return
        viewer.heard += data
        while len(viewer.heard) >= HEAD:
            length = int.from_bytes(viewer.heard[1:HEAD], "big")
            if length > MOST_BYTES:
                viewer.over = True
                return
            if len(viewer.heard) < HEAD + length:
                return
            kind, body = bytes(viewer.heard[:1]), bytes(viewer.heard[HEAD : HEAD + length])
            del viewer.heard[: HEAD + length]
            try:
                self.take(viewer, kind, body)
            except (ValueError, KeyError, TypeError):
                viewer.over = True
                return

    def take(self, viewer: Viewer, kind: bytes, body: bytes) -> None:
        """Do what a frame asks for."""
        if kind == HELLO:
            said = json.loads(body.decode())
            viewer.size = (int(said["columns"]), int(said["rows"]))
            viewer.user, viewer.watch = str(said["user"])[:64], bool(said["watch"])
            self.show(viewer)
        elif kind == INPUT:
            if viewer is self.typing:
                self.typed_at = time.monotonic()
                self.typed += body
                self.type()
        elif kind == SIZE:
            columns, rows = body.decode().split()
            viewer.size = (int(columns), int(rows))
            if viewer is self.typing:
                self.resize(viewer.size)
        elif kind == ASK:
            idle = time.monotonic() - (self.typed_at or self.began_at)
            seen = sum(each.seen for each in self.viewers)
            viewer.tell(STATE, json.dumps({"idle_s": idle, "viewers": seen}).encode())
        elif kind == NOTICE:
            for each in self.viewers:
                if each.seen:
                    each.tell(NOTICE, body)

    def show(self, viewer: Viewer) -> None:
        """Show the terminal to one who has said who it is; it types from now on."""
        viewer.seen = True
        if self.written:
            viewer.tell(OUTPUT, self.last())
        if viewer.watch:
            return
        before, self.typing = self.typing, viewer
        if before is not None and before is not viewer:
            before.tell(NOTICE, ("%s types now; you watch." % viewer.user).encode())
        # A program that fills the window draws it again when that changes.
        columns, rows = viewer.size
        self.resize((columns, max(1, rows - 1)))
        self.resize(viewer.size)

    def leave(self, viewer: Viewer) -> None:
        """Let one go; of those left the last to come types."""
        viewer.link.close()
        self.viewers.remove(viewer)
        if viewer is self.typing:
            able = [each for each in self.viewers if each.seen and not each.watch]
            self.typing = able[-1] if able else None
            if self.typing is not None:
                self.typing.tell(NOTICE, b"You type again.")
                self.resize(self.typing.size)

    def resize(self, size: "tuple[int, int]") -> None:
        """Give the terminal a size, in cells."""
        columns, rows = (min(max(1, cells), 4096) for cells in size)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def look(self) -> None:
        """See whether the shell has ended."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            died = os.WIFSIGNALED(status)
            self.ended = 128 + os.WTERMSIG(status) if died else os.WEXITSTATUS(status)

    def hang_up(self) -> None:
        """End the shell as a terminal does that is closed."""
        self.ending = True
        os.kill(self.pid, signal.SIGHUP)
        os.kill(self.pid, signal.SIGCONT)


def become_shell() -> None:
    """Run the shell in place of this process, which has the terminal already."""
    wanted = [os.environ.get("SHELL", ""), *SHELLS]
    os.environ.setdefault("TERM", "xterm-256color")
    for shell in wanted:
        if shell and os.access(shell, os.X_OK):
            os.execv(shell, [shell, "-i"])
    write(2, ("The image has no shell: neither $SHELL nor %s.\r\n" % ", ".join(SHELLS)).encode())
    os._exit(NO_SHELL)


def write(file: int, data: bytes) -> None:
    """Write all of it, as far as somebody takes it."""
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        pass


def main(path: str) -> int:
    """Keep a terminal until its shell has ended. How that ended is its user's own matter: 0, but
    where it could not begin."""
    terminal = Terminal(path)

    def end(number: int, at: object) -> None:
        for viewer in terminal.viewers:
            viewer.tell(NOTICE, b"This session is being ended.")
        terminal.hang_up()

    signal.signal(signal.SIGTERM, end)
    code = terminal.run()
    return code if code == NO_SHELL and terminal.typed_at is None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
