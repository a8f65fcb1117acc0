"""What `metrics` and `dispatch` share: the address that Prometheus scrapes, and its token."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

TOKEN_VARIABLE = "GPUCONSOLE_METRICS_TOKEN"


class Scraping:
    """Where metrics are served and to whom; wrong wishes are refused before anything starts."""

    def __init__(self, listen: str, token_file: Path | None) -> None:
        """UsageError for a wrong address or token, or one that is open to others without one."""
        _require_parts()
        from gpuconsole.web.guard import Guard, given_token
        from gpuconsole.web.metrics import address_of, require_token

        token = given_token(token_file, TOKEN_VARIABLE, os.environ)
        self._address = address_of(listen)
        self._guard = Guard(token) if token else None
        self.guarded = bool(token)
        require_token(self._address, self._guard)

    @contextlib.asynccontextmanager
    async def serving(self, session: Session) -> AsyncIterator[str]:
        """Serve a session's metrics while entered; gives their address."""
        from gpuconsole.web.metrics import exposed

        async with exposed(session.metrics, self._address, self._guard) as address:
            yield address.url


def _require_parts() -> None:
    if find_spec("prometheus_client") is None or find_spec("aiohttp") is None:
        raise UsageError(
            "Metrics are not installed",
            "Serving them needs prometheus-client and aiohttp.",
            "Run: pip install 'gpuconsole[metrics]'",
        )
