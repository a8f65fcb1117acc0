"""What `metrics` and `dispatch` share: the address that Prometheus scrapes, and its token."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from gpuconsole.cli.extras import install_command
from gpuconsole.cli.tasks import TaskValue
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

TOKEN_VARIABLE = "GPUCONSOLE_METRICS_TOKEN"
Command = TypeVar("Command", bound=Callable[..., object])


def token_options(command: Command) -> Command:
    """Give a command the options of the token that a scrape must bear, and of what it tells."""
    for option in (
        click.option(
            "--job-labels", is_flag=True,
            help="Add a metric with the users, jobs and containers that hold devices.",
        ),
        click.option(
            "--token-age", type=TaskValue("run_time", "duration"), metavar="TIME",
            help="How long a token is valid after its file was written: 30d; else without end.",
        ),
        click.option(
            "--token-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
            help="File with the token that a scraper must send; else $GPUCONSOLE_METRICS_TOKEN.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


class Scraping:
    """Where metrics are served and to whom; wrong settings are refused before anything starts."""

    def __init__(
        self,
        listen: str,
        token_file: Path | None,
        token_age: float | None,
        job_labels: bool = False,
    ) -> None:
        """UsageError for a wrong address or token, or one that is open to others without one."""
        _require_parts()
        from gpuconsole.web.auth import Bearer
        from gpuconsole.web.metrics import address_of, require_token

        age_s = math.inf if token_age is None else token_age
        guard = Bearer(token_file, TOKEN_VARIABLE, os.environ, age_s=age_s)
        self._address = address_of(listen)
        self._guard = guard if guard.token() else None
        self._job_labels = job_labels
        self.guarded = self._guard is not None
        require_token(self._address, self._guard)

    @contextlib.asynccontextmanager
    async def serving(self, session: Session) -> AsyncIterator[str]:
        """Serve a session's metrics while entered; yields their address."""
        from gpuconsole.web.metrics import exposed

        session.metrics.name_jobs = self._job_labels
        async with exposed(session.metrics, self._address, self._guard) as address:
            yield address.url


def _require_parts() -> None:
    if find_spec("prometheus_client") is None or find_spec("aiohttp") is None:
        raise UsageError(
            "Metrics are not installed",
            "Serving them needs prometheus-client and aiohttp.",
            msg("Run: {command}", command=install_command("metrics")),
        )
