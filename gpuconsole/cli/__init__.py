"""The commands. Everything heavy is imported by the command that needs it."""

from gpuconsole.cli.entry import main

__all__ = ["main"]
