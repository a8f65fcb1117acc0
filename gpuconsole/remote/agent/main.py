"""The agent's main loop: one line a tick, whatever the driver does.

Lines start with a mark and carry JSON. The first is the hello with the console's nonce; each
later one holds the time, the clock difference, and what has changed since the line before:
`h` the host, `s` devices' fixed facts, `d` devices' readings by position, `p` processes by pid,
`v` what other vendors' tools printed, which the console reads.

A line with `f` holds everything. The console answers now and then with `a CLOCK TIME` (its clock,
and the line's time), with `r` when it wants everything again, and with `w PID PID…` when it wants
to know of processes that it read about in a tool's output. An input that closes, or falls silent,
ends the agent at once.
"""

import json
import os
import select
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from gpuconsole.remote.agent.host_stats import steps as machine_steps
from gpuconsole.remote.agent.nvml_driver import Device, Driver
from gpuconsole.remote.agent.processes import Processes
from gpuconsole.remote.agent.vendor_tools import Tools
from gpuconsole.remote.agent.watchdog import Values, Worker

MARK = "@gpuc "
HEARTBEAT_S = 1.0
"""Longest pause between two lines, however seldom the devices are read."""
SILENCE_S = 4.7
"""The console answers every third line; silent for so long, it or the link is gone. The agent is to
be gone within five seconds."""
WATCH_S = 0.25
"""How often silence is looked for."""
PROMPT_S = 4.0
"""An answer that took longer than so tells nothing of the console's clock."""
ROUND_S = 0.25
"""How long a line waits for the devices' readings."""
FIRST_WAIT_S = 0.5
"""How long the first line waits for the driver to open."""
TOGETHER_AT = 0.8
"""Where in the console's second the agents of a small fleet speak: it draws what all of them said
once, as the next begins."""
CHANGED = 3
"""Exit status that asks to be started again: devices came or went, or the driver was reloaded."""


class Console(object):
    """What the console said last."""

    def __init__(self) -> None:
        self.heard = time.monotonic()
        self.clock: Optional[List[float]] = None
        self.reset = True
        self.wanted: List[int] = []
        self._rest = b""

    def watch(self) -> None:
        """Read the console's answers; end the whole process when it is gone.

        `os._exit` because threads that hang in the driver would keep any other exit waiting.
        """
        while True:
            ready, _, _ = select.select([0], [], [], WATCH_S)
            if ready:
                data = os.read(0, 4096)
                if not data:
                    os._exit(0)
                self.heard = time.monotonic()
                self._take(data)
            elif time.monotonic() - self.heard > SILENCE_S:
                os._exit(0)

    def _take(self, data: bytes) -> None:
        now = time.time()
        whole, _, self._rest = (self._rest + data)[-16384:].rpartition(b"\n")
        for line in whole.split(b"\n"):
            word, _, value = line.partition(b" ")
            if word == b"r":
                self.reset = True
            elif word == b"w":
                self.wanted = [int(pid) for pid in value.split() if pid.isdigit()]
            elif word == b"a":
                try:
                    clock, sent = [float(number) for number in value.split()]
                except ValueError:
                    continue
                if 0 <= now - sent < PROMPT_S:
                    self.clock = [round((sent + now) / 2 - clock, 3), round(now - sent, 3)]


class Frames(object):
    """Builds lines that hold only what has changed."""

    def __init__(
        self, driver: Driver, machine: Worker, tools: List[Tools], console: Console
    ) -> None:
        self._driver = driver
        self._machine = machine
        self._tools = tools
        self._console = console
        self._processes = Processes()
        self._sent: Dict[str, Any] = {}

    def line(self, read: bool) -> Values:
        """Return the next line's content; with `read` the workers take new readings first."""
        whole, self._console.reset = self._console.reset, False
        if whole:
            self._sent = {}
        devices = list(self._driver.devices)
        workers = [self._machine] + [device.worker for device in devices if device.worker]
        if read:
            deadline = time.monotonic() + ROUND_S
            for worker in workers:
                worker.poke()
            for worker in workers:
                worker.wait(deadline)
        for worker in workers:
            worker.check()
        frame: Values = {"t": round(time.time(), 3)}
        if whole:
            frame["f"] = 1
        if self._console.clock is not None:
            frame["k"] = self._console.clock
        host = dict(self._machine.values, x=self._driver.error, **self._driver.versions)
        self._put(frame, "h", "h", host)
        static = [device.static for device in devices]
        if devices and self._sent.get("s") != static:
            self._sent["s"] = frame["s"] = static
        self._put_devices(frame, devices)
        self._put(frame, "v", "v", {tool.name: tool.record for tool in self._tools if tool.record})
        return frame

    def _put_devices(self, frame: Values, devices: List[Device]) -> None:
        wanted = self._console.wanted
        facts: Values = {str(pid): list(self._processes.facts(pid)) for pid in wanted}
        self._processes.keep(wanted)
        for position, device in enumerate(devices):
            if device.worker is None or device.reader is None:
                continue
            values = dict(device.worker.values, x=device.worker.error())
            xid = self._driver.xids.get(str(device.static["i"]))
            if xid is not None:
                values["X"] = xid
            process_facts = device.reader.process_facts
            for pid, _ in values.get("p") or ():
                if pid in process_facts:
                    facts[str(pid)] = list(process_facts[pid])
            self._put(frame.setdefault("d", {}), str(position), "d%d" % position, values)
        if not frame.get("d"):
            frame.pop("d", None)
        self._put(frame, "p", "p", facts)

    def _put(self, frame: Values, key: str, name: str, values: Values) -> None:
        before = self._sent.get(name, {})
        changed = {
            field: value
            for field, value in values.items()
            if field not in before or before[field] != value
        }
        self._sent[name] = values
        # Empty words and missing readings need no mention before anything else was said.
        if not before:
            changed = {f: value for f, value in changed.items() if value not in (None, "")}
        if changed:
            frame[key] = changed


def main(options: Values) -> None:
    """Run until the console goes away."""
    # Nothing that a library prints may get between the lines.
    out = os.dup(1)
    os.dup2(2, 1)
    console = Console()
    watcher = threading.Thread(target=console.watch, name="console")
    watcher.daemon = True
    watcher.start()
    write(out, {"hello": options["nonce"], "pid": os.getpid(), "python": sys.version.split()[0]})
    # Set once the devices are known: the first picture must not wait for the next round.
    opened = threading.Event()
    driver = Driver(on_opened=opened.set, on_changed=start_again)
    interval = max(0.1, float(options["interval"]))
    tools = [Tools(spec, interval) for spec in options["tools"]]
    frames = Frames(driver, Worker("machine", machine_steps()), tools, console)
    beat = min(HEARTBEAT_S, interval)
    together = bool(options.get("together"))
    opened.wait(FIRST_WAIT_S)
    next_read = next_line = time.monotonic()
    while True:
        now = time.monotonic()
        read = now >= next_read - beat / 2 or opened.is_set()
        opened.clear()
        if read:
            next_read = max(next_read, now - interval) + interval
        write(out, frames.line(read))
        next_line = max(next_line, now - beat) + beat
        if together:
            clock = time.time() - (console.clock or [0.0])[0]
            shift = towards_others(clock + next_line - time.monotonic(), beat)
            next_read += shift
            next_line += shift
        opened.wait(max(0.0, next_line - time.monotonic()))


def towards_others(due: float, beat: float) -> float:
    """Return by how many seconds a line that is due at this time of the console's clock is moved,
    so that all agents come to speak at one moment: a tenth of a beat at most, so none is left out.
    """
    late = (due - TOGETHER_AT * beat + beat / 2) % beat - beat / 2
    return -max(-beat / 10, min(beat / 10, late))


def start_again() -> None:
    """End the agent so that the console starts it again."""
    os._exit(CHANGED)


def write(out: int, frame: Values) -> None:
    """Send one line whole; a console that is gone ends the agent."""
    data = (MARK + json.dumps(frame, separators=(",", ":")) + "\n").encode("utf-8")
    try:
        while data:
            data = data[os.write(out, data) :]
    except OSError:
        os._exit(0)
