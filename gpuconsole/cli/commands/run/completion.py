"""`completion`: what a shell reads to complete commands, options, jobs and hosts."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
MARK = "# gpuconsole completion"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Make your shell read it from its next start on.")
@common
def completion(shell: str | None, install: bool) -> int:
    """Print a script for completion in your shell, or install it.

    Completes commands, options, job ids, sweeps, incidents and hosts, from files on this machine.
    --install takes your login shell where none is named. Or run it once by hand:

    \b
    bash  eval "$(gpuconsole completion bash)"
    zsh   eval "$(gpuconsole completion zsh)"     (after compinit)
    fish  gpuconsole completion fish | source
    """
    chosen = shell or (_login_shell() if install else None)
    if chosen is None:
        raise UsageError(
            "No shell named",
            "Name the shell to complete in.",
            msg("One of: {shells}.", shells=", ".join(SHELLS)),
        )
    script = _script(chosen)
    path = _installed(chosen, script) if install else None
    if options().as_json:
        written = {"installed": str(path)} if path else {}
        print_document({"shell": chosen, "script": script, **written})
    elif path:
        note(msg("{path} has it; start a new shell.", path=path))
    else:
        print(script)
    return 0


def _login_shell() -> str | None:
    name = Path(os.environ.get("SHELL", "")).name
    return name if name in SHELLS else None


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root()
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    return completion_class(root.command, {}, "gpuconsole", "_GPUCONSOLE_COMPLETE").source()


def _installed(shell: str, script: str) -> Path:
    """Make a shell read completion when it starts; return the file that was written. Doing it twice
    changes nothing."""
    home = Path.home()
    try:
        if shell == "fish":
            config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
            path = config / "fish/completions/gpuconsole.fish"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(script, "utf-8")
            return path
        folder = Path(os.environ.get("ZDOTDIR") or home) if shell == "zsh" else home
        path = folder / f".{shell}rc"
        text = path.read_text("utf-8") if path.exists() else ""
        if MARK not in text:
            with path.open("a", encoding="utf-8") as file:
                file.write(("" if text.endswith("\n") or not text else "\n") + _lines(shell))
        return path
    except (OSError, UnicodeError) as error:
        raise UsageError(
            "Completion was not installed",
            str(error),
            msg("`gpuconsole completion {shell}` prints what belongs there.", shell=shell),
        ) from error


def _lines(shell: str) -> str:
    """Return what a start-up file says; where the program is gone, nothing happens."""
    ready = "autoload -Uz compinit && compinit\n  " if shell == "zsh" else ""
    return (
        f"{MARK}\nif command -v gpuconsole >/dev/null; then\n"
        f'  {ready}eval "$(gpuconsole completion {shell})"\nfi\n'
    )
