"""A Dockerfile for a script, in layers that change the less the earlier they come.

The base brings Paddle; packages have a layer of their own, so that a change of code does not
install them again; the code comes last and belongs to somebody who is not root.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from gpuconsole.core.images import floating_note, parse_reference
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

USER = "1000:1000"
HOME = "/home/runner"
REQUIREMENTS = "requirements.txt"
FILE_LIMIT = 4 * 2**20
"""Bytes of a script that are read."""
FILES_LIMIT = 500
"""Modules of a project that are followed."""
_BROUGHT = ("paddle",)
"""Modules of the base image. Installed again they would replace a build for the lab's devices."""
_PADDLE_PACKAGE = re.compile(r"paddlepaddle(?![\w.])(?:-gpu|-xpu|-rocm|-npu)?", re.IGNORECASE)
_PACKAGE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A Dockerfile, and what a person should know before building it."""

    text: str
    packages: tuple[str, ...]
    """What the script's imports need beside the base."""
    notes: tuple[str, ...] = ()


def dockerfile(script: Path, project: Path, base: str) -> Dockerfile:
    """Generate a Dockerfile with the build context `project`; nothing is run, nothing is written.

    UsageError for a script that is not there, is no Python, or lies outside the project.
    """
    parse_reference(base)
    place = _inside(script, project)
    requirements = _requirements(project)
    needed = packages_of(imported(script, project))
    if requirements is None:
        install = _install_named(needed)
        notes = ["Versions of packages are not known: write them down in requirements.txt."]
        notes = notes if needed else []
    else:
        install = _INSTALL_LISTED
        notes = _doubts(requirements, needed)
    floating = floating_note(base)
    text = "\n".join(
        (
            f"FROM {base}",
            "",
            # A name, as the number in USER has none in the base.
            f"ENV HOME={HOME} USER=runner PYTHONUNBUFFERED=1",
            f'RUN mkdir -p "{HOME}" /workspace && chown {USER} "{HOME}" /workspace',
            *install,
            "",
            "# The code changes most often: it comes last.",
            "WORKDIR /workspace",
            f"USER {USER}",
            f"COPY --chown={USER} . /workspace",
            f"CMD {json.dumps(['python', place.as_posix()])}",
            "",
        )
    )
    return Dockerfile(text, tuple(needed), tuple(filter(None, (floating, *notes))))


_INSTALL_LISTED = (
    "",
    "# A layer of their own: installed again only when the list changes.",
    f"COPY {REQUIREMENTS} /tmp/{REQUIREMENTS}",
    f"RUN python -m pip install --no-cache-dir -r /tmp/{REQUIREMENTS}",
)


def _install_named(packages: Iterable[str]) -> tuple[str, ...]:
    names = " ".join(packages)
    if not names:
        return ()
    return (
        "",
        "# Found from the script's imports.",
        f"RUN python -m pip install --no-cache-dir {names}",
    )


def imported(script: Path, project: Path) -> set[str]:
    """Return the modules that a script imports, and those of its project's that it imports,
    without the project's own and Python's; the first part of each name."""
    roots = (script.parent, project)
    todo, seen, modules = [script], {script}, set()
    while todo and len(seen) <= FILES_LIMIT:
        for name in _imports(todo.pop(), must=len(seen) == 1):
            own = _own_files(name, roots)
            if not own:
                modules.add(name.partition(".")[0])
            todo += [path for path in own if path not in seen]
            seen.update(own)
    return {name for name in modules if name not in sys.stdlib_module_names}


def packages_of(modules: Iterable[str]) -> list[str]:
    """Return the packages that bring modules, without what the base brings."""
    packages = _names()
    return sorted(
        {packages.get(name, name) for name in modules if name not in _BROUGHT}, key=str.lower
    )


@cache
def _names() -> Mapping[str, str]:
    text = (resources.files("gpuconsole") / "data" / "import-names.csv").read_text("utf-8")
    table = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["module"]: row["package"] for row in table}


def _inside(script: Path, project: Path) -> Path:
    if not script.is_file():
        raise UsageError(
            "No such script", msg("{path} is not a file.", path=script), "Check the path."
        )
    try:
        return script.relative_to(project)
    except ValueError:
        raise UsageError(
            "Script is outside the project",
            msg(
                "{script} does not lie in {project}, and a build sees nothing else.",
                script=script,
                project=project,
            ),
            "Name the project's folder with --project DIR.",
        ) from None


def _imports(path: Path, *, must: bool) -> list[str]:
    """Return the whole names that a file imports; none of one that cannot be read, unless it
    `must` be."""
    try:
        with path.open("rb") as file:
            tree = ast.parse(file.read(FILE_LIMIT))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if must:
            raise UsageError(
                "Script cannot be read",
                msg("{path}: {error}", path=path, error=error),
                "Only Python can be analysed.",
            ) from None
        return []
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _own_files(name: str, roots: Iterable[Path]) -> list[Path]:
    """Return the project's files that an import reads; [] where the module is not its own."""
    parts = [part for part in name.split(".") if part.isidentifier()]
    for root in roots:
        paths = [root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
        files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py")]
        own_files = [file for file in files if file.is_file()]
        if own_files or (parts and (root / parts[0]).is_dir()):
            return own_files or [root / parts[0]]
    return []


def _requirements(project: Path) -> str | None:
    try:
        return (project / REQUIREMENTS).read_text("utf-8", "replace")[:FILE_LIMIT]
    except OSError:
        return None


def _doubts(requirements: str, needed: Iterable[str]) -> list[str]:
    lines = [line.partition("#")[0].strip() for line in requirements.splitlines()]
    listed = {_plain(match[1]) for line in lines if (match := _PACKAGE.match(line))}
    missing = [name for name in needed if _plain(name) not in listed]
    notes = []
    if missing:
        notes.append(f"{REQUIREMENTS} does not name what the script imports: {', '.join(missing)}.")
    if any(_PADDLE_PACKAGE.match(line) for line in lines):
        notes.append(
            f"{REQUIREMENTS} names Paddle itself: it would replace the base's, which is built for"
            " the lab's devices. Take that line out."
        )
    if any(line and "==" not in line and not line.startswith("-") for line in lines):
        notes.append(f"{REQUIREMENTS} has packages without a version: each build may differ.")
    return notes


def _plain(name: str) -> str:
    """Return a package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
