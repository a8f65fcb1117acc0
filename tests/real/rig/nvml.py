"""The stand-in driver library: building it, and changing what it says while it is in use."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.real.rig.patience import PATIENCE_S

SOURCE = Path(__file__).with_name("fake_nvml.c")
NAME = "libnvidia-ml.so.1"


def build(folder: Path) -> Path:
    """Put `libnvidia-ml.so.1` into the folder and return its path."""
    library = folder / NAME
    library.write_bytes(_compiled())
    library.chmod(0o755)
    return library


@cache
def _compiled() -> bytes:
    """Return the compiled library, which is the same for every lab of a process."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / NAME
        command = ["gcc", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
        command += [f"-Wl,-soname,{NAME}", "-o", str(library), str(SOURCE), "-lpthread"]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
        return library.read_bytes()


def why_not() -> str:
    """Return why the library cannot be built here, or ""."""
    return "" if shutil.which("gcc") else "gcc is not installed"


def uuid(host: int, index: int) -> str:
    """Return the UUID that the lab gives to a device of its nth host."""
    return f"GPU-00000000-0000-4000-8{host:03d}-{index:012d}"


class DriverState:
    """The file of `key=value` lines that the library reads; each change replaces it at once."""

    def __init__(self, path: Path, **fields: object) -> None:
        self.path = path
        self._fields: dict[str, str] = {}
        self.set(**fields)

    def set(self, changes: dict[str, object] | None = None, **fields: object) -> None:
        """Set fields of all devices (`util=5`) or of one (`{"1.util": 5}`)."""
        for key, value in {**(changes or {}), **fields}.items():
            self._fields[key] = str(value)
        self._write()

    def clear(self, *keys: str) -> None:
        """Forget fields, so that their defaults hold again."""
        for key in keys:
            self._fields.pop(key, None)
        self._write()

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text("".join(f"{key}={value}\n" for key, value in self._fields.items()))
        new.chmod(0o644)
        os.replace(new, self.path)
