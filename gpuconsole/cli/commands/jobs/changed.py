"""How a command shows the jobs that it has changed."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.cli.options import options
from gpuconsole.cli.output import print_document
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean


def tell_all(asked: str, jobs: Sequence[Job], more: str = "") -> None:
    """Tell of one job as itself, of those of a sweep as a list; `more` follows each line."""
    if len(jobs) == 1 and jobs[0].task.sweep != asked:
        tell(jobs[0], more)
    elif options().as_json:
        print_document({"jobs": [job.as_json() for job in jobs]})
    else:
        for job in jobs:
            print(line(job) + more)


def tell(job: Job, more: str = "") -> None:
    """Print one job, or its document; `more` follows the line."""
    if options().as_json:
        print_document(job.as_json())
    else:
        print(line(job) + more)


def line(job: Job) -> str:
    """Return the line of one job."""
    from gpuconsole.cli.views import fleet

    return clean(fleet.job(job))
