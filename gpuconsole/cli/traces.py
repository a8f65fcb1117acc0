"""What `gpuconsole simulate` reads, and how its progress shows."""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpuconsole.cli.output import say
from gpuconsole.core.util.user_dirs import state_folder
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement.learned import weights_file
from gpuconsole.placement.policy import BASELINES, POLICIES, named_policy
from gpuconsole.placement.simulate import trace_readers
from gpuconsole.placement.simulate.compare import Comparison, compare
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.lab_file import parse_lab
from gpuconsole.placement.simulate.workload import Cut, build
from gpuconsole.yamldoc import read_text

if TYPE_CHECKING:
    from gpuconsole.placement.model import Policy

DEFAULT_LAB = "lab8.yaml"
DEFAULT_POLICIES = ("fifo_strict", "host_per_user", "sjf_easy", "weighted")
_RATES = "gavel_throughputs_isolated.csv"
"""Where Gavel's rates are looked for, beside the trace, also with .gz."""


def read_lab(path: Path | None) -> Lab:
    """Read a lab file; without one, the lab of 8 hosts that comes along."""
    path = _default_lab() if path is None else path
    return parse_lab(read_text(path, trusted=False), path.name)


def read_trace(path: Path | None, form: str, rates: Path | None) -> trace_readers.Trace:
    """Read a trace; without one, the synthetic trace that comes along."""
    if path is None:
        sample = resources.files("gpuconsole") / "data" / "sample-trace.csv"
        text = sample.read_text(encoding="utf-8")
        trace = trace_readers.read_native(text.splitlines(), "sample-trace.csv")
        note = "The trace is synthetic: no job of it ever ran."
        return trace_readers.Trace(trace.source, trace.jobs, trace.empty, (note,))
    with _lines(path) as lines:
        if form != "gavel":
            return trace_readers.READERS[form](lines, path.name)
        rates = rates or _rates_beside(path)
        with _lines(rates) as table:
            return trace_readers.read_gavel(lines, path.name, table, rates.name)


def run(
    trace: trace_readers.Trace,
    lab: Lab,
    cut: Cut,
    policies: Sequence[Policy],
    *,
    seed: int,
    bar: bool,
) -> Comparison:
    """Draw the jobs and play them under each policy, with a bar on a terminal."""

    def dice(name: str) -> random.Random:
        # A seed of its own for each kind of draw: one that is not needed moves no other.
        return random.Random(f"{seed}/{name}")

    jobs = build(trace, lab, cut, dice)
    with _bar([policy.name for policy in policies], bar and sys.stderr.isatty()) as progress:
        return compare(trace.source, lab, jobs, policies, dice, progress, cut=cut, seed=seed)


def _default_lab() -> Path:
    """Return the lab file of the inventory folder: the wheel's, or the checkout's."""
    package = Path(__file__).resolve().parents[1]
    wheel = package / "data" / "inventory"
    return (wheel if wheel.is_dir() else package.parent / "inventory") / DEFAULT_LAB


def _rates_beside(path: Path) -> Path:
    for name in (_RATES, f"{_RATES}.gz"):
        beside = path.with_name(name)
        if beside.exists():
            return beside
    raise UsageError(
        "No rates",
        msg("There is no {name} beside {path}.", name=_RATES, path=path),
        "Name the file with --rates.",
    )


@contextmanager
def _lines(path: Path) -> Iterator[TextIO]:
    """Open a CSV, packed or not; every way it can be unreadable is an error for a person."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with (gzip.open if packed else open)(
            path, "rt", encoding="utf-8-sig", newline="", errors="strict"
        ) as lines:
            yield lines
    except FileNotFoundError:
        raise UsageError(
            "No such file", msg("{path} does not exist.", path=path), "Check the path."
        ) from None
    except UnicodeDecodeError:
        raise UsageError(
            "Not a CSV file",
            msg("{path} is not UTF-8 text.", path=path),
            "Is it compressed with something other than gzip?",
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(
            "Broken file", f"{path}: {error}.", "It is cut off or damaged; copy it again."
        ) from None
    except OSError as error:
        raise UsageError(
            "Cannot read the file", f"{path}: {error.strerror or error}.", "Check path and rights."
        ) from None


@contextmanager
def _bar(names: Sequence[str], visible: bool) -> Iterator[Callable[[str, float], None]]:
    """Show how far each policy is; nothing unless stderr is a terminal."""
    if not visible:
        yield lambda _policy, _share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True, markup=False), transient=True) as shown:
        tasks = {name: shown.add_task(f"{say('simulation')}: {name}", total=1.0) for name in names}
        yield lambda name, share: shown.update(tasks[name], completed=share)


def policies(
    names: Sequence[str], lab: Lab, *, sharing: bool, state: Path | None
) -> tuple[Policy, ...]:
    """Return the policies that are compared; each name once, in the order given."""
    chosen = []
    for name in dict.fromkeys(names or DEFAULT_POLICIES):
        if name not in (*POLICIES, *BASELINES):
            raise UsageError(
                "Unknown policy",
                msg("{name} is no policy.", name=repr(name)),
                msg("There are {names}.", names=", ".join((*POLICIES, *BASELINES))),
            )
        policy = _trained(lab, state) if name == "rl_based" else named_policy(name)
        chosen.append(replace(policy, sharing=sharing))
    return tuple(chosen)


def _trained(lab: Lab, state: Path | None) -> Policy:
    """Return `rl_based` with the weights of the state folder, else with those that come along,
    where they may be used here."""
    path = state_folder(state) / weights_file.FILE_NAME
    trained = weights_file.read(path if path.exists() else weights_file.SHIPPED)
    learned, note = trained.usable([host.model for host in lab.hosts for _ in range(host.devices)])
    policy = named_policy("rl_based", learned=learned, note=note)
    if learned is None:
        return policy
    return replace(
        policy, note=msg("Weights of rl_based: {how_text}", how_text=trained.origin.sentence())
    )
