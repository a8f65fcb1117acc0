"""Notes, inside a job's container, how much memory Paddle took and how long a step lasted.

Python runs `start` before the user's script; nothing happens unless the script imports Paddle.
It must never change, break or slow that script: what fails here is noted in the report and left
alone. Standard library only, Python 3.6 and later.
"""

import collections
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import time
from types import ModuleType
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple

REPORTS = ".reports"
"""Folder of the reports, beside this file; its name cannot be imported."""
OFF = "GPUCONSOLE_REPORT"
WANTED = "GPUCONSOLE_BACKEND"
"""Names the kind of device that the job was started for; without it nothing is held against it."""
WRITE_EVERY_S = 10.0
EARLY_STEPS = (1, 3, 10)
"""Reports are written after these steps too: by the third the peak has usually been seen."""
WARM_UP_STEPS = 5
KEPT_TIMES = 200
RECENT_TIMES = 20
TEXT_LIMIT = 1000
_OOM_WORDS = ("Out of memory error on", "CUDA error(2)", "ALLOC_FAILED", "MemoryAllocation")


def start(folder: str) -> None:
    """Watch for Paddle; `folder` is the one by which Python found us."""
    if os.environ.get(OFF) != "0":
        try:
            sys.meta_path.insert(0, Watch(Report(os.path.join(folder, REPORTS))))
        except Exception:  # Without a report, but the script runs.
            pass
    _hand_on(folder)


def _hand_on(folder: str) -> None:
    """Take our folder off Python's path and run the `sitecustomize` that we stand before."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    # Python reports its errors, as it would without us.
    spec.loader.exec_module(module)


class Watch(importlib.abc.MetaPathFinder):
    """Waits for the first import of Paddle, then gets out of the way."""

    def __init__(self, report: "Report") -> None:
        self._report = report

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Find Paddle as everybody would, to hear when it has been imported."""
        if name != "paddle":
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, self._report)
        return spec


class Loader(importlib.abc.Loader):
    """Paddle's own loader, with word to the report once it is done."""

    def __init__(self, inner: importlib.abc.Loader, report: "Report") -> None:
        self._inner = inner
        self._report = report

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """Leave it to Paddle's loader."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Import Paddle, hide that we stood between, and begin to report."""
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        self._report.quietly(lambda: self._report.attach(module))


class Report(object):
    """What is known of this process, and its file."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._paddle: Any = None
        self._steps: Dict[int, Steps] = {}
        self._inside = False
        self._written_at = 0.0
        self._ended = False
        self._state: Dict[str, Any] = {"version": 1, "final": False, "errors": []}

    def attach(self, paddle: ModuleType) -> None:
        """Begin: count steps from now on and write at the end."""
        import atexit

        self._pid = os.getpid()
        self._paddle = paddle
        self._state["paddle"] = str(getattr(paddle, "__version__", ""))
        self._state["pid"] = self._pid
        self._state["rank"] = os.environ.get("PADDLE_TRAINER_ID", "")
        atexit.register(self.end)
        self.quietly(self._look_for_devices)
        self.quietly(self._count_steps)
        self.quietly(self._note_batches)
        self.quietly(self._hear_sigterm)

    def quietly(self, work: Callable[[], None]) -> None:
        """Do a piece of work; what fails is one line of the report."""
        try:
            work()
        except Exception as error:
            errors: List[str] = self._state["errors"]
            if len(errors) < 10:
                errors.append(repr(error)[:200])

    def end(self) -> None:
        """Write the last report, unless this is a copy of the process that began."""
        if self._ended or os.getpid() != self._pid:
            return
        self._ended = True
        self.quietly(self._note_failure)
        self._state["final"] = True
        self.quietly(self._write)

    def stepped(self, who: object) -> None:
        """Count a step; now and then write."""
        now = time.time()
        steps = self._steps.get(id(who))
        if steps is None:
            if len(self._steps) >= 16:
                return
            steps = self._steps[id(who)] = Steps()
        steps.note(time.perf_counter())
        if now - self._written_at >= WRITE_EVERY_S or steps.count in EARLY_STEPS:
            self._written_at = now
            if os.getpid() == self._pid:
                self.quietly(self._write)

    def _look_for_devices(self) -> None:
        """Note for which devices Paddle is built and how many it sees; a job that would compute on
        the CPU instead of its device gets a warning in its log before its first line runs."""
        wanted = os.environ.get(WANTED, "")
        if not wanted:
            return
        built, visible = devices_of(self._paddle, wanted)
        self._state["built"], self._state["visible"] = built, visible
        if built == wanted and visible:
            return
        # Safe to ask: with no device in sight nothing is set up on one.
        device = str(self._paddle.device.get_device())
        self._state["device"] = device
        if not device.startswith("cpu"):
            return
        self._state["fallback"] = wanted
        why = "it is built for %s" % built if built != wanted else "it sees no device"
        words = "gpuconsole: this job was started for %s, but Paddle %s computes on the processor"
        sys.stderr.write((words + ": %s.\n") % (wanted, self._state["paddle"], why))
        sys.stderr.flush()
        self._write()

    def _count_steps(self) -> None:
        optimizer = self._paddle.optimizer
        for name in dir(optimizer):
            kind = getattr(optimizer, name)
            if isinstance(kind, type):
                for method in ("step", "minimize"):
                    if method in kind.__dict__:
                        self._wrap(kind, method)
        self._wrap(self._paddle.static.Executor, "run")

    def _wrap(self, kind: type, method: str) -> None:
        """Count the calls of a method; one within another counts once."""
        import functools

        inner = kind.__dict__[method]

        @functools.wraps(inner)
        def counted(this: object, *args: object, **options: object) -> object:
            if self._inside:
                return inner(this, *args, **options)
            self._inside = True
            try:
                result = inner(this, *args, **options)
            finally:
                self._inside = False
            self.quietly(lambda: self.stepped(this))
            return result

        setattr(kind, method, counted)

    def _note_batches(self) -> None:
        """Note the batch size of the first loader that is read."""
        import functools

        loader = self._paddle.io.DataLoader
        inner = loader.__iter__

        @functools.wraps(inner)
        def noted(this: object) -> object:
            if "batch" not in self._state:
                self.quietly(lambda: self._note_batch(this))
            return inner(this)

        loader.__iter__ = noted

    def _note_batch(self, loader: object) -> None:
        size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
        if isinstance(size, int):
            self._state["batch"] = size

    def _hear_sigterm(self) -> None:
        """Write on SIGTERM, where the script does not listen for it itself; then end by it."""
        import signal
        import threading

        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def ended(number: int, frame: object) -> None:
            self.end()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGTERM, ended)

    def _note_failure(self) -> None:
        """Keep the words of an allocation that failed; the exception still holds its tensors."""
        error = getattr(sys, "last_value", None)
        text = str(error) if error is not None else ""
        places = [text.rfind(word) for word in _OOM_WORDS if word in text]
        if places:
            begin = max(places)
            self._state["oom"] = text[begin : begin + TEXT_LIMIT]

    def _measure(self) -> None:
        device = str(self._paddle.device.get_device())
        self._state["device"] = device
        if device.startswith("gpu"):
            cuda = self._paddle.device.cuda
            figures = {
                "allocated": cuda.max_memory_allocated(),
                "reserved": cuda.max_memory_reserved(),
                "current": cuda.memory_allocated(),
            }
            if "name" not in self._state:
                self._state["name"] = str(cuda.get_device_name())
        elif not device.startswith("cpu"):
            figures = device_figures(self._paddle, device)
        else:
            core = (getattr(self._paddle, "base", None) or self._paddle.fluid).core
            figures = {
                "allocated": core.host_memory_stat_peak_value("Allocated", 0),
                "current": core.host_memory_stat_current_value("Allocated", 0),
            }
        for name, value in figures.items():
            # A script may reset the peaks; the highest one seen stays.
            before = 0 if name == "current" else self._state.get(name, 0)
            self._state[name] = max(int(value), before)

    def _write(self) -> None:
        import json

        self.quietly(self._measure)
        most = max(self._steps.values(), key=lambda steps: steps.count, default=Steps())
        self._state["steps"] = most.count
        self._state["step_s"] = most.median()
        self._state["recent_s"] = most.recent()
        os.makedirs(self._folder, exist_ok=True)
        path = os.path.join(self._folder, "%d.json" % self._pid)
        with open(path + ".new", "w") as file:
            json.dump(self._state, file)
        os.replace(path + ".new", path)


def devices_of(paddle: ModuleType, wanted: str) -> Tuple[str, int]:
    """Return for which kind of device Paddle is built, and how many of those it sees.

    A plugin's kind counts as built where it is the wanted one, or the only one.
    """
    core = (getattr(paddle, "base", None) or paddle.fluid).core
    plugins = list(getattr(paddle.device, "get_all_custom_device_type", list)() or ())
    if wanted in plugins or plugins:
        kind = wanted if wanted in plugins else plugins[0]
        return str(kind), int(core.get_custom_device_count(kind))
    for kind, question in (("dcu", "rocm"), ("gpu", "cuda"), ("xpu", "xpu")):
        built = getattr(paddle.device, "is_compiled_with_" + question, None)
        if callable(built) and built():
            count = core.get_xpu_device_count if kind == "xpu" else core.get_cuda_device_count
            return kind, int(count())
    return "cpu", 0


def device_figures(paddle: ModuleType, device: str) -> Dict[str, int]:
    """Return what the allocator of a device that is no GPU took, bytes, by Paddle 3's own words."""
    figures = {}
    for name, question in (
        ("allocated", "max_memory_allocated"),
        ("reserved", "max_memory_reserved"),
        ("current", "memory_allocated"),
    ):
        ask = getattr(paddle.device, question, None)
        if ask is not None:
            figures[name] = int(ask(device))
    return figures


class Steps(object):
    """How often something was done, and how long lay between."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0
        self._times: Deque[float] = collections.deque(maxlen=KEPT_TIMES)

    def note(self, now: float) -> None:
        """Count one more."""
        self.count += 1
        if self.count > WARM_UP_STEPS + 1:
            self._times.append(now - self._last)
        self._last = now

    def median(self) -> Optional[float]:
        """Return the median time between two, seconds."""
        return _median(self._times)

    def recent(self) -> Optional[float]:
        """Return the median of the latest, once there are enough of them."""
        if len(self._times) < RECENT_TIMES:
            return None
        return _median(list(self._times)[-RECENT_TIMES:])


def _median(times: Iterable[float]) -> Optional[float]:
    """Return the middle one."""
    times = sorted(times)
    return times[len(times) // 2] if times else None
