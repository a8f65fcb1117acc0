"""What a scrape of simulated labs costs: lines, bytes and processor time.

    python -m benchmarks.metrics [--hosts 6 100 1000]

Needs the extra `metrics`. A real scrape over loopback, once plain and once compressed; the time is
that of this process, which both serves and asks, for the compressed one.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import cast

import aiohttp

from gpuconsole.session.metrics.collector import Metrics
from gpuconsole.session.metrics.console import prediction_facts
from gpuconsole.session.metrics.model import Picture
from gpuconsole.session.metrics.queue import Tally
from gpuconsole.simulated_lab import SimulatedHosts
from gpuconsole.web.metrics import Address, exposed

NOW = 1_800_000_000.0
KIB = 1024


class OnePicture:
    """Stands for a session's metrics: one lab at one moment."""

    def __init__(self, hosts: int) -> None:
        snapshot = SimulatedHosts(hosts, clock=lambda: NOW).snapshot()
        facts = Tally("weighted").facts((), NOW)
        self.now = Picture(NOW, snapshot, facts, prediction_facts(()))

    def picture(self) -> Picture:
        """Return that moment."""
        return self.now


async def scraped(hosts: int) -> str:
    """Return a row of the page's table."""
    pictures = OnePicture(hosts)
    devices = sum(len(host.devices) for host in pictures.now.snapshot.hosts)
    here = Address("127.0.0.1", 0)
    async with (
        exposed(cast("Metrics", pictures), here, None) as address,
        aiohttp.ClientSession(auto_decompress=False) as client,
    ):
        bodies = []
        spent = 0.0
        for encoding in ("identity", "gzip"):
            start = time.process_time()
            async with client.get(address.url, headers={"Accept-Encoding": encoding}) as answer:
                bodies.append(await answer.read())
            spent = time.process_time() - start
    plain, packed = bodies
    lines = plain.count(b"\n")
    sizes = f"{len(plain) / KIB:,.0f} KiB | {len(packed) / KIB:,.0f} KiB"
    return f"| {hosts} | {devices} | {lines:,} | {sizes} | {spent * 1000:,.0f} ms |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, nargs="+", default=[6, 100, 1000])
    print("| hosts | devices | lines | text | compressed | processor time |")
    for hosts in parser.parse_args().hosts:
        print(asyncio.run(scraped(hosts)), flush=True)


if __name__ == "__main__":
    main()
