"""The public Python API: a session on a lab, for pipelines, scripts and notebooks.

Everything here is also had from `gpuconsole` itself, which imports it when it is first used.
"""

from gpuconsole.api.blocking import BlockingSession, open_blocking
from gpuconsole.api.session import LabSession, Update, open_session
from gpuconsole.api.tasks import Runnable, TaskOptions, make_task

__all__ = [
    "BlockingSession",
    "LabSession",
    "Runnable",
    "TaskOptions",
    "Update",
    "make_task",
    "open_blocking",
    "open_session",
]
