"""The NVIDIA driver's stand-in: built with gcc, changed by tests while it is in use."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")
STATE_VARIABLE = "FAKE_NVML_STATE"


def can_build() -> bool:
    """Tell whether there is a C compiler."""
    return shutil.which("gcc") is not None


def build(folder: Path) -> Path:
    """Compile the stand-in into `folder` and return the folder, for LD_LIBRARY_PATH."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-fvisibility=hidden",
         "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(SOURCE), "-lpthread"],
        check=True,
    )  # fmt: skip
    return folder


class FakeNvml:
    """The state of one host's driver stand-in."""

    def __init__(self, library: Path, state: Path, devices: int = 2) -> None:
        self.library = library
        self.state = state
        self.values: dict[str, object] = {"count": devices}
        for index in range(devices):
            self.values[f"{index}.uuid"] = f"GPU-{state.parent.name}-{index}"
        self._write()

    @property
    def env(self) -> dict[str, str]:
        """Environment under which a program finds the stand-in."""
        return {"LD_LIBRARY_PATH": str(self.library), STATE_VARIABLE: str(self.state)}

    def set(self, values: dict[str, object]) -> None:
        """Change keys (`"0.used": 1024`); None removes one. Seen by the next call."""
        for key, value in values.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
        self._write()

    def uuid(self, index: int) -> str:
        """Return the UUID of a device."""
        return str(self.values[f"{index}.uuid"])

    def _write(self) -> None:
        text = "".join(f"{key}={value}\n" for key, value in self.values.items())
        fresh = self.state.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, self.state)
