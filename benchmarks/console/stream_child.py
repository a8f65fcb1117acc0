"""The console over an inventory, in the terminal it was started in, telling how often it paints and
how many hosts are up.

Started by `benchmarks.console` in a pseudo-terminal; session, links and drawing are the real ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.console.tally import count_paints, tally
from gpuconsole.session.factory import open_session
from gpuconsole.tui import run_console


def main() -> None:
    """Run the console until it is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--tally", type=Path, required=True, help="file to count paints in")
    options = parser.parse_args()
    with tally(options.tally) as counted:
        count_paints(counted)
        run_console(open_session(options.inventory, options.state))


if __name__ == "__main__":
    main()
