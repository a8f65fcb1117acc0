"""What the analysis has for the names of a script, to hold against Python itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuconsole.preflight.scan import source
from gpuconsole.preflight.scan.builtin import builtins
from gpuconsole.preflight.scan.interp import Interpreter
from gpuconsole.preflight.scan.library import library
from gpuconsole.preflight.scan.run import Run, Setting


def modelled(path: Path, text: str) -> dict[str, Any]:
    """Write a script and return the names that the analysis has at its end."""
    path.write_text(text)
    run = Run(Setting("cpu"))
    machine = Interpreter(run, path, path.parent, library(run))
    machine.builtins = builtins(machine)
    run.call, run.calls = machine.call, machine
    return machine.run_script(source.read(path)).names
