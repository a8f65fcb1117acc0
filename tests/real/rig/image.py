"""An image that runs real Paddle on CPU, made in a tenth of a second without a registry.

The image itself holds folders and links only. It stands on this machine's `/usr`, Python and
Paddle, which the lab's runtime (see `docker.py`) binds into it read-only because the image's
environment asks for it. A container made from it needs nothing special.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.real.rig.docker import LabDocker

PADDLE_IMAGE = "lab/paddle:1"


def why_no_paddle() -> str:
    """Return why the image cannot run Paddle, or ""."""
    return "" if importlib.util.find_spec("paddle") else "paddlepaddle is not installed"


def paddle_image(
    lab: LabDocker,
    name: str = PADDLE_IMAGE,
    *,
    modules: Mapping[str, str] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    packages: Sequence[Path] = (),
) -> str:
    """Make the image on an engine and return its name. It has sh, coreutils, python and Paddle;
    `modules` are put on Python's path before Paddle, by their file names, and folders of this
    machine with further `packages` behind it."""
    repository, _, tag = name.rpartition(":")
    changes = [
        "ENV PATH=/opt/lab/bin:/usr/local/bin:/usr/bin:/bin",
        f'ENV PYTHONPATH="{":".join(["/opt/lab/python", str(_packages()), *map(str, packages)])}"',
        f'ENV LAB_STANDS_ON="{":".join([*_folders(), *map(str, packages)])}"',
        *(f'ENV {key}="{value}"' for key, value in env.items()),
    ]
    lab.client().import_image_from_data(
        _skeleton(modules), repository=repository, tag=tag, changes=changes
    )
    return name


def _packages() -> Path:
    found = importlib.util.find_spec("paddle") or importlib.util.find_spec("pytest")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).resolve().parents[1]


def _folders() -> list[str]:
    """Return what must be bound in: `/usr`, and Python and its packages where they lie outside."""
    outside = [sys.base_prefix, str(_packages())]
    return ["/usr", *(folder for folder in outside if not folder.startswith("/usr/"))]


def _skeleton(modules: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        # A folder, not a link into /usr: Docker binds its own init below it.
        for name in ("sbin", "usr", "etc", "proc", "sys", "dev", "root", "var/tmp", "opt/lab/bin"):
            _add(tar, name, tarfile.DIRTYPE)
        _add(tar, "tmp", tarfile.DIRTYPE, mode=0o1777)
        for name in ("bin", "lib", "lib64"):
            _add(tar, name, tarfile.SYMTYPE, link=f"usr/{name}")
        python = os.path.realpath(sys.executable)
        for name in ("python", "python3"):
            _add(tar, f"opt/lab/bin/{name}", tarfile.SYMTYPE, link=python)
        _add(tar, "opt/lab/python", tarfile.DIRTYPE)
        for name, text in modules.items():
            _file(tar, f"opt/lab/python/{name}", text.encode())
        _file(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _file(tar, "etc/group", b"root:x:0:\nvideo:x:44:\n")
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, kind: bytes, link: str = "", mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, mode, link
    tar.addfile(entry)


def _file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))
