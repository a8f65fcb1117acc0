"""How an attempt ended, in a person's words: from the container's end and its last output.

`oom` is memory of the device running out. Host memory running out (the container's own limit) is
`failed`: another batch size would not help there, another limit would.
"""

from __future__ import annotations

import re
import signal

from gpuconsole.core.containers import KIND_LABEL, ContainerStatus
from gpuconsole.core.engines.terminals import SESSIONS
from gpuconsole.core.jobs import JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.lazy_pattern import lazy_pattern
from gpuconsole.core.wording import msg, sentences

TAIL_BYTES = 256 * 1024
"""How much of a log's end is searched: Paddle's C++ traceback is long, its summary last."""

_SIZE = r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)i?B"
# The text of Paddle's allocators for GPU, XPU and plug-in devices, since 1.6.
_DEVICE_OOM = lazy_pattern(
    r"Out of memory error on (?P<device>\w+[ :]\d+)\.(?P<rest>.{0,400})", re.DOTALL
)
_REQUESTED = lazy_pattern(r"annot allocate " + _SIZE)
_AVAILABLE = lazy_pattern(r"available memory is (?:only )?" + _SIZE)
_KINDS = ("GPU", "XPU", "NPU")
"""Kinds of device that sentences name; others stand in them as a value."""
# What CUDA's own libraries say when they, not Paddle's allocator, ran out.
_CUDA_OOM = lazy_pattern(
    r"CUDA error\s?\(2\), out of memory|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_ALLOC_FAILED"
)
_MISSING_MODULE = lazy_pattern(r"^ModuleNotFoundError: No module named '([^'\n]{1,200})'", re.M)
_LACKING = lazy_pattern(r"^The image has no \w(?:[^.\r\n]|\.(?=\d)){0,80}", re.M)
"""What a session's own programs print where they cannot begin."""
NO_SHELL = "The image has no shell: /bin/sh is not there."
_EXCEPTION = lazy_pattern(
    r"^((?:[A-Za-z_][\w.]{0,80}\.)?[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Warning)\b"
    r"(?::.{0,300})?)$",
    re.M,
)
# What Gloo, NCCL and their sockets say on hosts that lost a peer. Paddle's Gloo calls the end of
# a connection a TIMEOUT, at once (gloo v0.0.3, transport/tcp/pair.cc, where a read returns 0).
_PEER_GONE = lazy_pattern(
    r"gloo::\w*Exception|gloo/transport/tcp/pair\.cc:\d+\] TIMEOUT self_rank"
    r"|Connection (?:closed|reset) by (?:remote )?peer|ncclRemoteError"
    r"|remote process exited|Broken pipe"
)
# What Paddle's own handler says of a process that was asked to end.
_TOLD_TO_END = "Termination signal is detected"
CANCELLED_RUNNING = "Cancelled while it ran."
KILLED_CODES = (15, 137, 143, 255)
"""Exit codes of a container that was stopped or killed: Paddle's launcher ends with the number of
the signal; 255 is Docker's word for one that went down with its engine."""
_MIB_PER_UNIT = {"": 2.0**-20, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt. `cause` is "" after success."""

    state: JobState
    cause: str = ""
    requested_mib: float | None = None
    """After `oom`: what the failing allocation wanted, where the text says so."""
    available_mib: float | None = None


def outcome_of(
    status: ContainerStatus,
    log_tail: str,
    *,
    image: str,
    memory_limit_mib: float | None,
    cancelled: bool,
) -> Outcome:
    """Name the end of a container. `log_tail` is raw text, up to TAIL_BYTES; `image` is "" where
    there is none."""
    if status.state == "created":
        return Outcome(
            JobState.FAILED, msg("Could not be started: {why}", why=clean(status.error, 500))
        )
    if cancelled:
        return Outcome(JobState.CANCELLED, CANCELLED_RUNNING)
    if status.state == "dead" and (status.exit_code or status.started_at is None):
        return Outcome(JobState.FAILED, _removed(status))
    if status.exit_code == 0:
        return Outcome(JobState.SUCCEEDED)
    if status.oom_killed:
        limit = "" if memory_limit_mib is None else f" ({format_mib(memory_limit_mib)})"
        return Outcome(
            JobState.FAILED, f"Killed by the container's memory limit{limit}: host memory ran out."
        )
    device_oom = find_device_oom(log_tail)
    if device_oom is not None:
        return device_oom
    return Outcome(JobState.FAILED, _failure(status, log_tail, image))


def find_device_oom(log_tail: str) -> Outcome | None:
    """Return the `oom` outcome if the log says that a device ran out of memory."""
    last = max(0, log_tail.rfind("Out of memory error on "))
    if match := _DEVICE_OOM.match(log_tail, last):
        device = match["device"].replace(":", " ")
        requested = _mib(_REQUESTED.search(match["rest"]))
        available = _mib(_AVAILABLE.search(match["rest"]))
        return Outcome(
            JobState.OOM, _memory_cause(device, requested, available), requested, available
        )
    if _CUDA_OOM.search(log_tail):
        return Outcome(JobState.OOM, "Out of memory on the GPU, reported by a CUDA library.")
    return None


def _memory_cause(device: str, requested: float | None, available: float | None) -> str:
    """Return the sentence that a device such as `GPU 0` ran out of memory (MiB).

    All its places are figures where the kind of device is known: the journal keeps plain text, in
    which such a sentence is found again by any console.
    """
    parts = []
    if requested is not None:
        parts.append("{size} requested")
    if available is not None:
        parts.append("{limit} available")
    kind, _, index = device.partition(" ")
    where = f"{kind} {{index}}" if kind in _KINDS else "{device}"
    tail = f": {', '.join(parts)}" if parts else ""
    return msg(
        f"Out of memory on {where}{tail}.",
        device=device, index=index, size=format_mib(requested), limit=format_mib(available),
    )  # fmt: skip


def blames_peers(log_tail: str) -> bool:
    """Tell whether a process of a gang ended because it lost another one."""
    return bool(_PEER_GONE.search(log_tail))


def names_own_error(log_tail: str) -> bool:
    """Tell whether the last exception in a log is one of the process itself: neither a lost peer
    nor an end that was asked for."""
    exceptions = _EXCEPTION.findall(log_tail)
    if not exceptions:
        return False
    last = exceptions[-1]
    return not (blames_peers(last) or _TOLD_TO_END in last)


def _removed(status: ContainerStatus) -> str:
    """Return the cause for a dead container: its removal failed, and took what it had left. Its
    exit code may be that of the removal."""
    gone = "Something else removed its container, and the engine has no log of it."
    said = clean(status.error, 300)
    return sentences(gone, msg("The engine says: {why}", why=said) if said else "")


def _failure(status: ContainerStatus, log_tail: str, image: str) -> str:
    if status.exit_code == 127 and status.labels.get(KIND_LABEL) in SESSIONS:
        said = _LACKING.search(log_tail)
        return f"{clean(said[0], 200)}." if said else NO_SHELL
    missing = _MISSING_MODULE.findall(log_tail)
    if missing:
        where = f"in the image {image}" if image else "on the node"
        return f"Python module {clean(missing[-1], 200)!r} is missing {where}."
    sentence = exit_sentence(status.exit_code)
    if status.error:
        return f"{sentence} The engine says: {clean(status.error, 300)}"
    exceptions = _EXCEPTION.findall(log_tail)
    return f"{sentence} {clean(exceptions[-1], 300)}" if exceptions else sentence


def exit_sentence(code: int | None) -> str:
    """Return what an exit code means (128 + n is signal n, as shells and Docker count)."""
    if code is None:
        return "Ended; the engine does not say with which exit code."
    meaning = {
        125: "the engine could not run it",
        126: "the command cannot be executed",
        127: "the command was not found in the image",
    }.get(code, "")
    if 128 < code < 160:
        try:
            meaning = msg("ended by {signal}", signal=signal.Signals(code - 128).name)
        except ValueError:
            meaning = ""
    return (
        msg("Exit code {n}: {meaning_text}.", n=code, meaning_text=meaning)
        if meaning
        else f"Exit code {code}."
    )


def _mib(match: re.Match[str] | None) -> float | None:
    return None if match is None else float(match[1]) * _MIB_PER_UNIT[match[2]]
