"""A run: the folder on the cluster in which one attempt has its code, output and end.

    labels   who it belongs to, one `name=value` a line
    batch.sh what `sbatch` takes; body.sh its commands alone, for an array
    after    names of runs that must end well before
    secrets  secret variables; read and removed as the run begins
    work/    the code; reporter/ what is laid beside it
    log      all its output
    array    the array of which it is a task, and which
    id       Slurm's number of it, written by the submitting process or by the run itself
    began    when it began; exit: its exit code and when it ended, written by the batch script

Accounting is switched off in many small labs, and Slurm forgets a job some minutes after its end:
the exit code is in the folder at any time.
"""

from __future__ import annotations

import io
import math
import re
import tarfile
from collections.abc import Mapping
from dataclasses import field

from gpuconsole.core.containers import ContainerStatus
from gpuconsole.core.engines.batch_job import SECRETS, WAITS, Script, batch_script, body, exports
from gpuconsole.core.text import clean
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.remote.slurm.calls import is_away, words_of
from gpuconsole.remote.slurm.parse import PENDING, RUNNING, Record, Row, read_record
from gpuconsole.remote.slurm.states import ended_sentence, waiting_sentence

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What a run may be called: it becomes a folder's name and Slurm's name of the job."""
_NUMBER = re.compile(r"\d{1,10}(_\d{1,7})?")
_EXIT = re.compile(r"(\d{1,3}) (\d{9,11})")
_TOLD = frozenset({"TIMEOUT", "PREEMPTED", "CANCELLED", "DEADLINE"})
"""Ends that Slurm begins with SIGTERM, to which a script may answer with exit code 0."""
TERMINATED = 143
EXPECTED_STEP_S = 600.0
FORGOTTEN = "Slurm does not know it any more, and it left no exit code."


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in a run's folder, and what Slurm said of it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """What Slurm calls it: the run's own name, or its array's."""
    number: str = ""
    began_at: float | None = None
    exit_code: int | None = None
    ended_at: float | None = None
    record: Record | None = None
    said: str = ""
    """Slurm's words where there is no record."""

    @property
    def forgotten(self) -> bool:
        """Whether its end is unknown: Slurm knows no such job, and there is no exit code."""
        return bool(self.number) and self.record is None and self.exit_code is None

    @property
    def away(self) -> bool:
        """Whether Slurm's controller did not answer."""
        return self.record is None and is_away(self.said)


def pack(script: Script, labels: Mapping[str, str]) -> bytes:
    """Return a new run's files as a tar."""
    written = "".join(f"{name}={value}\n" for name, value in sorted(labels.items()))
    files = {
        "labels": written,
        "after": "".join(f"{name}\n" for name in script.batch.after),
        "batch.sh": batch_script(script),
        "body.sh": body(script),
        "log": "",
    }
    if script.secrets:
        files[SECRETS] = "".join(f"{line}\n" for line in exports(script.secrets))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("work", "reporter", "reporter/.reports"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o700
            tar.addfile(entry)
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def read_look(run: str, text: str, nonce: str) -> Look:
    """Return what the script that looks at a run printed; each part begins with the nonce."""
    parts: dict[str, str] = {}
    for part in text.split(nonce + " ")[1:]:
        name, _, content = part.partition("\n")
        parts[name.strip()] = content.strip("\n")
    pairs = (line.partition("=") for line in parts.get("labels", "").splitlines())
    number = parts.get("id", "").strip()
    number = number if _NUMBER.fullmatch(number) else ""
    began, end = parts.get("began", "").strip(), _EXIT.fullmatch(parts.get("exit", "").strip())
    said = parts.get("slurm", "")
    group = parts.get("array", "").split()
    name = group[0] if group and NAME.fullmatch(group[0]) else run
    return Look(
        name=name,
        labels={name: clean(value, 300) for name, _, value in pairs if name},
        number=number,
        began_at=float(began) if re.fullmatch(r"\d{9,11}", began) else None,
        exit_code=int(end[1]) if end else None,
        ended_at=float(end[2]) if end else None,
        record=read_record(said, number, name) if number else None,
        said=said,
    )


def status_of(run: str, host: str, look: Look) -> ContainerStatus:
    """Return a run as a container of that name. If only Slurm can explain its end, and does not
    answer, the state is unknown: the caller checks `Look.away` first."""
    record, number = look.record, look.number
    if record is not None and record.state in PENDING:
        return waiting(run, host, number, record.reason, look.labels, record.started_at)
    # While Slurm still clears it away it does not say whether it had a hand in the end.
    ended = look.exit_code is not None if record is None else record.state not in RUNNING
    if not ended and (record is not None or (not number and look.began_at is not None)):
        nodes = record.nodes if record is not None else ()
        suspended = record is not None and record.state in ("SUSPENDED", "STOPPED")
        return running(run, number, nodes, look.labels, look.began_at, suspended=suspended)
    if not ended and not number:
        return ContainerStatus(run, run, "created", labels=look.labels)
    return _ended(run, look)


def waiting(
    run: str,
    host: str,
    number: str,
    reason: str,
    labels: Mapping[str, str],
    start: float | None,
) -> ContainerStatus:
    """Return the status of a run that waits in Slurm's queue, with when Slurm expects to start
    it, which it tells of those it has planned."""
    note = f"{WAITS}{waiting_sentence(reason)} It is job {number} on {host}."
    if start is not None:
        # In steps: what Slurm expects changes all the time, and each change is written down.
        about = iso_utc(math.ceil(start / EXPECTED_STEP_S) * EXPECTED_STEP_S) or ""
        note += f" Slurm expects to start it by {about[:16].replace('T', ' ')} UTC."
    return ContainerStatus(run, run, "pending", labels=labels, note=note)


def running(
    run: str,
    number: str,
    nodes: tuple[str, ...],
    labels: Mapping[str, str],
    began_at: float | None,
    *,
    suspended: bool = False,
) -> ContainerStatus:
    """Return the status of a run that runs."""
    where = f" on {words_of(nodes)}" if nodes else ""
    note = f"Slurm runs it as job {number or '?'}{where}."
    state = "paused" if suspended else "running"
    return ContainerStatus(run, run, state, labels=labels, started_at=began_at, note=note)


def status_of_row(
    run: str, host: str, row: Row, labels: Mapping[str, str]
) -> ContainerStatus | None:
    """Return the status of a run of ours by Slurm's list of jobs; None where that is not enough."""
    if row.state in PENDING:
        return waiting(run, host, row.id, row.reason or "None", labels, row.start)
    if row.state == "RUNNING":
        return running(run, row.id, row.nodes, labels, row.start)
    return None


def _ended(run: str, look: Look) -> ContainerStatus:
    record, code, error = look.record, look.exit_code, ""
    state = record.state if record is not None else ""
    if record is not None:
        error = ended_sentence(state)
        if code is None and record.signal:
            code = 128 + record.signal
        if code is None and not error:
            code = record.exit_code
        if state in _TOLD and not code:
            code = TERMINATED
    elif code is None:
        error = FORGOTTEN
    return ContainerStatus(
        run,
        run,
        "exited",
        labels=look.labels,
        exit_code=code,
        oom_killed=state == "OUT_OF_MEMORY",
        error=error,
        started_at=look.began_at,
        ended_at=look.ended_at or (record.ended_at if record is not None else None),
    )
