"""What Slurm's commands print, read with suspicion.

`scontrol -o` has printed `Key=Value` for twenty years, and `squeue -o` prints what it is asked for
in the order in which it is asked; the keys of `--json` have changed with nearly every release. Both
print what users wrote (a job's name may hold newlines, and whole records that look like Slurm's),
so `squeue` is asked only for fields that Slurm itself fills in, and what `scontrol` says of a job
counts only where `squeue` agrees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass

FIELDS = ("%i", "%T", "%u", "%P", "%S", "%V", "%r", "%N")
"""Number, state, user, partition, start (seen or expected), submission, reason, nodes."""
MOST_NODES = 4096
"""Nodes that one compact list may name."""
_ID = re.compile(r"\d{1,10}(_\d{1,7})?")
_STATE = re.compile(r"[A-Z_]{1,30}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_GRES = re.compile(r"gpu(?::(?P<kind>[A-Za-z0-9._-]{1,60}))?:(?P<count>\d{1,4})(?![\d.])")
_USED = re.compile(r"gpu(?::([A-Za-z0-9._-]{1,60}))?:\d{1,4}\(IDX:([0-9,-]{1,200})\)")
_HELD = re.compile(r" Nodes=(\S{1,500}) CPU_IDs=\S* Mem=\S* GRES=(\S{1,500})")
_DEVICES_MOST = 256

PENDING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
                     "SPECIAL_EXIT", "RESV_DEL_HOLD"})  # fmt: skip
RUNNING = frozenset({"RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING",
                     "SUSPENDED", "STOPPED"})  # fmt: skip
ENDS = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL",
                  "PREEMPTED", "BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED",
                  "RECONFIG_FAIL"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A job that Slurm has in its queue."""

    id: str
    """`17`, or `17_3` for a task of an array."""
    state: str
    user: str
    partition: str = ""
    start: float | None = None
    """When it started, or is expected to; seconds since the epoch."""
    submitted_at: float | None = None
    """With the number it tells one job from another: a controller that lost its memory counts
    from where it was."""
    reason: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """What Slurm remembers of one job."""

    id: str
    state: str
    submitted_at: float | None = None
    exit_code: int | None = None
    signal: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster."""

    name: str
    states: frozenset[str]
    """Slurm's words: `IDLE`, `MIXED`, `ALLOCATED`, `DOWN`, and flags such as `DRAIN`."""
    kinds: tuple[str, ...] = ()
    """Its devices' types, by index; "" where none is named."""
    used: frozenset[int] = frozenset()
    """Indexes of devices that jobs have."""
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    address: str = ""
    cpus: int | None = None
    load: float | None = None
    memory_mib: float | None = None
    free_mib: float | None = None
    reason: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """The whole cluster at one moment."""

    nodes: tuple[Node, ...] = ()
    rows: Mapping[str, Row] = field(default_factory=dict)
    held: Mapping[tuple[str, int], Row] = field(default_factory=dict)
    """Which job has which device: node and index."""


def read_rows(text: str) -> dict[str, Row]:
    """Return the jobs of `squeue -h -r -o` with FIELDS; a line of another shape is no job."""
    rows = {}
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) != len(FIELDS):
            continue
        number, state, user, partition, start, submitted, reason, nodes = words
        if _ID.fullmatch(number) and _STATE.fullmatch(state):
            rows[number] = Row(
                number, state, clean(user, 60), clean(partition, 60), _time(start),
                _time(submitted), clean(reason, 80), expand(nodes),
            )  # fmt: skip
    return rows


def read_nodes(text: str) -> tuple[Node, ...]:
    """Return the nodes of `scontrol -d -o show nodes`."""
    nodes: dict[str, Node] = {}
    for line in text.splitlines():
        name = value(line, "NodeName")
        if line.startswith("NodeName=") and _NAME.fullmatch(name):
            nodes.setdefault(name, _node(name, line))
    return tuple(nodes.values())


def read_record(text: str, job: str, name: str) -> Record | None:
    """Return what `scontrol -o show job` says of a job of that number and name; None when that is
    not in it, as where the number has become another's."""
    line = next((line for line in text.splitlines() if line.startswith("JobId=")), "")
    number, _, task = job.partition("_")
    task_id = value(line, "ArrayTaskId")
    # The waiting tasks of an array share one record, with a list in it.
    in_array = bool(task) and value(line, "ArrayJobId") == number
    state = value(line, "JobState")
    if not (
        value(line, "JobId") == job or (in_array and (task_id == task or not task_id.isdigit()))
    ):
        return None
    if not _STATE.fullmatch(state) or value(line, "JobName") != name:
        return None
    code, _, signal = value(line, "ExitCode").partition(":")
    return Record(
        id=job,
        state=state,
        submitted_at=_time(value(line, "SubmitTime")),
        exit_code=_whole(code),
        signal=_whole(signal) or 0,
        started_at=_time(value(line, "StartTime")),
        ended_at=_time(value(line, "EndTime")),
        reason=clean(value(line, "Reason"), 80),
        nodes=expand(value(line, "NodeList")),
    )


def read_held(text: str, rows: Mapping[str, Row], nodes: Sequence[Node]) -> dict[
    tuple[str, int], Row
]:  # fmt: skip
    """Return which job has which device, from `scontrol -d -o show jobs`.

    A claim counts where `squeue` says that the job runs on that node, the node says that the
    device is used, and no other job claims it.
    """
    used = {(node.name, index) for node in nodes for index in node.used}
    held: dict[tuple[str, int], Row] = {}
    twice: set[tuple[str, int]] = set()
    for line in text.splitlines():
        row = rows.get(value(line, "JobId")) or rows.get(
            f"{value(line, 'ArrayJobId')}_{value(line, 'ArrayTaskId')}"
        )
        if not line.startswith("JobId=") or row is None or row.state not in RUNNING:
            continue
        for names, gres in _HELD.findall(line):
            for key in ((name, index) for name in expand(names) for index in _indexes(gres)):
                own = key in used and key[0] in row.nodes
                if own and held.setdefault(key, row) is not row:
                    twice.add(key)
    return {key: row for key, row in held.items() if key not in twice}


def value(line: str, key: str) -> str:
    """Return the first word after `key=`, at the beginning or after a blank; "" without one."""
    match = re.search(rf"(?:^| ){re.escape(key)}=(\S*)", line)
    text = match[1] if match else ""
    return "" if text in ("(null)", "N/A", "n/a", "Unknown", "None", "n/s") else text


def expand(listed: str) -> tuple[str, ...]:
    """Return the nodes of a compact list such as `n[1-3,7],gpu02`; nothing for what is none."""
    names_found: list[str] = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*", listed):
        head, bracket, rest = part.partition("[")
        numbers, _, tail = rest.partition("]")
        names = [f"{head}{each}{tail}" for each in _numbers(numbers)] if bracket else [head]
        names_found += [name for name in names if _NAME.fullmatch(name)]
        if len(names_found) > MOST_NODES:
            return ()
    return tuple(names_found)


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return []
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= MOST_NODES:
            return []
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
        if len(numbers) > MOST_NODES:
            return []
    return numbers


def _node(name: str, line: str) -> Node:
    reason = re.search(r" Reason=(.*?)(?: \[[^\]]*@[^\]]*\])?\s*$", line)
    return Node(
        name=name,
        states=frozenset(re.findall(r"[A-Z_]+", value(line, "State").upper())),
        kinds=_kinds(value(line, "Gres")),
        used=frozenset(_indexes(value(line, "GresUsed"))),
        partitions=_words(value(line, "Partitions")),
        features=_words(value(line, "ActiveFeatures")),
        address=clean(value(line, "NodeAddr"), 200),
        cpus=_whole(value(line, "CPUTot")),
        load=_number(value(line, "CPULoad")),
        memory_mib=_number(value(line, "RealMemory")),
        free_mib=_number(value(line, "FreeMem")),
        reason=clean(reason[1], 200) if reason else "",
        version=clean(value(line, "Version"), 30),
    )


def _kinds(gres: str) -> tuple[str, ...]:
    kinds: list[str] = []
    for match in _GRES.finditer(gres):
        kinds += [match["kind"] or ""] * min(int(match["count"]), _DEVICES_MOST - len(kinds))
    return tuple(kinds)


def _indexes(gres: str) -> list[int]:
    listed = (numbers for _, numbers in _USED.findall(gres))
    indexes = [int(number) for numbers in listed for number in _numbers(numbers)]
    return indexes[:_DEVICES_MOST]


def _words(text: str) -> tuple[str, ...]:
    return tuple(clean(word, 60) for word in text.split(",") if word)


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else None


def _time(text: str) -> float | None:
    # Seconds since the epoch, as SLURM_TIME_FORMAT=%s asks for.
    return float(text) if re.fullmatch(r"\d{9,11}", text) else None
