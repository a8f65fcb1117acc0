"""What the analysis has for the names of a script, to hold against Python itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuconsole.preflight.interpreter.frontend import source
from gpuconsole.preflight.interpreter.libraries.registry import library
from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting


def modelled(path: Path, text: str) -> dict[str, Any]:
    """Write a script and return the names that the analysis has at its end."""
    path.write_text(text)
    run = Run(Setting("cpu"))
    machine = Interpreter(run, path, path.parent, library(run))
    return machine.imports.run_script(source.read(path)).names
