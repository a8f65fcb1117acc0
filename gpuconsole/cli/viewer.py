"""The console of one viewer of `gpuconsole serve`; not for people to start."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuconsole.cli.output import print_error
from gpuconsole.errors import ConsoleError


def main(words: list[str]) -> int:
    """Open a console on a shared session: its socket, the state folder, and `look` or `write`."""
    path, state, mode = words
    from gpuconsole.session.viewers.client import open_shared
    from gpuconsole.session.viewers.server import greeting_of
    from gpuconsole.tui import run_console

    try:
        greeting = greeting_of(Path(path))
        session = open_shared(Path(path), greeting, Path(state), read_only=mode != "write")
    except ConsoleError as error:
        print_error(error, as_json=False)
        return error.exit_code
    settings = greeting.settings
    return run_console(
        session, site=greeting.site, theme=settings.theme, keys=settings.keys,
        symbols=settings.symbols, language=settings.language,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
