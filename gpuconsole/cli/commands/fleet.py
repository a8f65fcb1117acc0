"""The hosts: a picture of them, a test of each, and a first inventory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import completing
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, print_findings, say, show, tell
from gpuconsole.cli.sessions import drive
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.wording import joined, msg, name, sentences
from gpuconsole.errors import ReadOnlyError, UsageError
from gpuconsole.session.export.status import status_document

if TYPE_CHECKING:
    from gpuconsole.remote.inventory import Inventory
    from gpuconsole.remote.links.host_keys import OfferedKey
    from gpuconsole.session.session import Session

_PICTURE_WAIT_S = 5.0


@click.command()
@common
def status() -> int:
    """Show one picture of the fleet."""

    async def work(session: Session) -> tuple[FleetSnapshot, float]:
        return await session.first_frames(_PICTURE_WAIT_S), session.now()

    snapshot, now = drive(work)
    if options().as_json:
        print_document(status_document(snapshot, now))
    else:
        from gpuconsole.cli import views

        show(*views.fleet(snapshot, now))
    return 0


@click.command()
@click.argument("hosts", nargs=-1, shell_complete=completing.hosts)
@click.option(
    "--trust",
    metavar="HOST",
    shell_complete=completing.hosts,
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


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write; else your own inventory, or the file of --inventory.",
)
@click.option(
    "--ssh-config",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("~/.ssh/config"),
    show_default=True,
    metavar="FILE",
    help="What to read.",
)
@click.option("--force", is_flag=True, help="Replace an existing inventory.")
@common
def init(output: Path | None, ssh_config: Path, force: bool) -> int:
    """Write an inventory from your ssh config, or one to fill in."""
    from gpuconsole.core.util.user_dirs import inventory_path
    from gpuconsole.remote.inventory import parse_inventory
    from gpuconsole.remote.ssh_config import write_inventory

    if options().read_only:
        raise ReadOnlyError(
            "Read-only", "init writes a file, and --read-only forbids it.", "Leave it out."
        )
    target = (output or options().inventory or inventory_path()).expanduser()
    text, found = _first_inventory(ssh_config)
    hosts = [host.name for host in parse_inventory(text, str(target)).hosts] if found else []
    write_inventory(text, target, force=force)
    if options().as_json:
        print_document({"inventory": str(target), "hosts": hosts})
        return 0
    print(target)
    if hosts:
        count = "1 host." if len(hosts) == 1 else msg("{n} hosts.", n=len(hosts))
        note(sentences(count, "Remove what has no GPUs, then run: gpuconsole check"))
    else:
        note("No host yet: remove the # before the example and name yours, then run: gpuconsole"
             " check")  # fmt: skip
    return 0


def _first_inventory(ssh_config: Path) -> tuple[str, bool]:
    """Return an inventory of the hosts that the ssh config names, or else of the one that is asked
    for, or a template to fill in; and whether there is a host in it."""
    from gpuconsole.remote.ssh_config import inventory_text, own_config, read_aliases, template_text

    path = ssh_config.expanduser()
    if path.exists() or path != own_config():
        aliases = read_aliases(path)
        try:
            return inventory_text(aliases, str(ssh_config)), True
        except UsageError as error:
            note(error.message)
    else:
        note(msg("There is no {path}.", path=ssh_config))
    if options().as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return template_text(), False
    first = click.prompt(
        say("First host, as you would give it to ssh (enter for a template)"),
        default="", show_default=False, err=True,
    ).strip()  # fmt: skip
    return template_text(first), bool(first)
