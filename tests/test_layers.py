"""The direction of imports, proved by importing rooms in fresh processes."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from subprocess import CompletedProcess

import grimp
import pytest

import gpuconsole
from tests.waiting import DEADLINE_S

HEAVY = ("textual", "asyncssh", "docker")
ALLOWED = {"tui": {"textual"}, "remote": {"asyncssh", "docker"}}

PROBE = """
import importlib, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    found[name] = [heavy for heavy in json.loads(sys.argv[2]) if heavy in sys.modules]
print(json.dumps(found))
"""


def ran(code: str, *args: str, env: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """Return what a program in a fresh process printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def _modules() -> dict[str, list[str]]:
    """Return the modules of each room that may import something heavy, and of all others as one."""
    rooms: dict[str, list[str]] = {}
    for module in pkgutil.walk_packages(gpuconsole.__path__, "gpuconsole."):
        parts = module.name.split(".")
        # Agent, probe and meta tier run elsewhere, with the Python that is there.
        if {"agent", "probe", "meta", "data"} & set(parts) or parts[-1] == "__main__":
            continue
        room = parts[1] if parts[1] in ALLOWED else "others"
        rooms.setdefault(room, []).append(module.name)
    return rooms


def test_each_room_imports_only_what_it_may() -> None:
    wrong: dict[str, set[str]] = {}
    for room, names in _modules().items():
        done = ran(PROBE, json.dumps(names), json.dumps(HEAVY))
        for name, heavy in json.loads(done.stdout).items():
            surplus = set(heavy) - ALLOWED.get(room, set())
            if surplus:
                wrong[name] = surplus
    assert not wrong


@pytest.mark.parametrize("room", ["gpuconsole.preflight.interpreter", "gpuconsole.session"])
def test_no_module_imports_itself_around_a_corner(room: str) -> None:
    graph = grimp.build_graph("gpuconsole", exclude_type_checking_imports=True, cache_dir=None)
    names = {name for name in graph.modules if name.startswith(room)}
    imports = {name: graph.find_modules_directly_imported_by(name) & names for name in names}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_help_and_preflight_pay_for_no_screen_and_no_ssh() -> None:
    probe = (
        "import sys; from gpuconsole.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "import gpuconsole.preflight\n"
        "sys.stderr.write(repr([m for m in ('textual', 'asyncssh', 'docker') if m in sys.modules]))"
    )
    done = ran(probe)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == "[]"


def test_help_imports_no_command() -> None:
    probe = (
        "import sys; from gpuconsole.cli import main\n"
        "main(['--help'])\n"
        "slow = ('gpuconsole.cli.commands', 'gpuconsole.session', 'gpuconsole.core.jobs')\n"
        "slow += ('asyncio', 'pydantic', 'yaml', 'rich')\n"
        "sys.stderr.write(repr([m for m in slow if m in sys.modules]))"
    )
    done = ran(probe)
    assert "preflight" in done.stdout
    assert done.stderr.strip() == "[]"


NOT_BEFORE_NEEDED = (
    "asyncio", "pydantic", "yaml", "sqlite3", "docker", "asyncssh", "textual", "rich",
    "gpuconsole.config", "gpuconsole.taskfile", "gpuconsole.placement",
    "gpuconsole.session.session",
    "gpuconsole.cli.commands.jobs",
)  # fmt: skip


def test_a_plain_preflight_imports_only_what_it_uses(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\nnet = paddle.nn.Linear(4, 4)\nnet(paddle.rand([2, 4]))\n")
    probe = (
        "import sys; from gpuconsole.cli import main\n"
        "main(['preflight', sys.argv[1], '--offline', '--json'])\n"
        f"sys.stderr.write(repr([m for m in {NOT_BEFORE_NEEDED!r} if m in sys.modules]))"
    )
    own = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = ran(probe, str(script), env=own)
    assert '"verdicts"' in done.stdout
    assert done.stderr.strip() == "[]"


OPENED = """
import asyncio, json, pathlib, sys
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.tui.app import ConsoleApp

async def main():
    demo = DemoOptions(elastic=sys.argv[2] == "elastic")
    async with open_session(None, pathlib.Path(sys.argv[1]), demo=demo) as session:
        async with ConsoleApp(session).run_test(size=(120, 36)) as pilot:
            await pilot.pause()
            while not session.snapshot().hosts:
                await asyncio.sleep(0.01)

asyncio.run(main())
extras = ("placement.elastic", "placement.learned", "session.elastic", "notebook", "mcp")
loaded = [one for one in extras if any(m.startswith("gpuconsole." + one) for m in sys.modules)]
print(json.dumps(loaded))
"""


@pytest.mark.parametrize(
    ("lab", "loaded"), [("", []), ("elastic", ["placement.elastic", "session.elastic"])]
)
def test_an_extra_is_loaded_where_it_is_used_alone(
    lab: str, loaded: list[str], tmp_path: Path
) -> None:
    done = ran(OPENED, str(tmp_path), lab)
    assert json.loads(done.stdout.splitlines()[-1]) == loaded
