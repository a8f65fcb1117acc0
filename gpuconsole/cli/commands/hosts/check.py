"""`check`: each host tested step by step."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, print_findings, say, tell
from gpuconsole.core.wording import joined, msg, name
from gpuconsole.errors import ReadOnlyError, UsageError

if TYPE_CHECKING:
    from gpuconsole.remote.inventory import Inventory
    from gpuconsole.remote.links.host_keys import OfferedKey


@click.command()
@click.argument("hosts", nargs=-1, shell_complete=shell_completion.hosts)
@click.option(
    "--trust",
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="Show the unknown key of a host and ask whether to trust it.",
)
@click.option("--yes", is_flag=True, help="With --trust: do not ask.")
@common
def check(hosts: tuple[str, ...], trust: str | None, yes: bool) -> int:
    """Test every host, or those named, and say what to fix."""
    import asyncio

    from gpuconsole.config import combined, load_settings
    from gpuconsole.remote.check import check as check_hosts
    from gpuconsole.remote.inventory import open_inventory

    lab = open_inventory(options().inventory, os.environ)
    if trust is not None:
        return _trust(lab, trust, yes)
    settings = combined(load_settings(), lab.lab)
    reports = asyncio.run(check_hosts(lab, hosts, settings=settings))
    whole = all(report.ok for report in reports)
    if options().as_json:
        print_document({"ok": whole, "hosts": [report.as_json() for report in reports]})
        return 0 if whole else 1
    for report in reports:
        state = "fine" if report.ok else "something is wrong"
        tell(joined(": ", (name(report.host), state)))
        print_findings(report.findings)
    return 0 if whole else 1


def _trust(lab: Inventory, host: str, yes: bool) -> int:
    """Add a host's keys to known_hosts once a person has seen their fingerprints."""
    import asyncio

    from gpuconsole.remote.check import trust_host

    if options().read_only:
        raise ReadOnlyError(
            "Read-only", "--trust writes a file, and --read-only forbids it.", "Leave it out."
        )

    def confirm(key: OfferedKey) -> bool:
        said = msg(
            "{host} shows an unknown {kind} key, {key}.",
            host=key.pattern, kind=key.algorithm, key=key.fingerprint,
        )  # fmt: skip
        note(said)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                "No terminal to ask in", said, "Compare the fingerprint, then add --yes."
            )
        return click.confirm(say("Is it the host's own?"), err=True)

    added = asyncio.run(trust_host(lab, host, confirm))
    if options().as_json:
        keys = [{"host": key.pattern, "fingerprint": key.fingerprint} for key in added]
        print_document({"host": host, "trusted": keys})
    elif not added:
        note(msg("The key of {host} is known already.", host=host))
    return 0
