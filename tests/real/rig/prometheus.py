"""A Prometheus of the test's own: its configuration, its data and its port on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.rig.patience import PATIENCE_S

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    url: str

    async def ask(self, path: str, **words: str) -> Any:
        """Return the data of an answer of its API."""
        query = f"?{urllib.parse.urlencode(words)}" if words else ""

        def get() -> Any:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/{path}{query}", timeout=PATIENCE_S
            ) as answer:
                return json.load(answer)

        document = await asyncio.to_thread(get)
        assert document["status"] == "success", document
        return document["data"]

    async def query(self, text: str) -> list[dict[str, Any]]:
        """Return the vector of a query."""
        found = await self.ask("query", query=text)
        assert found["resultType"] == "vector", found
        return list(found["result"])

    async def until(self, path: str, holds: Callable[[Any], bool], **words: str) -> Any:
        """Return the first answer that fulfils a condition; AssertionError with the last one."""
        last: Any = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while loop.time() < deadline:
            with contextlib.suppress(OSError):
                last = await self.ask(path, **words)
                if holds(last):
                    return last
            await asyncio.sleep(0.2)
        raise AssertionError(f"not within {PATIENCE_S} s; last: {last}")


@contextlib.asynccontextmanager
async def prometheus(folder: Path, config: str) -> AsyncIterator[Prometheus]:
    """Run one with a configuration while entered."""
    assert PROMETHEUS is not None
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            PROMETHEUS, f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}",
            "--storage.tsdb.retention.time=1h",
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), PATIENCE_S)
