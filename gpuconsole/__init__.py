"""gpuconsole: a terminal cluster console for small GPU labs.

    import gpuconsole

    with gpuconsole.open_blocking() as lab:
        report = lab.preflight("train.py", batch_size=64)

What is public is named in `__all__` and imported when it is first used: `import gpuconsole` alone
costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuconsole.api import BlockingImages, BlockingSession, open_blocking, open_session
    from gpuconsole.core.containers import PruneResult, ResultFile
    from gpuconsole.core.devices.run_history import HostCalibration
    from gpuconsole.core.estimate import Estimate, Memory, Report, Suggestion, Unknown, Verdict
    from gpuconsole.core.events import Event
    from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
    from gpuconsole.core.incidents import Incident
    from gpuconsole.core.jobs import Attempt, Job, JobState, Mount, Task
    from gpuconsole.core.lab_service.audit import Act
    from gpuconsole.core.training.curves import Compared, Curve, Curves, Point
    from gpuconsole.errors import (
        ConsoleError,
        EngineError,
        JournalError,
        ReadOnlyError,
        RefusedError,
        UnreachableError,
        UsageError,
    )
    from gpuconsole.placement import Candidate, Decision
    from gpuconsole.placement.forecast.what_if import Comparison
    from gpuconsole.placement.prepull import Fetch
    from gpuconsole.session.factory import DemoOptions
    from gpuconsole.session.images.copy import Copied
    from gpuconsole.session.images.service import FetchedImage, HostImages, Imaging
    from gpuconsole.session.logs.updates import Update
    from gpuconsole.session.queue.planner import Why
    from gpuconsole.session.recording.recorder import Recorded
    from gpuconsole.session.report.model import UsageReport
    from gpuconsole.session.restore.adoption import Settled
    from gpuconsole.session.results import FetchedResults
    from gpuconsole.session.session import Session
    from gpuconsole.session.submit.runnable import Runnable, TaskOptions, make_task
    from gpuconsole.state.files.images import ImageCheck, Pin

    LabSession = Session

__version__ = "0.1.0"

__all__ = [
    "Act",
    "Attempt",
    "BlockingImages",
    "BlockingSession",
    "Candidate",
    "Compared",
    "Comparison",
    "ConsoleError",
    "Copied",
    "Curve",
    "Curves",
    "Decision",
    "DemoOptions",
    "Device",
    "EngineError",
    "Estimate",
    "Event",
    "Fetch",
    "FetchedImage",
    "FetchedResults",
    "FleetSnapshot",
    "Host",
    "HostCalibration",
    "HostImages",
    "HostState",
    "ImageCheck",
    "Imaging",
    "Incident",
    "Job",
    "JobState",
    "JournalError",
    "LabSession",
    "Memory",
    "Mount",
    "Pin",
    "Point",
    "PruneResult",
    "ReadOnlyError",
    "Recorded",
    "RefusedError",
    "Report",
    "ResultFile",
    "Runnable",
    "Session",
    "Settled",
    "Suggestion",
    "Task",
    "TaskOptions",
    "Unknown",
    "UnreachableError",
    "Update",
    "UsageError",
    "UsageReport",
    "Verdict",
    "Why",
    "__version__",
    "make_task",
    "open_blocking",
    "open_session",
]

_HOMES = {
    name: home
    for home, names in (
        ("gpuconsole.api", "BlockingImages BlockingSession open_blocking open_session"),
        ("gpuconsole.core.lab_service.audit", "Act"),
        ("gpuconsole.core.containers", "PruneResult ResultFile"),
        ("gpuconsole.core.estimate", "Estimate Memory Report Suggestion Unknown Verdict"),
        ("gpuconsole.core.events", "Event"),
        ("gpuconsole.core.fleet", "Device FleetSnapshot Host HostState"),
        ("gpuconsole.core.incidents", "Incident"),
        ("gpuconsole.core.jobs", "Attempt Job JobState Mount Task"),
        ("gpuconsole.core.devices.run_history", "HostCalibration"),
        ("gpuconsole.core.training.curves", "Compared Curve Curves Point"),
        (
            "gpuconsole.errors",
            "ConsoleError EngineError JournalError ReadOnlyError RefusedError UnreachableError "
            "UsageError",
        ),
        ("gpuconsole.placement", "Candidate Decision"),
        ("gpuconsole.placement.prepull", "Fetch"),
        ("gpuconsole.placement.forecast.what_if", "Comparison"),
        ("gpuconsole.session.factory", "DemoOptions"),
        ("gpuconsole.session.images.copy", "Copied"),
        ("gpuconsole.session.images.service", "FetchedImage HostImages Imaging"),
        ("gpuconsole.session.logs.updates", "Update"),
        ("gpuconsole.session.queue.planner", "Why"),
        ("gpuconsole.session.recording.recorder", "Recorded"),
        ("gpuconsole.session.report.model", "UsageReport"),
        ("gpuconsole.session.restore.adoption", "Settled"),
        ("gpuconsole.session.results", "FetchedResults"),
        ("gpuconsole.session.session", "Session"),
        ("gpuconsole.session.submit.runnable", "Runnable TaskOptions make_task"),
        ("gpuconsole.state.files.images", "ImageCheck Pin"),
    )
    for name in names.split()
}
_FORMER = {"LabSession": "Session"}
"""Earlier names of what is public."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    present = _FORMER.get(name, name)
    if present not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[present]), present)


def __dir__() -> list[str]:
    """Name what is public, for completion in a notebook."""
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook the magics: `%load_ext gpuconsole`."""
    from gpuconsole.notebook.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away again, and close their session."""
    from gpuconsole.notebook.magics import unload

    unload(shell)
