"""What lies in a job's results folder on a host, without copying it."""

from __future__ import annotations

from gpuconsole.core.containers import ResultFile
from gpuconsole.core.text import clean
from gpuconsole.errors import EngineError
from gpuconsole.remote.link import Link

MOST = 2000
"""Files that are listed of a folder."""
# `wc -c` of a regular file asks for its size and reads nothing; every host has it.
_LIST = f'cd "$1" && find . -type f -exec wc -c {{}} + | head -n {MOST + 64}'


async def list_files(link: Link, host: str, folder: str) -> tuple[ResultFile, ...]:
    """Return the regular files below a folder of the host, the largest first."""
    done = await link.run(["sh", "-c", _LIST, "sh", folder])
    if done.exit_status != 0:
        said = clean(done.stderr.decode(errors="replace").strip(), 300)
        raise EngineError(
            "The results cannot be listed",
            f"{host} said: {said or done.exit_status}.",
            "Try again.",
        )
    found = []
    for line in done.stdout.decode(errors="replace").splitlines():
        size, _, name = line.strip().partition(" ")
        # A sum over many files has no folder in its name, nor has the rest of a broken name.
        if size.isdigit() and name.startswith("./"):
            found.append(ResultFile(clean(name.removeprefix("./"), 300), int(size)))
    return tuple(sorted(found, key=lambda file: (-file.size_bytes, file.name))[:MOST])
