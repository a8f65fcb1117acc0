"""`init`: a first inventory from the ssh config."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, say
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import ReadOnlyError, UsageError


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
    text, parsed = _first_inventory(ssh_config)
    hosts = [host.name for host in parse_inventory(text, str(target)).hosts] if parsed else []
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
