"""Forward: a port of a job's container, reached from this machine."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.interrupts import until_interrupted
from gpuconsole.cli.options import common, options, rank_option
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.session.ports.forwards import Forward, ForwardInfo
    from gpuconsole.session.session import Session

PORT = click.IntRange(1, 65535)
_LOOK_S = 0.5


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs("running"))
@click.argument("port", type=PORT, required=False)
@click.option(
    "--local-port", type=PORT, metavar="N", help="Port of this machine; else PORT, or a free one."
)
@rank_option
@common
def forward(job: str, port: int | None, local_port: int | None, rank: int) -> int:
    """Reach a port of a running job or a service from this machine.

    It may be TensorBoard's, a web page's or that of an API.

    A port of this machine, on 127.0.0.1 alone, leads through SSH and the host's engine into the
    job's container; nothing is published on the host, and the container's network may be `none`.
    Of a service, connections are spread over its healthy replicas; PORT is its own if left out.
    Prints the address, and runs until Ctrl-C or until the job ends.
    """

    async def work(session: Session) -> str:
        info = await session.forward(job, port or 0, local_port=local_port or 0, rank=rank)
        forward_ = session.forwards.at(info.local_port)
        _print(info, wanted=local_port)
        await until_interrupted(_until_over(forward_))
        return forward_.cause

    if cause := drive(work):
        note(cause)
    return 0


async def _until_over(forward: Forward) -> None:
    """Wait for a forward's end, and tell once why a connection came to nothing."""
    reported = ""
    while not forward.ended.is_set():
        trouble = forward.info.trouble
        if trouble and trouble != reported:
            note(trouble)
        reported = trouble
        await asyncio.sleep(_LOOK_S)


def _print(info: ForwardInfo, wanted: int | None) -> None:
    if options().as_json:
        print_document(
            {"job": info.job, "port": info.port, "local_port": info.local_port, "url": info.url}
        )
    else:
        print(info.url)
        if wanted is None and info.local_port != info.port:
            note(msg("Port {port} is taken here; this one is free.", port=info.port))
        note("Ctrl-C closes it.")
    sys.stdout.flush()
