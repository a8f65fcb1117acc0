"""Measure what scripts of the wild really hold, by the method of `benchmarks.truth`.

    python -m benchmarks.wild.truth --corpus FOLDER --only ID,ID [--harness FILE] [--held-out]
    python -m benchmarks.wild.truth --corpus FOLDER --refused [--batch NAME] [--only ID,ID]

A script runs from its working folder in a throw-away copy of its repository, with data beside it
(`data` and `measure` in the manifest): real Paddle on the CPU, a process for each batch size, the
peak of the allocator from the script's start to its third step, or as far as `steps` says (0: to
the script's end). A script's truth goes through the first end of an epoch with what follows it, an
evaluation or a save, where its run has one; it is cut short, and never left before that.
Libraries that are not here, cards, other ranks, what would be downloaded and names of older
libraries are stood in for as preflight does; a script that computes with what a missing library
makes ends. Only scripts whose memory does not depend on what their data holds have a truth. What
was measured is printed as it goes into the manifest. `--refused` runs the scripts that the manifest
says cannot run, and prints how each ends: the error that real Paddle raises is the reason that the
manifest gives. Scripts of batches that are held out are left out but with `--held-out`: what they
hold can be measured while what the product says of them is not known.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import inspect
import itertools
import json
import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import truth
from benchmarks.wild import beside, data, manifest
from benchmarks.wild.manifest import MANIFEST, Entry

HERE = Path(__file__).resolve().parents[2]
STAND_INS = "gpuconsole.preflight.probe.standins"
WORKDIR = "BENCHMARK_WORKDIR"
ROOT = "BENCHMARK_PROJECT"
"""PaddleScience takes `BENCHMARK_ROOT` for a wish of its own."""
LOOP = "BENCHMARK_LOOP"
MADE_UP = "BENCHMARK_MADE_UP"
WANTED = "BENCHMARK_STEPS"
EPOCH = "BENCHMARK_EPOCH"
FIRST = "BENCHMARK_FIRST"
LIMIT_S = 420
STEPS = 3
SETTLE_S = 0.5
"""How long each batch waits before the script has it, so that its loader reads ahead as far as it
goes: beside other work pictures are decoded slowly, and what waits would be left to chance."""
CALM_S, CALM_NS, MOST_CALM_S = 0.1, 2_000_000, 60.0
"""How long nothing of the process may run for more than so many nanoseconds until its loader is
taken to have read ahead, and how long that is waited for: on a busy machine half a second is not
enough."""
OWN_SIZES = -1
"""What says that no loader gets another batch size."""
MANY = 10**9
"""More steps than a script makes while it is measured."""
SHOWN = ("batch", "peak_bytes")
TOLD = ("batch", "cycles", "optimizers", "wall_s", "error")
"""What is printed of a script that was measured, and of one that was not."""
FEW = 4
"""The batch size at which a script runs that is only to show how it ends."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How the truth of a script is measured."""

    batches: tuple[int | None, ...]
    """None stands for the sizes that the script has by itself: loaders keep theirs."""
    how: str
    """`call`: the loaders' batch size is replaced; else the flag that sets it, or, with `{batch}`
    in the place of the size, the arguments that do."""
    argv: tuple[str, ...] = ()
    """Further arguments, such as to do without weights that would be downloaded."""
    loop: bool = False
    """Whether there is no loader, so that a step ends where gradients are cleared."""
    made_up: bool = False
    """Whether data that is not beside the script is made up, as preflight does."""
    steps: int = STEPS
    """More where the peak comes later: a user's card sees the whole run. 0 for all of them, and
    what follows the last."""
    epoch: int = 0
    """Batches after which an epoch is cut, where the peak comes with an evaluation; 0 for all."""
    first: int = 0
    """How many of a script's loaders and samplers, in the order in which they are made, get the
    batch size, where those that evaluate have numbers of their own: these stay, as they do for a
    user who sets the batch size of training; 0 for all."""
    times: int = 1
    """Runs, of which the smallest peak of each step counts: more than one where a step frees late
    by chance, as the executor of static graphs does on a CPU."""
    data: tuple[Mapping[str, Any], ...] = ()
    """Further recipes for the copy that is measured, where a script could not be run here as its
    users do and the memory of its steps stays: fewer samples to prepare, weights of its network at
    random in place of those that it would download."""


def plans(path: Path = MANIFEST) -> dict[str, Plan]:
    """Return the plans of all scripts that have one, by their ids."""
    repositories = json.loads(path.read_text("utf-8"))["repositories"]
    scripts = itertools.chain.from_iterable(one["scripts"] for one in repositories)
    return {one["id"]: _plan(one["measure"]) for one in scripts if "measure" in one}


def plan_of(identity: str, path: Path = MANIFEST) -> Plan | None:
    """Return the plan of a script; None where the manifest has none."""
    return plans(path).get(identity)


def _plan(plan: Mapping[str, Any]) -> Plan:
    argv, loop = tuple(plan.get("argv", ())), plan.get("loop", False)
    steps = plan.get("steps", STEPS)
    epoch, first = plan.get("epoch", 0), plan.get("first", 0)
    sizes, laid = tuple(plan["batches"]), tuple(plan.get("data", ()))
    return Plan(sizes, plan["how"], argv, loop, steps=steps, epoch=epoch, first=first,
                times=plan.get("times", 1), data=laid)  # fmt: skip


def measure(
    entry: Entry, plan: Plan, batch: int | None, corpus: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Run a script at one batch size; what the harness recorded, or why there is nothing."""
    return smallest([_once(entry, plan, batch, corpus, options) for _ in range(plan.times)])


def smallest(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a record of several runs of a script: of each step the smallest peak; the first run
    that failed where one did."""
    failed = [run for run in runs if run.get("error")]
    if failed or len(runs) == 1:
        return (failed or list(runs))[0]
    peaks = [min(of) for of in zip(*(run["cycle_peaks"] for run in runs), strict=True)]
    return {**runs[0], "cycle_peaks": peaks, "peak_bytes": max(peaks)}


def _once(
    entry: Entry, plan: Plan, batch: int | None, corpus: Path, options: argparse.Namespace
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="wild_") as temporary:
        root = Path(temporary) / "project"
        copy(entry, plan, corpus, root)
        out = Path(temporary) / "out.json"
        how, sized, first = setting(plan, batch)
        command = [
            sys.executable, "-W", "ignore", "-m", "benchmarks.wild.truth", "--child", "--script",
            str(root / entry.script), "--batch", str(batch or 1), *how, "--out", str(out),
            f"--argv={' '.join((*entry.argv, *plan.argv, *sized))}", f"--settle={SETTLE_S}",
        ]  # fmt: skip
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": temporary,
            "PYTHONPATH": os.pathsep.join([str(HERE), *_own(root), *_libraries()]),
            "GLOG_minloglevel": "2", "HYDRA_FULL_ERROR": "1",
            truth.HARNESS_AT: str(options.harness), WORKDIR: str(root / entry.workdir),
            ROOT: str(root), LOOP: "1" if plan.loop else "",
            MADE_UP: "1" if plan.made_up else "", WANTED: str(plan.steps or MANY),
            EPOCH: str(plan.epoch), FIRST: str(first),
        }  # fmt: skip
        said, ended = run(command, environment, options.limit)
        if not out.exists():
            return {"error": f"{ended}: {said[-1500:]}"}
        return whole_run(json.loads(out.read_text()))


def setting(plan: Plan, batch: int | None) -> tuple[list[str], list[str], int]:
    """Return how a batch size is set: words for the harness, further arguments of the script, and
    how many of its loaders and samplers get the size by themselves."""
    if "{batch}" in plan.how:
        return ["--how", "call"], plan.how.format(batch=batch).split(), OWN_SIZES
    how = ["--how", "call"] if plan.how == "call" else ["--how", "argv", f"--flag={plan.how}"]
    return how, [], OWN_SIZES if batch is None else plan.first


def copy(entry: Entry, plan: Plan, corpus: Path, root: Path) -> None:
    """Copy a script's repository with its data, and lay beside it what only measuring asks for."""
    shutil.copytree(beside.root_of(entry, corpus), root)
    data.make(plan.data, root / entry.workdir)


def whole_run(found: dict[str, Any]) -> dict[str, Any]:
    """Return a record of the harness with the peak of the whole run: what prepares the data, and
    the first step, have to fit too."""
    peaks = [found[name] for name in ("peak_bytes", "overall_peak_bytes") if name in found]
    return {**found, "peak_bytes": max(peaks)} if peaks else found


def run(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> tuple[str, str]:
    """Run a command to its end or the limit; what it said on stderr, and how it ended.

    What it started ends with it: workers of a script would go on without it.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=errors,
                                   start_new_session=True)  # fmt: skip
        try:
            ended = f"exit {process.wait(limit_s)}"
        except subprocess.TimeoutExpired:
            ended = f"not three steps within {limit_s:g} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        errors.seek(0)
        return errors.read(), ended


def _own(root: Path) -> list[str]:
    """Return the folder of a repository, for the modules at its top; none where it holds a folder
    `paddle`, which would stand in the place of Paddle."""
    return [] if (root / "paddle").is_dir() else [str(root)]


def _libraries() -> list[str]:
    """Return folders of further libraries, those of `PYTHONPATH`."""
    return list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))


def child() -> None:
    """Prepare the process of a script and hand over to the harness."""
    import paddle

    harness = truth.load_harness(Path(os.environ[truth.HARNESS_AT]))
    vars(harness)["STEPS"] = int(os.environ[WANTED])
    # Scripts do not sleep here; the harness does, until a loader has read ahead.
    clock = vars(harness)["time"] = ModuleType("time")
    vars(clock).update(vars(time), sleep=functools.partial(until_calm, time.sleep))
    workdir, chdir = os.environ[WORKDIR], os.chdir
    # The harness goes to the script's folder; its user starts it in another.
    vars(os)["chdir"] = lambda _: chdir(workdir)
    _stand_in(paddle, os.environ[ROOT])
    makers = {one: one.__init__ for one in _makers(paddle)}
    trackers = truth.known_trackers(harness)
    run_code = letting_go(functools.partial(_execute, paddle, makers), trackers)
    if int(os.environ[WANTED]) == MANY:
        run_code = to_the_end(run_code, trackers)
    harness.__dict__["exec"] = run_code
    Peak(paddle.base.core).keep(paddle)
    # Where a script makes a method of a tensor's size, it gives the shape.
    harness.__dict__["int"] = lambda one: int(math.prod(one()) if callable(one) else one)
    harness.__dict__["hasattr"] = has
    if os.environ[LOOP]:
        truth.mark_loop(harness)
    if int(os.environ[EPOCH]):
        readers = importlib.import_module("paddle.io.dataloader.dataloader_iter")
        cut_epochs(readers._DataLoaderIterBase, paddle.io.DataLoader, int(os.environ[EPOCH]))
    harness.main()


def until_calm(sleep: Callable[[float], object], seconds: float) -> None:
    """Wait for some seconds, and on until loaders have read ahead: no other thread of this process
    or of its children runs, or waits for a processor."""
    sleep(seconds)
    ends, before = time.monotonic() + MOST_CALM_S, _work_ns()
    while time.monotonic() < ends:
        sleep(CALM_S)
        after = _work_ns()
        if after - before < CALM_NS:
            return
        before = after


def _work_ns() -> int:
    """Return the nanoseconds that other threads have run, and waited for a processor."""
    own = str(threading.get_native_id())
    total = 0
    for process in ("self", *(str(child.pid) for child in multiprocessing.active_children())):
        for thread in Path("/proc", process, "task").glob("*/schedstat"):
            if thread.parent.name != own:
                with contextlib.suppress(OSError, ValueError):
                    total += sum(map(int, thread.read_text("ascii").split()[:2]))
    return total


class Peak:
    """The peak of Paddle's host allocator, whichever thread allocates.

    Paddle takes the sum over all threads for a peak only while one of them holds more than it ever
    held alone: a thread that has freed much goes unseen while a loader's thread holds batches. So
    the counter is set back at each layer, backward pass and optimizer's step, and the largest value
    is kept here.
    """

    def __init__(self, core: Any) -> None:
        self.value = 0
        self._core = core
        self._peak = core.host_memory_stat_peak_value
        self._reset = core.host_memory_stat_reset_peak_value

    def keep(self, paddle: Any) -> None:
        """Let Paddle's own counter answer with the largest value, and layers set it back."""
        vars(self._core)["host_memory_stat_peak_value"] = self._largest
        vars(self._core)["host_memory_stat_reset_peak_value"] = self._set_back
        optimizers = (paddle.optimizer.Optimizer, *paddle.optimizer.Optimizer.__subclasses__())
        for kind, name in (
            (paddle.nn.Layer, "__call__"),
            (paddle.Tensor, "backward"),
            *((one, "step") for one in optimizers if "step" in vars(one)),
        ):
            setattr(kind, name, self._around(getattr(kind, name)))

    def _around(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(whole)
        def called(*args: Any, **named: Any) -> Any:
            self._note()
            try:
                return whole(*args, **named)
            finally:
                self._note()

        return called

    def _note(self) -> None:
        self.value = max(self.value, self._peak("Allocated", 0))
        self._reset("Allocated", 0)

    def _largest(self, kind: str, device: int) -> int:
        found: int = self._peak(kind, device)
        return max(self.value, found) if kind == "Allocated" else found

    def _set_back(self, kind: str, device: int) -> None:
        if kind == "Allocated":
            self.value = 0
        self._reset(kind, device)


def has(one: object, name: str) -> bool:
    """Return whether an object has an attribute, but for a shape that is a method, as that of the
    tensors is which a loader gives to a static program: its numbers are not read."""
    return hasattr(one, name) and not (name == "shape" and callable(getattr(one, name)))


def cut_epochs(reader: Any, loader: Any, batches: int) -> None:
    """Let each epoch of a class of Paddle's readers, and of the loaders that make them, end after
    so many batches, so that what follows it is soon reached.

    It ends with the numbers of its samples, as a short epoch does: a reader that is left before its
    end keeps the batches that it has ready. A loader is as long as its epoch, for
    scripts that count their batches begin again where a reader ends before that.
    """
    length = loader.__len__
    loader.__len__ = lambda self: min(batches, length(self))
    whole = reader._index_sampler.fget
    reader._index_sampler = property(lambda self: list(itertools.islice(whole(self), batches)))


class Living:
    """The optimizers of a script, for the harness, which else keeps each with its states and its
    network until the script ends: one that trains many networks in turn holds one at a time."""

    def __init__(self) -> None:
        self._seen: list[weakref.ref[Any]] = []

    def append(self, optimizer: Any) -> None:
        """Note an optimizer without holding it."""
        self._seen.append(weakref.ref(optimizer))

    def __iter__(self) -> Iterator[Any]:
        return (optimizer for seen in self._seen if (optimizer := seen()) is not None)

    def __len__(self) -> int:
        return len(self._seen)


def letting_go(execute: Callable[..., None], trackers: Sequence[Any]) -> Callable[..., None]:
    """Return what executes a script while no tracker of the harness holds its optimizers."""

    def executed(*args: Any) -> None:
        for tracker in trackers:
            tracker.opts = Living()
        execute(*args)

    return executed


def to_the_end(execute: Callable[..., None], trackers: Sequence[Any]) -> Callable[..., None]:
    """Return what executes a script and then counts what follows its last step as a step: the
    whole script, where the harness saw no step."""

    def executed(*args: Any) -> None:
        began = time.time()
        execute(*args)
        for tracker in trackers:
            if tracker.t_cycle is None:
                tracker.t_cycle = began
            tracker.close_cycle(time.time())

    return executed


def _makers(paddle: ModuleType) -> Sequence[Any]:
    """Return the classes of Paddle whose batch size the harness replaces."""
    io = paddle.io
    return (io.BatchSampler, io.DistributedBatchSampler, io.DataLoader)


class Only:
    """Lets the first so many loaders and samplers that a script makes have the batch size that is
    measured; the others keep their own, but are read in the script's process."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.made = 0
        self.inside = False

    def of(self, whole: Callable[..., None], replaced: Callable[..., None]) -> Callable[..., None]:
        """Return the initializer for a class that has a whole and a replaced one."""
        signature = inspect.signature(whole)

        @functools.wraps(whole)
        def init(*args: Any, **named: Any) -> None:
            given = signature.bind(*args, **named)
            # A loader makes its sampler itself, or is given one that was counted.
            if not self.inside and given.arguments.get("batch_sampler") is None:
                self.made += 1
            around, self.inside = self.inside, True
            try:
                if self.made <= self.first:
                    return replaced(*args, **named)
                if "num_workers" in given.arguments:
                    given.arguments["num_workers"] = 0
                given.arguments.pop("persistent_workers", None)
                return whole(*given.args, **given.kwargs)
            finally:
                self.inside = around

        return init


def _execute(
    paddle: ModuleType, makers: Mapping[Any, Any], code: Any, names: dict[str, Any]
) -> None:
    """Run a script's code where every device that is named is the CPU."""
    if int(os.environ[FIRST]):
        only = Only(int(os.environ[FIRST]))
        for made, whole in makers.items():
            made.__init__ = only.of(whole, made.__init__)
    choose, place = paddle.set_device, paddle.device._convert_to_place
    # The harness takes the device by its place among the arguments only.
    paddle.set_device = paddle.device.set_device = lambda device=None: choose(device)
    paddle.device._convert_to_place = lambda device: place(
        "cpu" if isinstance(device, str) else device
    )
    # One card has none to synchronise with, and the CPU has no kernel for it.
    vars(paddle._C_ops)["sync_batch_norm_"] = paddle._C_ops.batch_norm
    exec(code, names)


def _stand_in(paddle: ModuleType, root: str) -> None:
    """Stand in for what is not here, as preflight does."""
    given: Mapping[str, tuple[Any, ...]] = {
        "devices_and_downloads": (paddle,), "missing_modules": (paddle, root),
        "single_process": (paddle, "traced"), "older_versions": (root,), "hub_files": (),
        "paddlenlp_datasets": (),
    }  # fmt: skip
    if os.environ[MADE_UP]:
        given = {**given, "missing_files": (root,)}
    for name, arguments in given.items():
        importlib.import_module(f"{STAND_INS}.{name}").install(*arguments)
    importlib.import_module(f"{STAND_INS}.missing_modules").prefer_own(root)
    # Handlers of the harness, which calls this, are not the script's.
    handlers = importlib.import_module(f"{STAND_INS}.exception_handlers")
    vars(handlers)["_RUNNER"] = os.path.abspath(__file__)
    # What this is made of is no library of the script.
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != str(HERE)]


def main() -> None:
    """Measure the scripts asked for, and print their points, or how they end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--only", default="", metavar="ID,ID")
    parser.add_argument("--batch", default="")
    parser.add_argument("--refused", action="store_true", help="those that cannot run")
    parser.add_argument("--held-out", action="store_true", help="those held out as well")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds a run may take")
    parser.add_argument("--harness", type=Path, default=truth.HARNESS)
    options = parser.parse_args()
    corpus = options.corpus.resolve()
    for entry, plan in asked(manifest.load(), options):
        for batch in plan.batches:
            found = measure(entry, plan, batch, corpus, options)
            good = not found.get("error") and found["cycles"] >= plan.steps
            named = {**found, "batch": batch}
            shown = {name: named[name] for name in (SHOWN if good else TOLD) if name in named}
            print(entry.id, json.dumps(shown, ensure_ascii=False)[-1800:], flush=True)


def asked(corpus: manifest.Manifest, options: argparse.Namespace) -> Iterator[tuple[Entry, Plan]]:
    """Yield the scripts to run, each with its plan."""
    only = frozenset(filter(None, options.only.split(",")))
    known = plans()
    for entry in corpus.entries:
        held_out = entry.batch in corpus.held_out and not options.held_out
        apart = held_out or options.batch not in ("", entry.batch)
        plan = known.get(entry.id)
        if options.refused:
            plan = replace(plan or Plan((FEW,), "call"), made_up=True)
        if (
            plan
            and not apart
            and entry.can_run != options.refused
            and entry.id in (only or {entry.id})
        ):
            yield entry, plan


if __name__ == "__main__":
    child() if "--child" in sys.argv else main()
