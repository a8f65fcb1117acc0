"""The public Python API: a session on a lab, for pipelines, scripts and notebooks.

Everything here is also had from `gpuconsole` itself, which imports it when it is first used.
"""

from gpuconsole.api.blocking import BlockingImages, BlockingSession, open_blocking
from gpuconsole.api.session import open_session

__all__ = ["BlockingImages", "BlockingSession", "open_blocking", "open_session"]
