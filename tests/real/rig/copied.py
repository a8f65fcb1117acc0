"""A process that imports something once and divides for each program that wants it imported.

`python copied.py WAY NUMBER` answers at the listening socket that is open as that number:
an order comes with the files of a program, and a copy of this process, which has run nothing since
its imports, runs the program as a new Python would. What is answered is the copy's process id and,
once it has ended, how. It ends when its standard input does.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import importlib.util
import json
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import BuiltinImporter
from pathlib import Path
from types import ModuleType
from typing import Any

PROBE = Path(__file__).parents[3] / "gpuconsole/preflight/probe/probe.py"
MOST_FILES = 8
APART = 500
"""From this number on files lie that are not yet at their place."""
CONSOLE = ("gpuconsole.session.factory", "gpuconsole.remote.inventory", "asyncssh")
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of the kernel."""
LENGTH = 8
"""Bytes of the length before an order."""


def paddle() -> Callable[[], None]:
    """Import Paddle for programs of any kind."""
    importlib.import_module("paddle")
    return _program


def tier() -> Callable[[], None]:
    """The same, as the meta tier has it imported: the hook is in place."""
    hook: Any = importlib.import_module("gpuconsole.preflight.meta.hook")
    hook.install()
    importlib.import_module("paddle")
    hook.install = lambda: None
    return _program


def probe() -> Callable[[], None]:
    """Bring a run of the probe without data to where the script's request decides what follows."""
    run = _run_of_probe()
    meta = run.tensors_without_data()
    importlib.import_module("paddle")
    run.tensors_without_data = lambda: meta
    begin: Callable[[], None] = run.main
    return begin


def traced() -> Callable[[], None]:
    """The same for a run with data."""
    run = _run_of_probe()
    importlib.import_module("paddle")
    begin: Callable[[], None] = run.main
    return begin


def _run_of_probe() -> Any:
    sys.path[0] = str(PROBE.parent)
    spec = importlib.util.spec_from_file_location("probe", PROBE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load("run")


def console() -> Callable[[], None]:
    """Import what commands need."""
    for name in CONSOLE:
        importlib.import_module(name)
    entry: Any = importlib.import_module("gpuconsole.cli.entry")
    list(entry.sections())

    def begin() -> None:
        raise SystemExit(entry.main())

    return begin


WAYS = {"console": console, "paddle": paddle, "tier": tier, "probe": probe, "traced": traced}


def main() -> None:
    """Import, then divide until standard input ends."""
    way, number = sys.argv[1], int(sys.argv[2])
    before = dict(os.environ)
    begin = WAYS[way]()
    # What importing sets for the process stays set in its copies.
    added = {name: value for name, value in os.environ.items() if before.get(name) != value}
    listener = socket.socket(fileno=number)
    Server(listener, added, begin).serve()


class Server:
    """Takes orders, and says how their copies end."""

    def __init__(
        self, listener: socket.socket, added: Mapping[str, str], begin: Callable[[], None]
    ) -> None:
        self._listener, self._added, self._begin = listener, added, begin
        self._asked: dict[int, tuple[int, socket.socket]] = {}
        """Process and asker, by the file that becomes readable when the process has ended."""
        self._waiting = selectors.DefaultSelector()

    def serve(self) -> None:
        """Serve until nobody can ask any more."""
        self._waiting.register(self._listener, selectors.EVENT_READ)
        self._waiting.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in self._waiting.select():
                if key.fd == 0:
                    for process, _asker in self._asked.values():
                        _kill(process)
                    os._exit(0)
                if key.fd in self._asked:
                    self._ended(key.fd)
                else:
                    self._order()

    def _order(self) -> None:
        asker, _ = self._listener.accept()
        head, files, _, _ = socket.recv_fds(asker, LENGTH, MOST_FILES)
        left, parts = int.from_bytes(head, "little"), []
        while left:
            parts.append(asker.recv(left))
            left -= len(parts[-1])
        process = os.fork()
        if not process:
            asker.close()
            self._leave()
            become(json.loads(b"".join(parts)), files, self._added, self._begin)
        for file in files:
            os.close(file)
        asker.sendall(process.to_bytes(LENGTH, "little", signed=True))
        watched = os.pidfd_open(process)
        self._asked[watched] = (process, asker)
        self._waiting.register(watched, selectors.EVENT_READ)

    def _ended(self, watched: int) -> None:
        process, asker = self._asked.pop(watched)
        self._waiting.unregister(watched)
        os.close(watched)
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        with asker:
            try:
                asker.sendall(code.to_bytes(LENGTH, "little", signed=True))
            except OSError:
                # It was not waited for.
                _kill(process)

    def _leave(self) -> None:
        """Close what a copy has no business with."""
        self._waiting.close()
        self._listener.close()
        for watched, (_, asker) in self._asked.items():
            os.close(watched)
            asker.close()


def become(
    order: Mapping[str, Any],
    files: Sequence[int],
    added: Mapping[str, str],
    begin: Callable[[], None],
) -> None:
    """Be the program of an order, in a session of its own, and end with it."""
    os.setsid()
    *files, network = files
    if not os.path.samestat(os.fstat(network), os.stat("/proc/self/ns/net")):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(network, NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "cannot enter the network of who asks")
    os.close(network)
    apart = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, APART) for file in files]
    for file in files:
        os.close(file)
    for file, place in zip(apart, (0, 1, 2, *order["at"]), strict=True):
        os.dup2(file, place)
        os.close(file)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update({**order["env"], **added})
    sys.argv = list(order["argv"])
    folders = order["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [order["first"], *filter(None, folders)]
    program = ModuleType("__main__")
    program.__dict__.update(order["names"], __builtins__=__builtins__, __annotations__={})
    program.__loader__ = BuiltinImporter
    sys.modules["__main__"] = program
    sys.orig_argv = [sys.executable, *order["words"]]
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    code = _code_of(begin)
    os._exit(code)


def _code_of(begin: Callable[[], None]) -> int:
    """Run the program to its end; return the code that it ends with."""
    code = 0
    try:
        begin()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def _program() -> None:
    """Run the text that the order has, as `python -c` or a file."""
    names = sys.modules["__main__"].__dict__
    exec(compile(names.pop("__text__"), names.get("__file__", "<string>"), "exec"), names)


def _kill(process: int) -> None:
    try:
        os.killpg(process, signal.SIGKILL)
    except OSError:
        return


if __name__ == "__main__":
    main()
