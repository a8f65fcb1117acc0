"""`metrics`: the lab for Prometheus."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.interrupts import stopping
from gpuconsole.cli.metrics_server import Scraping, token_options
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

LISTEN = "127.0.0.1:9765"


@click.command()
@click.option(
    "--listen", default=LISTEN, show_default=True, metavar="HOST:PORT",
    help="Where to answer; port 0 takes any that is free.",
)  # fmt: skip
@token_options
@click.option("--demo", is_flag=True, help="Serve metrics of the simulated lab.")
@common
def metrics(
    listen: str,
    token_file: Path | None,
    token_age: float | None,
    job_labels: bool,
    demo: bool,
) -> int:
    """Serve metrics of hosts, queue and predictions to Prometheus.

    On loopback every user of this machine may read them unless there is a token; any other address
    needs one. It is read-only: it starts no jobs. `gpuconsole dispatch --metrics` does both with
    one set of links to the hosts.
    """
    scraping = Scraping(listen, token_file, token_age, job_labels)
    if demo:
        return _demo(scraping)
    options().read_only = True

    async def work(session: Session) -> int:
        return await _serve(session, scraping)

    return drive(work)


def _demo(scraping: Scraping) -> int:
    from gpuconsole.cli.commands.run.demo import Laboratory, _fill

    async def run(lab: Laboratory) -> int:
        await _fill(lab)
        async with lab.session(dispatching=True) as session:
            return await _serve(session, scraping)

    options().read_only = False
    with tempfile.TemporaryDirectory(prefix="gpuconsole-metrics-") as folder:
        return asyncio.run(run(Laboratory(6, 7, 1.0, Path(folder))))


async def _serve(session: Session, scraping: Scraping) -> int:
    stop = asyncio.Event()
    with stopping(stop):
        async with scraping.serving(session) as address:
            if scraping.guarded:
                note("Serving metrics to holders of the token; stop with SIGTERM or Ctrl-C.")
            else:
                note("Serving metrics; stop with SIGTERM or Ctrl-C.")
            if options().as_json:
                print_document({"address": address, "token": scraping.guarded})
            else:
                print(address)
            sys.stdout.flush()
            await stop.wait()
    return 0
