"""Programs that an engine runs inside a job's container, beside the job.

Each is sent as the text of a command and runs with the Python found there: 3.6 and later, the
standard library alone. Nothing is written into the image.
"""

from __future__ import annotations

from importlib import resources

PYTHONS = ("python3", "python")
"""The names under which an image may have Python, the likeliest first."""


def source(name: str) -> str:
    """Return the text of one of the programs."""
    return resources.files(__name__).joinpath(name).read_text("utf-8")
