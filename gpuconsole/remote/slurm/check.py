"""What `gpuconsole check` looks at on a login node."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, EngineError
from gpuconsole.remote.inventory import SlurmSection
from gpuconsole.remote.links.protocol import Link
from gpuconsole.remote.slurm.calls import SlurmCalls
from gpuconsole.remote.slurm.cluster import Cluster
from gpuconsole.remote.slurm.engine import SlurmEngine
from gpuconsole.remote.slurm.parse import Node

FOLDER_JOB = "check"
_PYTHON = '"$1" -c "import sys; print(sys.version.split()[0])"'
_NEEDED = (
    "for one in flock tar timeout tail sbatch squeue scancel; do "
    "command -v $one || echo no $one; done"
)


async def looked_at(
    link: Link, host: str, settings: SlurmSection
) -> Sequence[tuple[str, str | ConsoleError]]:
    """Return each step with what was found, or with what is wrong; after a fault no more."""
    calls = SlurmCalls(link, host, settings)
    engine = SlurmEngine(link, host, settings, Cluster(time.time))
    steps: list[tuple[str, str | ConsoleError]] = []
    step = "slurm"
    try:
        info = await engine.info()
        said = await calls.ask(_NEEDED, doing="looking for commands")
        missing = [line[3:] for line in said.splitlines() if line.startswith("no ")]
        if missing:
            raise EngineError(
                "Commands are missing",
                msg("{host} has no {value}.", host=host, value=clean(", ".join(missing), 100)),
                "Install util-linux and coreutils there, and Slurm's client commands.",
            )
        steps.append((step, info.version))
        step = "nodes"
        steps.append((step, _nodes((await calls.picture()).nodes)))
        step = "python"
        steps.append((step, await _python(calls, settings)))
        step = "folder"
        account = await engine.prepare(FOLDER_JOB)
        steps.append((step, f"{account.results_dir.rpartition('/results/')[0]} can be written"))
    except ConsoleError as error:
        steps.append((step, error))
    return steps


async def _python(calls: SlurmCalls, settings: SlurmSection) -> str:
    if settings.container:
        return f"run by {clean(settings.container[0], 60)}"
    if settings.preamble:
        return f"{clean(settings.python, 60)}, after {clean(settings.preamble, 100)}"
    said = await calls.ask(_PYTHON, settings.python, doing=f"starting {settings.python}")
    return f"{clean(said, 30).strip()} on the login node; the nodes should have the same"


def _nodes(nodes: Sequence[Node]) -> str:
    devices = sum(len(node.kinds) for node in nodes)
    kinds = sorted({kind or "gpu" for node in nodes for kind in node.kinds})
    if not devices:
        return f"{len(nodes)} nodes, and no GPUs among their generic resources (GresTypes=gpu)"
    return f"{len(nodes)} nodes with {devices} x {clean(', '.join(kinds), 100)}"
