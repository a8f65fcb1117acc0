"""The address that Prometheus scrapes: text made of a session's pictures.

Writing a picture out is done beside the event loop and once for all who ask meanwhile; a scrape
polls no host.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.session.metrics.collector import families
from gpuconsole.session.metrics.model import Family, Picture, Spread
from gpuconsole.web.auth import Bearer, is_here, is_loopback

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from gpuconsole.session.metrics.collector import Metrics

PATH = "/metrics"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGE = 64 * 1024
"""Bytes from which on an answer is compressed for those who take it so."""
_PAGE = "gpuconsole: what Prometheus scrapes is at /metrics\n"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """The address for Prometheus."""
        return f"http://{self._name}:{self.port}{PATH}"

    def is_named(self, host: str) -> bool:
        """Return whether a Host header names this address, with any port."""
        name, _, port = host.rpartition(":")
        return self._name in (host, name if port.isdecimal() else host)

    @property
    def _name(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def address_of(text: str) -> Address:
    """Parse HOST:PORT, with an IPv6 address in brackets. Raises UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    wrong = not colon or not bare or not port.isdecimal() or int(port) > 65535
    if wrong or (":" in bare) is not bracketed:
        raise UsageError(
            "Wrong address",
            msg("{text} is not HOST:PORT.", text=text),
            "Such as 127.0.0.1:9765 or [::1]:9765.",
        )
    return Address(bare, int(port))


class _Pictured(Collector):
    """One picture as `prometheus_client` wants it."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def collect(self) -> Iterable[Metric]:
        """Give all metrics."""
        return map(_family, families(self._picture))


class Exposition:
    """Answers scrapes."""

    def __init__(self, metrics: Metrics, guard: Bearer | None, address: Address) -> None:
        """Without a guard all who reach the address may read."""
        self._metrics = metrics
        self._guard = guard
        self._address = address
        self._writing = asyncio.Lock()
        self._written_of: Picture | None = None
        self._written: dict[tuple[str, bool], tuple[bytes, str]] = {}

    def application(self) -> web.Application:
        """Return the application."""
        application = web.Application(middlewares=[self._check])
        application.router.add_get(PATH, self._scrape)
        application.router.add_get("/", self._page)
        return application

    @web.middleware
    async def _check(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if self._guard is None:
            # A page elsewhere may have its own name point here.
            if not is_here(request.host) and not self._address.is_named(request.host):
                return web.Response(status=403, text="This is served on loopback only.\n")
        elif not self._guard.bears(request.headers.get("Authorization", "")):
            return web.Response(
                status=401, text="A token is needed.\n", headers={"WWW-Authenticate": "Bearer"}
            )
        return await handler(request)

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(text=_PAGE)

    async def _scrape(self, request: web.Request) -> web.Response:
        wants_gzip = "gzip" in request.headers.get("Accept-Encoding", "")
        body, kind = await self._text(request.headers.get("Accept", ""), wants_gzip)
        packed = wants_gzip and body[:2] == b"\x1f\x8b"
        headers = {"Content-Type": kind} | ({"Content-Encoding": "gzip"} if packed else {})
        return web.Response(body=body, headers=headers)

    async def _text(self, accept: str, wants_gzip: bool) -> tuple[bytes, str]:
        async with self._writing:
            picture = self._metrics.picture()
            if picture is not self._written_of:
                self._written_of, self._written = picture, {}
            encode, kind = choose_encoder(accept)
            key = (kind, wants_gzip)
            if key not in self._written:

                def write() -> bytes:
                    registry = CollectorRegistry(auto_describe=False)
                    registry.register(_Pictured(picture))
                    body = encode(registry)
                    return gzip.compress(body, 1) if wants_gzip and len(body) > _LARGE else body

                self._written[key] = (await asyncio.to_thread(write), kind)
            return self._written[key]


def _family(family: Family) -> Metric:
    metric = family.metric
    if metric.kind == "histogram":
        edges = [*(str(edge) for edge in metric.buckets), "+Inf"]
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for words, spread in family.samples:
            assert isinstance(spread, Spread)
            if spread.counts:
                below = list(zip(edges, map(float, accumulate(spread.counts)), strict=True))
                histogram.add_metric(words, below, sum_value=spread.total)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    single = kind(metric.name, metric.help, labels=metric.labels)
    for words, value in family.samples:
        assert isinstance(value, float)
        single.add_metric(words, value)
    return single


def require_token(address: Address, guard: Bearer | None) -> None:
    """Raise UsageError where anybody on the network could read without a token."""
    if guard is None and not address.is_loopback:
        raise UsageError(
            "A token is needed",
            msg("{host} may be reached from other machines.", host=address.host),
            "Name a file with --token-file, set $GPUCONSOLE_METRICS_TOKEN, or listen on 127.0.0.1.",
        )


@contextlib.asynccontextmanager
async def exposed(
    metrics: Metrics, address: Address, guard: Bearer | None
) -> AsyncIterator[Address]:
    """Answer scrapes while entered; yields the address with its true port.

    If `guard` is None the endpoint is unauthenticated. Raises UsageError if the address cannot be
    bound, or is open to others without a token.
    """
    require_token(address, guard)
    application = Exposition(metrics, guard, address).application()
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port)
        try:
            await site.start()
        except OSError as error:
            said = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise UsageError(
                "Cannot serve there", f"{address.host}:{address.port}: {said}.",
                "Name another address, or port 0 for any that is free.",
            ) from error  # fmt: skip
        yield Address(address.host, int(runner.addresses[0][1]))
    finally:
        await runner.cleanup()
