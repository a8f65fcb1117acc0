"""What files hold that reading does not open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import SomeInt, Unknown
from gpuconsole.preflight.interpreter.frontend import source
from gpuconsole.preflight.interpreter.libraries.registry import library
from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting

HELD = """
import struct
import cv2
import yaml
import scipy.io as sio
from scipy.io import loadmat
cv2.ocl.setUseOpenCL(False)
yaml.add_representer(dict, lambda dumper, data: dumper.represent_dict(data))
with open("x.bin", "rb") as file:
    data = file.read()
magic, rows = struct.unpack_from(">II", data, 0)
offset = struct.calcsize(">II")
pixels = len(struct.unpack_from(f">{4 * 3}B", data, offset))
(name,) = struct.unpack("4s", data[:4])
share = struct.unpack("<d", data[:8])[0]
endless = struct.unpack_from(">1000000000B", data)
wrong = struct.calcsize("what")
x = loadmat("a.mat")["x"]
y = sio.loadmat("b.mat", squeeze_me=True)["y"].astype("float32")[:, 0:1]
sio.savemat("c.mat", {"a": 1})
"""


def read_with_findings(path: Path, text: str) -> tuple[dict[str, Any], Run]:
    path.write_text(text)
    run = Run(Setting("cpu"))
    machine = Interpreter(run, path, path.parent, library(run))
    return machine.imports.run_script(source.read(path)).names, run


def test_what_files_hold_is_unknown_and_how_they_are_packed_is_not(tmp_path: Path) -> None:
    names, run = read_with_findings(tmp_path / "held.py", HELD)
    assert isinstance(names["magic"], SomeInt)
    assert isinstance(names["rows"], SomeInt)
    assert (names["offset"], names["pixels"]) == (8, 12)
    for name in ("name", "share", "endless", "wrong", "x", "y"):
        assert isinstance(names[name], Unknown), name
    assert not run.findings.faults
    # Neither `cv2.ocl` nor a way to write YAML is missing.
    reasons = [unknown.reason for unknown in run.findings.unknowns.values()]
    assert not [reason for reason in reasons if "not known to the analysis" in reason]
