"""`completion`: what a shell reads to complete commands, options, jobs and hosts."""

from __future__ import annotations

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@common
def completion(shell: str) -> int:
    """Print a script for completion in your shell.

    Completes commands, options, job ids, sweeps, incidents and hosts, from files on this machine.
    Run it once, or in the shell's start-up file:

    \b
    bash  eval "$(gpuconsole completion bash)"
    zsh   eval "$(gpuconsole completion zsh)"     (after compinit)
    fish  gpuconsole completion fish | source
    """
    from click.shell_completion import get_completion_class

    context = click.get_current_context()
    root = context.find_root()
    made = get_completion_class(shell)
    assert made is not None
    script = made(root.command, {}, "gpuconsole", "_GPUCONSOLE_COMPLETE").source()
    if options().as_json:
        print_document({"shell": shell, "script": script})
    else:
        print(script)
    return 0
