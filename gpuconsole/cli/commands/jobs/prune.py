"""`prune`: what ended jobs left on hosts, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.text import clean
from gpuconsole.errors import UnreachableError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@common
def prune() -> int:
    """Remove what ended jobs left on reachable hosts; results stay."""

    async def work(session: Session) -> dict[str, dict[str, int]]:
        done = await session.prune()
        return {
            host: {
                "containers": pruned.containers,
                "leases": pruned.leases,
                "results_kept": pruned.results_kept,
                "results_removed": pruned.results_removed,
            }
            for host, pruned in done.items()
        }

    hosts = drive(work)
    if not hosts:
        raise UnreachableError(
            "No host could be reached",
            "Nothing was removed.",
            "gpuconsole check says what is wrong.",
        )
    if options().as_json:
        print_document({"hosts": hosts})
        return 0
    for host, counts in hosts.items():
        print(clean(f"{host}: " + ", ".join(f"{n} {what}" for what, n in counts.items())))
    return 0
