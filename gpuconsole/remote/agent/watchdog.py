"""Named steps run in a thread that can be left behind when one of them never returns.

A hung driver call holds its thread for ever. The worker then marks that step as stuck, goes on
with the others in a new thread, and takes the step up again should the call return after all.
"""

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

Values = Dict[str, Any]

HANG_S = 2.5
"""A driver call that takes longer counts as hung; a sound one takes microseconds."""
MAX_LEFT_BEHIND = 3
"""Threads a worker may lose before it stops until one of them returns."""
RETRY_ROUNDS = 60
"""Rounds until a step that the driver does not support is tried again."""


class UnsupportedError(Exception):
    """The step cannot be done on this machine; try again seldom."""


class LostError(Exception):
    """What the worker reads has gone; nothing else of it can be read now."""


class Step(object):
    """A reading: `read()` returns a dict with (some of) `keys`; done every `every` rounds."""

    def __init__(
        self, name: str, keys: Tuple[str, ...], read: Callable[[], Values], every: int = 1
    ) -> None:
        self.name = name
        self.keys = keys
        self.read = read
        self.every = every


class Run(object):
    """One thread's progress; kept by the thread itself when it is left behind."""

    def __init__(self) -> None:
        self.step: Optional[Step] = None
        self.since = 0.0
        self.left_behind = False


class Worker(object):
    """Do all steps once each time it is poked; `values` holds the latest of every key."""

    def __init__(self, name: str, steps: List[Step]) -> None:
        self.name = name
        self.steps = steps
        self.values: Values = {}
        self.stuck: Set[str] = set()
        self.problems: Dict[str, str] = {}
        self._resting: Dict[str, int] = {}
        self._round = 0
        self._wanted = False
        self._changed = threading.Condition()
        self._run: Optional[Run] = None
        self._start()

    def poke(self) -> None:
        """Ask for a round; one that still goes on counts as it."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def wait(self, deadline: float) -> None:
        """Wait until the round is done or `deadline` (monotonic) has passed."""
        with self._changed:
            while self._wanted and self._run is not None and time.monotonic() < deadline:
                self._changed.wait(max(0.0, deadline - time.monotonic()))

    def check(self) -> None:
        """Leave a hung step behind. Call about once a second."""
        with self._changed:
            run = self._run
            if run is None or run.step is None or time.monotonic() - run.since < HANG_S:
                return
            run.left_behind = True
            self.stuck.add(run.step.name)
            self._forget(run.step)
            self._run = None
            if len(self.stuck) <= MAX_LEFT_BEHIND:
                self._start()
            else:
                for step in self.steps:
                    self._forget(step)

    def error(self) -> str:
        """Say in a few words what cannot be read, or ''."""
        with self._changed:
            if self.stuck:
                return "the driver does not answer: " + ", ".join(sorted(self.stuck))
            return "; ".join(self.problems[name] for name in sorted(self.problems))

    def _start(self) -> None:
        self._run = Run()
        thread = threading.Thread(target=self._work, args=(self._run,), name=self.name)
        thread.daemon = True
        thread.start()

    def _work(self, run: Run) -> None:
        while True:
            with self._changed:
                while not self._wanted and not run.left_behind:
                    self._changed.wait()
                if run.left_behind:
                    return
                self._round += 1
            for step in self.steps:
                if not self._due(step):
                    continue
                with self._changed:
                    run.step, run.since = step, time.monotonic()
                values, problem, rest, lost = _read(step)
                with self._changed:
                    run.step = None
                    if run.left_behind:
                        # Back after all: the step may be tried again by the current thread.
                        self.stuck.discard(step.name)
                        if self._run is None:
                            self._start()
                        return
                    self._take(step, values, problem, rest)
                    if lost:
                        self._lose(problem)
                        break
            with self._changed:
                self._wanted = False
                self._changed.notify_all()

    def _due(self, step: Step) -> bool:
        with self._changed:
            if step.name in self.stuck or self._resting.get(step.name, 0) > self._round:
                return False
            return (self._round - 1) % step.every == 0 or bool(self.values.get("L"))

    def _take(self, step: Step, values: Values, problem: str, rest: bool) -> None:
        # Whatever can be read again is not lost any more.
        self.values["L"] = 0
        self.problems.pop("", None)
        for key in step.keys:
            self.values[key] = values.get(key)
        if rest:
            self._resting[step.name] = self._round + RETRY_ROUNDS
        if problem:
            self.problems[step.name] = problem
        else:
            self.problems.pop(step.name, None)

    def _lose(self, problem: str) -> None:
        for step in self.steps:
            self._forget(step)
        self._resting.clear()
        self.problems = {"": problem}
        self.values["L"] = 1

    def _forget(self, step: Step) -> None:
        for key in step.keys:
            self.values[key] = None


def _read(step: Step) -> Tuple[Values, str, bool, bool]:
    """Return values, problem in words, whether to rest, whether all is lost."""
    try:
        return step.read(), "", False, False
    except UnsupportedError:
        return {}, "", True, False
    except LostError as error:
        return {}, str(error), False, True
    except Exception as error:
        # A fault of the driver costs only this reading and is reported.
        return {}, "%s: %s" % (step.name, error or type(error).__name__), False, False
