"""The console's side of the agent: what is sent to a host, and how it is started there."""

from __future__ import annotations

import json
import marshal
import zlib
from functools import lru_cache
from importlib import resources, util
from typing import Any

from gpuconsole.remote.polling.source_pruning import pruned_program
from gpuconsole.remote.vendors import readers

MARK = b"@gpuc "
"""What every line of the agent starts with; all else on the channel is noise."""
_MODULES = (
    "main",
    "nvml_driver",
    "nvml_device",
    "mig",
    "host_stats",
    "processes",
    "vendor_tools",
    "tool_runs",
    "programs",
    "watchdog",
)
_FILE = "<gpuconsole:{}>"
_PACKING = 3
"""Level of compression: a higher one costs the console more than it saves on the link."""
# No backslash, no `!`, no nested quote: it reads the same in every login shell.
_BOOT = "import sys;exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"


def command(python: str) -> list[str]:
    """Return the command that starts the agent with that interpreter."""
    # -E -s: what a user has set for Python must not reach the agent; -S: what is installed beside
    # Python is not asked for, which takes a quarter of its start; -B: nothing is written.
    return [python, "-u", "-B", "-E", "-s", "-S", "-c", _BOOT]


def payload(nonce: str, interval: float, *, together: bool = False) -> bytes:
    """Return what goes into the agent's standard input first; with `together` it comes to speak at
    the same moment as other agents of this console."""
    stage, compiled, sources = _modules()
    options = {
        "nonce": nonce,
        "interval": interval,
        "together": together,
        "tools": tools(),
        "magic": util.MAGIC_NUMBER.hex(),
        "sizes": [len(compiled), len(sources)],
    }
    head = json.dumps(options).encode() + b"\n"
    return b"%d\n" % len(stage) + stage + head + compiled + sources


def tools() -> list[dict[str, Any]]:
    """Return the agent's list of commands: those of all vendors' tools."""
    return [
        {
            "name": family.name,
            "ways": [
                {
                    "tool": way.tool,
                    "foreign": way.foreign,
                    "commands": [
                        [command.key, command.every, command.argv] for command in way.commands
                    ],
                }
                for way in family.ways
            ],
        }
        for family in readers().families.values()
    ]


@lru_cache(maxsize=1)
def _modules() -> tuple[bytes, bytes, bytes]:
    """Return the bootstrap of the host, and the agent's modules: compiled for hosts with this
    Python's bytecode, which saves a third of the agent's start there, and as text for others."""
    folder = resources.files("gpuconsole.remote.agent")
    texts = {"gpuconsole": "", "gpuconsole.remote": "", "gpuconsole.remote.agent": ""}
    for name in _MODULES:
        texts[f"gpuconsole.remote.agent.{name}"] = (folder / f"{name}.py").read_text("utf-8")
    spec = util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pynvml, from nvidia-ml-py, is not installed")
    codes = {
        name: compile(text, _FILE.format(name), "exec", dont_inherit=True)
        for name, text in texts.items()
    }
    with open(spec.origin, encoding="utf-8") as file:
        texts["pynvml"], codes["pynvml"] = pruned_program(
            file.read(), "".join(texts.values()), _FILE.format("pynvml")
        )
    stage = (folder / "bootstrap.py").read_bytes()
    packed = (marshal.dumps(codes), json.dumps(texts).encode())
    compiled, sources = (zlib.compress(part, _PACKING) for part in packed)
    return stage, compiled, sources
