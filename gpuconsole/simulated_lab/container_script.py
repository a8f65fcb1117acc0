"""What a simulated container will do: derived from the job itself, then fixed when it starts.

Nothing of the job's code runs. Its length comes from its arguments, its memory from its estimate;
whether it runs out of memory is decided by what the device has left, as on a real card.
"""

from __future__ import annotations

import math
import posixpath
import random
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gpuconsole.core.containers import KIND_LABEL, ContainerSpec
from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.engines.terminals import JUPYTER_PORT, PROGRAM
from gpuconsole.core.services import SERVICE
from gpuconsole.core.units import GIB_IN_MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.backends import Terms, terms
from gpuconsole.preflight.roofline import Work, roofline

if TYPE_CHECKING:
    from gpuconsole.core.fleet import Backend
    from gpuconsole.simulated_lab.catalogue import Card

ESTIMATE_ENV = "GPUCONSOLE_ESTIMATE_MIB"
"""The estimate's upper bound per device, which the dispatcher hands to a container."""
NEED_ENV = "GPUCONSOLE_SIMULATED_NEED_MIB"
"""What a job really takes per device (MiB), for a job with an estimate that is meant to be
wrong."""
NEED_PER_SAMPLE_ENV = "GPUCONSOLE_SIMULATED_NEED_PER_SAMPLE_MIB"
"""What each sample of its batch takes beside that."""
TFLOP_PER_SAMPLE_ENV = "GPUCONSOLE_SIMULATED_TFLOP_PER_SAMPLE"
GB_PER_SAMPLE_ENV = "GPUCONSOLE_SIMULATED_GB_PER_SAMPLE"
"""What a step computes and moves for each sample of the batch: its steps take as long as preflight
says."""
DEFAULT_NEED_MIB = 6144.0
_BACKEND_ENV = "GPUCONSOLE_BACKEND"
_BOUND_SHARE = 0.82
"""Of what the bound leaves to Paddle's allocator: a sound bound lies above what a job takes."""
_STEP_S = 0.5
"""Lab seconds of a training step on an RTX 3090, of a job that does not say what it computes."""
STARTUP_S = 2.5
"""From the container's start to the first step: interpreter, imports, context."""
_STEP_OPTIONS = re.compile(r"--(?:max[-_])?(?:steps|iters|iterations)(?:=(\d+))?")
_BATCH_OPTIONS = re.compile(r"--batch[-_]size(?:=(\d+))?")
_EPOCH_OPTIONS = re.compile(r"--(?:num[-_])?epochs(?:=(\d+))?")
_STEPS_PER_EPOCH = 60
_DEFAULT_STEPS = 120
_MAX_STEPS = 20_000
_RATE_OPTIONS = ("--lr", "--learning-rate", "--learning_rate")
_BEST_RATE = 0.01
"""The learning rate with which a simulated script learns most."""
_NOTEBOOK = f"--ServerApp.port={JUPYTER_PORT}"
_ENDLESS_STEPS = 30 * 86400
_SHELL_MIB = 600.0
"""What an idle session holds, before anything is started in it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A container's whole life, in lab seconds from its start."""

    label: str
    steps: int
    step_s: float
    need_mib: float
    exit_code: int
    dies_after: int | None
    """The step in which it runs out of memory or fails; None when it finishes."""
    last_words: str = ""
    shell: bool = False
    """Whether it is a session, which writes what is typed there and nothing else."""
    serves: bool = False
    """Whether it is a replica of a service, which answers until it is stopped."""
    rate_error: float = 0.0
    """How many powers of ten its learning rate is off the best."""

    @property
    def duration_s(self) -> float:
        """Lab seconds from start to exit."""
        if self.dies_after is not None:
            return STARTUP_S + self.dies_after * self.step_s
        return STARTUP_S + self.steps * self.step_s + 0.5

    def step_at(self, age_s: float) -> int:
        """Return how many steps are done after `age_s`."""
        last = self.steps if self.dies_after is None else self.dies_after
        return max(0, min(last, math.floor((age_s - STARTUP_S) / self.step_s)))

    def loss(self, step: int) -> float:
        """Return the loss that the log shows for a step."""
        noise = random.Random(f"{self.label}:{step}").uniform(-0.04, 0.04)
        left = 0.18 + 0.3 * self.rate_error
        speed = 3.2 / (1.0 + 0.8 * self.rate_error)
        return max(0.01, left + (2.3 - left) * math.exp(-speed * step / self.steps) + noise)

    def accuracy(self, step: int) -> float:
        """Return the accuracy that the log shows for a step: the better the less the loss."""
        return max(0.0, min(1.0, math.exp(-0.6 * self.loss(step))))

    def lines(self, since: int, age_s: float, speed: float = 1.0) -> list[str]:
        """Return the log's lines from number `since` that are written by `age_s`. `speed` is that
        of the lab's time: a log is in seconds of the console's clock."""
        if self.shell:
            return []
        lines = ["SIMULATED: nothing of this script is run"] if age_s >= 0.5 else []
        if self.serves:
            return lines[since:]
        if lines:
            lines += [
                f"step={step}/{self.steps} loss={self.loss(step):.4f}"
                f" acc={self.accuracy(step):.4f} {1e3 * self.step_s / speed:.0f}ms/step"
                for step in range(max(1, since), self.step_at(age_s) + 1)
            ]
            lines = lines[1:] if since else lines
        return lines


def step_seconds(spec: ContainerSpec, cards: Sequence[Card], speed: float) -> float:
    """Return the lab seconds of a step on the slowest of the cards.

    `speed` is that of the lab's time. A job that says what a step computes takes as many seconds of
    the console's clock as preflight and placement estimate, however fast the lab's time is: the
    estimate, the log and the measured pace agree.
    """
    samples = _option(spec.command, _BATCH_OPTIONS) or 0
    tflop = samples * (_number(spec.env.get(TFLOP_PER_SAMPLE_ENV)) or 0.0)
    if tflop and cards:
        moved = samples * (_number(spec.env.get(GB_PER_SAMPLE_ENV)) or 0.0)
        work = Work(tflop * 1e12, moved * 1e9)
        catalogue = Catalogue.load()
        specs = (catalogue.lookup(card.model, card.memory_mib, card.backend) for card in cards)
        times = [each and roofline(work, each) for each in specs]
        if all(times):
            return max(seconds for seconds in times if seconds) * speed
    return _STEP_S / max(0.1, min((card.speed for card in cards), default=0.2))


def plan_for(
    spec: ContainerSpec, label: str, step_s: float, available_mib: Sequence[float], fault: str
) -> Plan:
    """Fix what a container does. `step_s` are the lab seconds of a step, `available_mib` is what
    each of its devices has left.

    `fault` is Python's own message when the script cannot even be read, "" otherwise.
    """
    need = _need_mib(spec)
    if PROGRAM in spec.command or _NOTEBOOK in spec.command:
        return Plan(label, _ENDLESS_STEPS, 1.0, _SHELL_MIB, 0, None, shell=True)
    serves = spec.labels.get(KIND_LABEL) == SERVICE
    steps = _ENDLESS_STEPS if serves else _steps(spec.command)
    if fault:
        return Plan(label, steps, step_s, 0.0, 1, 0, fault)
    short = next((left for left in available_mib if need > left), None)
    if short is None:
        error = _rate_error(spec.command)
        return Plan(label, steps, step_s, need, 0, None, serves=serves, rate_error=error)
    return Plan(label, steps, step_s, short, 1, min(steps, 3), out_of_memory(need, short))


def out_of_memory(need_mib: float, available_mib: float) -> str:
    """Return the text with which Paddle names an allocation that failed."""
    # The last tensor that did not fit is a tenth of the need; what is left is less than that.
    wanted = max(64.0, need_mib * 0.1)
    left = max(0.0, min(wanted * 0.6, available_mib * 0.02))
    return (
        "----------------------\n"
        "Error Message Summary:\n"
        "----------------------\n"
        "ResourceExhaustedError: \n\n"
        f"Out of memory error on GPU 0. Cannot allocate {_human(wanted)} memory on GPU 0, "
        f"{_human(available_mib - left)} memory has been allocated and available memory is only "
        f"{_human(left)}.\n\n"
        "Please check whether there is any other process using GPU 0.\n"
        "1. If yes, please stop them, or start PaddlePaddle on another GPU.\n"
        "2. If no, please decrease the batch size of your model. "
    )


PROJECT = "/workspace"
"""Where the code lies in a container."""


def script_fault(bundle: Path, command: Sequence[str], folder: str = PROJECT) -> str:
    """Return Python's message when the bundle lacks the script or it is no Python, else "".
    `folder` is where the command starts."""
    script = next((word for word in command if word.endswith(".py") and word != PROGRAM), "")
    if not script:
        return ""
    with tarfile.open(bundle) as archive:
        names = {member.name.removeprefix("./"): member for member in archive if member.isreg()}
        wanted = posixpath.relpath(posixpath.join(folder, script), PROJECT)
        member = names.get(wanted)
        content = archive.extractfile(member) if member is not None else None
        if content is None:
            return f"python: can't open file '{script}': [Errno 2] No such file or directory"
        try:
            compile(content.read(), wanted, "exec")
        except (SyntaxError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def _need_mib(spec: ContainerSpec) -> float:
    real = _number(spec.env.get(NEED_ENV))
    if real is not None:
        per_sample = _number(spec.env.get(NEED_PER_SAMPLE_ENV)) or 0.0
        return real + per_sample * (_option(spec.command, _BATCH_OPTIONS) or 0)
    estimate = _number(spec.env.get(ESTIMATE_ENV))
    if estimate is None:
        return DEFAULT_NEED_MIB
    # A share of the whole bound would be far too much for a small job: most of that is context.
    own = _terms(spec)
    reserved = max(0.0, estimate - own.context_mib - own.context_spread_mib)
    return own.context_mib + reserved * _BOUND_SHARE


def context_mib(spec: ContainerSpec) -> float:
    """Return what a simulated process holds of its device outside the allocator: as much as
    estimates say of its back end."""
    return _terms(spec).context_mib


def _terms(spec: ContainerSpec) -> Terms:
    return terms(cast("Backend", spec.env.get(_BACKEND_ENV, "gpu")))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _steps(command: Sequence[str]) -> int:
    steps = _option(command, _STEP_OPTIONS)
    if steps is None:
        epochs = _option(command, _EPOCH_OPTIONS)
        steps = _DEFAULT_STEPS if epochs is None else epochs * _STEPS_PER_EPOCH
    return max(1, min(steps, _MAX_STEPS))


def _option(command: Sequence[str], pattern: re.Pattern[str]) -> int | None:
    for word, following in zip(command, (*command[1:], ""), strict=True):
        match = pattern.fullmatch(word)
        if match is not None:
            value = match.group(1) or following
            return int(value) if value.isdecimal() and len(value) < 9 else None
    return None


def _rate_error(command: Sequence[str]) -> float:
    """Return how many powers of ten a learning rate is off the best; 0 where none is given."""
    for word, following in zip(command, (*command[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option in _RATE_OPTIONS:
            rate = _number(value if equals else following)
            return min(2.0, abs(math.log10(rate / _BEST_RATE))) if rate else 0.0
    return 0.0


def _human(size_mib: float) -> str:
    """Write a size as Paddle's HumanReadableSize does: six decimals, no blank."""
    if size_mib >= GIB_IN_MIB:
        return f"{size_mib / GIB_IN_MIB:.6f}GB"
    if size_mib >= 1.0:
        return f"{size_mib:.6f}MB"
    return f"{size_mib * 1024:.6f}KB" if size_mib * 1024 >= 1 else f"{size_mib * 1048576:.6f}B"
