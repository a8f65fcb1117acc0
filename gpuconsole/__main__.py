"""`python -m gpuconsole`."""

from gpuconsole.cli import main

main()
