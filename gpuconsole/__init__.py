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
    from gpuconsole.api import (
        BlockingSession,
        LabSession,
        Runnable,
        TaskOptions,
        Update,
        make_task,
        open_blocking,
        open_session,
    )
    from gpuconsole.core.estimate import Estimate, Memory, Report, Suggestion, Unknown, Verdict
    from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
    from gpuconsole.core.jobs import Attempt, Job, JobState, Mount, Task
    from gpuconsole.errors import (
        ConsoleError,
        EngineError,
        JournalError,
        ReadOnlyError,
        RefusedError,
        UnreachableError,
        UsageError,
    )
    from gpuconsole.session.factory import DemoOptions
    from gpuconsole.session.queue.planner import Why

__version__ = "0.1.0"

__all__ = [
    "Attempt",
    "BlockingSession",
    "ConsoleError",
    "DemoOptions",
    "Device",
    "EngineError",
    "Estimate",
    "FleetSnapshot",
    "Host",
    "HostState",
    "Job",
    "JobState",
    "JournalError",
    "LabSession",
    "Memory",
    "Mount",
    "ReadOnlyError",
    "RefusedError",
    "Report",
    "Runnable",
    "Suggestion",
    "Task",
    "TaskOptions",
    "Unknown",
    "UnreachableError",
    "Update",
    "UsageError",
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
        (
            "gpuconsole.api",
            "BlockingSession LabSession Runnable TaskOptions Update make_task open_blocking "
            "open_session",
        ),
        ("gpuconsole.core.estimate", "Estimate Memory Report Suggestion Unknown Verdict"),
        ("gpuconsole.core.fleet", "Device FleetSnapshot Host HostState"),
        ("gpuconsole.core.jobs", "Attempt Job JobState Mount Task"),
        (
            "gpuconsole.errors",
            "ConsoleError EngineError JournalError ReadOnlyError RefusedError UnreachableError "
            "UsageError",
        ),
        ("gpuconsole.session.factory", "DemoOptions"),
        ("gpuconsole.session.queue.planner", "Why"),
    )
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


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
