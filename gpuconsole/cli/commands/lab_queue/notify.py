"""How the user is notified of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.wording import joined, msg

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.option(
    "--test", "try_it", is_flag=True, help="Send a message now, to the first receiver that works."
)
@common
def notify(try_it: bool) -> int:
    """Show how you are notified about your jobs, or send a test message.

    The receivers are listed under `notify:` in your settings. With a lab's queue the service sends,
    within the lab's policy. Only the host of an address is shown, as the address is often a secret.
    """

    async def work(session: Session) -> tuple[list[str], list[str], str, list[str]]:
        from gpuconsole.session.messages.delivery import named

        wanted = session.settings.notify
        way, failed = await session.send_test_message() if try_it else ("", [])
        return [named(way_) for way_ in wanted.ways], list(wanted.about), way, failed

    ways, about, way, failed = drive(work, fleet=False)
    if options().as_json:
        print_document({"ways": ways, "about": about, "sent_by": way or None, "failed": failed})
        return 0
    if not ways:
        note("You are not notified. Name receivers under `notify: {ways: ...}` in your settings.")
        return 0
    for way_ in ways:
        print(way_)
    note(msg("You are notified about: {what}.", what=", ".join(about)))
    for error in failed:
        note(joined(": ", ("Failed", error)))
    if way:
        note(msg("Sent by {way}.", way=way))
    return 0
