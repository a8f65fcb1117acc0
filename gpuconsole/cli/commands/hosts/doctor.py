"""This machine: what the console needs of it."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.extras import install_command
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document, print_findings

if TYPE_CHECKING:
    from gpuconsole.session.doctor import Terminal


@click.command()
@common
def doctor() -> int:
    """Test this machine: terminal, SSH keys, sandbox, Paddle, files.

    Nothing is changed and no host is asked; `gpuconsole check` tests the hosts. Exit code 1 where
    something fails; a warning is no failure.
    """
    import asyncio

    from gpuconsole.session.doctor import Machine, as_document, examine

    machine = Machine(
        os.environ, _terminal(), options().inventory, options().state, install_command
    )
    findings = asyncio.run(examine(machine))
    document = as_document(findings)
    if options().as_json:
        print_document(document)
    else:
        print_findings(findings)
    return 0 if document["ok"] else 1


def _terminal() -> Terminal:
    from gpuconsole.session.doctor import Terminal

    columns, rows = shutil.get_terminal_size()
    return Terminal(
        os.environ.get("TERM", ""), columns, rows, sys.stdout.encoding, sys.stdout.isatty()
    )
