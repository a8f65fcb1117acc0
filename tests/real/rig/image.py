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
PROGRAMS = "/opt/lab/programs"
BARE_IMAGE, OLD_IMAGE = "lab/bare:1", "lab/old:1"
PYTHON_2 = """#!/bin/sh
echo "Unknown option: -I" >&2
exit 2
"""
"""What Python 2 does with the options that we give."""


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
    programs: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Make the image on an engine and return its name. It has sh, coreutils, python and Paddle;
    `modules` are put on Python's path before Paddle, by their file names, and folders of this
    machine with further `packages` behind it. `programs` lie in `PROGRAMS`: the text of a script
    (`#!`), or what a link leads to."""
    repository, _, tag = name.rpartition(":")
    changes = [
        "ENV PATH=/opt/lab/bin:/usr/local/bin:/usr/bin:/bin",
        f'ENV PYTHONPATH="{":".join(["/opt/lab/python", str(_packages()), *map(str, packages)])}"',
        f'ENV LAB_STANDS_ON="{":".join([*_folders(), *map(str, packages)])}"',
        *(f'ENV {key}="{value}"' for key, value in env.items()),
    ]
    lab.client().import_image_from_data(
        _skeleton(modules, programs), repository=repository, tag=tag, changes=changes
    )
    return name


def without_python(lab: LabDocker) -> str:
    """Make an image that has a shell and no Python; return its name."""
    return paddle_image(lab, BARE_IMAGE, env={"PATH": "/nowhere", "SHELL": "/bin/bash"})


def with_python_2(lab: LabDocker, *names: str, name: str = OLD_IMAGE) -> str:
    """Make an image that has a shell and Python 2 alone, by these names: the first is the program,
    the others are links to it. Return the image's name."""
    programs = {names[0]: PYTHON_2, **dict.fromkeys(names[1:], names[0])}
    env = {"PATH": PROGRAMS, "SHELL": "/bin/bash"}
    return paddle_image(lab, name, env=env, programs=programs)


def _packages() -> Path:
    found = importlib.util.find_spec("paddle") or importlib.util.find_spec("pytest")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).resolve().parents[1]


def _folders() -> list[str]:
    """Return what must be bound in: `/usr`, and Python and its packages where they lie outside."""
    outside = [sys.base_prefix, str(_packages())]
    return ["/usr", *(folder for folder in outside if not folder.startswith("/usr/"))]


def _skeleton(modules: Mapping[str, str], programs: Mapping[str, str]) -> bytes:
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
        _add(tar, PROGRAMS.lstrip("/"), tarfile.DIRTYPE)
        for name, text in programs.items():
            path = f"{PROGRAMS.lstrip('/')}/{name}"
            if text.startswith("#!"):
                _file(tar, path, text.encode(), 0o755)
            else:
                _add(tar, path, tarfile.SYMTYPE, link=text)
        _file(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _file(tar, "etc/group", b"root:x:0:\nvideo:x:44:\n")
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, kind: bytes, link: str = "", mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, mode, link
    tar.addfile(entry)


def _file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
