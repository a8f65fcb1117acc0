"""The readers that are fed: how an input of each is made, and how it is read.

`make` builds an input from a source of randomness alone. `read` returns whether it was accepted;
a refusal is an error of the console's own kind, everything else that comes out is a fault.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import os
import random
import shutil
import sqlite3
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

from benchmarks.fuzz import mutate
from benchmarks.fuzz.engine import EngineReader
from gpuconsole.config import LabSettings, TransferSection
from gpuconsole.core.containers import ContainerStatus
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError
from gpuconsole.preflight import analyse
from gpuconsole.preflight.interpreter.frontend import notebook
from gpuconsole.remote.docker.images import PullProgress
from gpuconsole.remote.docker.logs import Demultiplexer
from gpuconsole.remote.inventory import parse_inventory
from gpuconsole.remote.polling import nvidia_smi
from gpuconsole.remote.polling.agent_frames import FrameError, Picture
from gpuconsole.remote.slurm import parse as slurm
from gpuconsole.remote.vendors import FAMILIES
from gpuconsole.remote.vendors.model import VendorError
from gpuconsole.session.dispatch.attempt.observation import read_reports
from gpuconsole.session.dispatch.attempt.outcome import outcome_of
from gpuconsole.session.logs.line_index import LogIndex
from gpuconsole.session.logs.tail import LineReader
from gpuconsole.session.results import Stream, save_results
from gpuconsole.state import Journal
from gpuconsole.taskfile import load_task
from gpuconsole.yamldoc import parse
from tests.remote.vendors import vendortexts

HERE = Path(__file__).resolve().parents[1]
SCRIPTS = HERE / "scripts"
INVENTORIES = HERE.parent / "inventory"
NOW = 1_790_000_000.0


class Reader(Protocol):
    """One kind of input."""

    def make(self, rng: random.Random) -> Any:
        """Make an input."""
        ...

    def read(self, data: Any) -> bool:
        """Read it as the product does; whether it was accepted."""
        ...


Target = Callable[[Path], Reader]
"""Makes a reader that may write into a folder."""


class Frames:
    """Lines of the agent on a host."""

    FRAME: ClassVar[dict[str, Any]] = {
        "t": NOW,
        "f": 1,
        "k": [0.5],
        "h": {"c": 12.5, "n": 8, "M": 2048, "m": 1024, "v": "550.1", "r": "12.4", "N": ["0-7"]},
        "s": [
            {"i": 0, "u": "GPU-a", "n": "A100", "b": "00:01", "N": 1, "p": [["GPU-b", "NV4"]]},
            {"i": 1, "u": "GPU-b", "n": "A100", "b": "00:02", "N": None},
        ],
        "d": {
            "0": {"M": 41943040, "m": 1536, "u": 97, "w": 2505, "r": 68, "p": [[7, 512]]},
            "1": {"t": 40, "x": "", "L": 0},
        },
        "p": {"7": ["alice", "python train.py", "ab" * 32]},
    }

    def __init__(self, folder: Path) -> None:
        del folder

    def make(self, rng: random.Random) -> list[bytes]:
        """A few lines, of which most are damaged."""
        return [mutate.json_bytes(rng, self.FRAME) for _ in range(rng.randint(1, 4))]

    def read(self, data: list[bytes]) -> bool:
        picture, accepted = Picture(Host("h")), True
        for line in data:
            try:
                picture.apply(line, NOW)
            except FrameError:
                accepted = False
        return accepted


class Tools:
    """What the tools of all makers print, and tables of nvidia-smi and Slurm."""

    TEXTS = tuple(
        value.encode()
        for name, value in sorted(vars(vendortexts).items())
        if name.isupper() and isinstance(value, str)
    )
    COLUMNS = ("index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu")

    def __init__(self, folder: Path) -> None:
        del folder

    def make(self, rng: random.Random) -> tuple[int, str]:
        """A damaged text, and the maker to whose readers it goes."""
        text = mutate.damage(rng, rng.choice(self.TEXTS), 8)
        return rng.randrange(len(FAMILIES)), text.decode("utf-8", "replace")

    def read(self, data: tuple[int, str]) -> bool:
        family, text = data
        accepted = True
        for way in FAMILIES[family].ways:
            try:
                way.read({command.key: text for command in way.commands})
            except VendorError:
                accepted = False
        nvidia_smi.processes(text)
        for line in text.splitlines()[:50]:
            with contextlib.suppress(ValueError):
                nvidia_smi.device(self.COLUMNS, line, {})
        rows = slurm.read_rows(text)
        slurm.read_held(text, rows, slurm.read_nodes(text))
        slurm.read_record(text, "7", "job")
        return accepted


class Tars:
    """Archives of results."""

    KINDS = (
        *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE),
        *(tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.GNUTYPE_SPARSE, b"Z"),
    )
    NAMES = (
        *("a", "b/c", "deep/" * 40 + "x", "../out", "/etc/motd", "a/../../b", "", ".", "..", "a\n"),
        *("\x1b[31mred", "ü" * 60, "x" * 300, "b", "b/../a", "./a", "c/", "-rf", "nul\0nul"),
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "results"
        self._outside = folder

    def make(self, rng: random.Random) -> bytes:
        """An archive of odd members, sometimes damaged."""
        out = io.BytesIO()
        form = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
        with tarfile.open(fileobj=out, mode="w", format=form, errors="replace") as tar:
            for _ in range(rng.randint(0, 6)):
                member = tarfile.TarInfo(rng.choice(self.NAMES))
                member.type, member.mode = rng.choice(self.KINDS), rng.choice((0, 0o644, 0o6777))
                member.linkname = rng.choice(self.NAMES)
                member.mtime = rng.choice((0, 2**33, 1))
                data = rng.randbytes(rng.choice((0, 1, 600, 5000))) if member.isreg() else b""
                member.size = len(data)
                if form == tarfile.PAX_FORMAT and rng.random() < 0.3:
                    name = rng.choice(("path", "size", "GNU.sparse.map", "linkpath", "uid"))
                    member.pax_headers = {name: rng.choice(("0", "9" * 30, "../x", "a" * 9000))}
                with contextlib.suppress(ValueError, OSError):
                    tar.addfile(member, io.BytesIO(data))
        made = out.getvalue()
        return mutate.damage(rng, made) if rng.random() < 0.5 else made

    def read(self, data: bytes) -> bool:
        async def chunks() -> AsyncIterator[bytes]:
            yield data

        try:
            asyncio.run(save_results([Stream(chunks())], self._folder, TransferSection()))
        except ConsoleError:
            return False
        finally:
            made = list(self._folder.rglob("*")) if self._folder.exists() else []
            inside = self._folder.resolve()
            out = [path for path in made if not Path(os.path.realpath(path)).is_relative_to(inside)]
            special = [path for path in made if path.lstat().st_mode & 0o7000]
            shutil.rmtree(self._folder, ignore_errors=True)
            assert not out, f"leads out: {out}"
            assert not special, f"has special rights: {special}"
            left = [path.name for path in self._outside.iterdir()]
            assert not left, f"written outside its folder: {left}"
        return True


class Logs:
    """What a script prints, and how an engine frames it."""

    PIECES = (
        *(
            b"epoch 1 loss 0.5\n",
            b"\r 10%|#",
            b"\x1b[31m\n",
            b"\xff\xfe\n",
            b"x" * 70000,
            b"\n" * 300,
        ),
        *(b"Out of memory error on GPU 0. Cannot allocate 1.5GB memory on GPU 0, 38GB memory\n",),
        *(b"ModuleNotFoundError: No module named 'x'\n", b"Error: " * 900, b"\0\0\n", b"a\tb\n"),
        *(b"CUDA error: out of memory\n", b"ValueError: " + b"(" * 5000 + b"\n", b"\xe2\x80\xa8"),
    )

    def __init__(self, folder: Path) -> None:
        self._path = folder / "1.log"

    def make(self, rng: random.Random) -> list[bytes]:
        """Chunks of output, some damaged."""
        made = []
        for _ in range(rng.randint(1, 12)):
            piece = rng.choice(self.PIECES) * rng.choice((1, 1, 3))
            made.append(mutate.damage(rng, piece) if rng.random() < 0.4 else piece)
        return made

    def read(self, data: list[bytes]) -> bool:
        lines, frames, pull = LineReader(), Demultiplexer(), PullProgress("image")
        for chunk in data:
            lines.feed(chunk)
            for _ in frames.feed(chunk):
                pass
            for _ in pull.feed(chunk):
                pass
        lines.rest()
        whole = b"".join(data)
        self._path.write_bytes(whole)
        asyncio.run(self._index())
        status = ContainerStatus("id", "name", "exited", exit_code=1)
        text = whole.decode("utf-8", "replace")
        outcome = outcome_of(status, text, image="i", memory_limit_mib=None, cancelled=False)
        assert len(outcome.cause) < 5000
        assert clean(outcome.cause) == outcome.cause
        return True

    async def _index(self) -> None:
        index = LogIndex(self._path)
        while await index.grow():
            pass
        for line in range(min(50, len(index))):
            index.text(line)


class Documents:
    """Inventories and settings."""

    SEEDS = tuple(path.read_bytes() for path in sorted(INVENTORIES.glob("*.yaml")))
    SETTINGS = b"""policy: balanced
weights: {speed: 2, fit: 1.5}
quotas: [{user: ana, devices: 4}]
stop_grace: 30s
triage: {webhook: 'https://hooks.example/x', limits: {hot_c: 84}}
retention: {jobs: 30d}
"""

    def __init__(self, folder: Path) -> None:
        del folder

    def make(self, rng: random.Random) -> tuple[bool, str]:
        """A damaged file, and whether it is read as an inventory."""
        inventory = rng.random() < 0.6
        seed = rng.choice(self.SEEDS) if inventory else self.SETTINGS
        return inventory, mutate.damage(rng, seed).decode("utf-8", "replace")

    def read(self, data: tuple[bool, str]) -> bool:
        inventory, text = data
        try:
            if inventory:
                parse_inventory(text, "inventory.yaml")
            else:
                parse(text, "config.yaml", LabSettings)
        except ConsoleError:
            return False
        return True


class Tasks:
    """Task files."""

    SEED = b"""task:
  type: training
  framework: paddlepaddle
  script: train.py
  batch_size_per_gpu: 64
  num_gpus_estimate: auto
  env: {OMP_NUM_THREADS: "4"}
  mounts: [{source: /data, target: /data}]
  labels: {pool: train}
resource_policy: {memory_threshold: 0.85, preferred_devices: [RTX_3090, V100-32GB]}
scheduler: {algorithm: rl_based, timeout: 300}
"""

    def __init__(self, folder: Path) -> None:
        (folder / "train.py").write_text("")
        self._path = folder / "task.yaml"

    def make(self, rng: random.Random) -> bytes:
        """A damaged file."""
        return mutate.damage(rng, self.SEED)

    def read(self, data: bytes) -> bool:
        self._path.write_bytes(data)
        try:
            load_task(self._path)
        except ConsoleError:
            return False
        return True


class Rows:
    """A journal in which somebody wrote."""

    TABLES = ("jobs", "attempts", "events", "observations", "meta", "drains", "incidents")

    def __init__(self, folder: Path) -> None:
        self._seed, self._folder = folder / "seed", folder / "state"
        journal = Journal(self._seed, clock=lambda: NOW)
        for name in ("one", "two"):
            attempt = Attempt(1, "a", ("GPU-0",), (0,), f"gpuconsole-{name}-1-n", created_at=NOW)
            job = Job(name, Task(name, "train.py"), "ana", JobState.QUEUED, NOW)
            journal.add(job)
            running = Job(
                name, job.task, "ana", JobState.LAUNCHING, NOW, attempts=(attempt,), detail="x"
            )
            journal.save(job, running)
        journal.close()

    def make(self, rng: random.Random) -> list[tuple[str, int, int, Any]] | tuple[int, bytes]:
        """Odd values in some columns, or damaged bytes of the file."""
        if rng.random() < 0.2:
            return rng.randrange(100, 60_000), rng.randbytes(rng.choice((1, 40, 4096)))
        return [
            (rng.choice(self.TABLES), rng.randrange(2), rng.randrange(16), self._odd(rng))
            for _ in range(rng.randint(1, 4))
        ]

    def _odd(self, rng: random.Random) -> Any:
        value = rng.choice((*mutate.ODD_VALUES, b"\xff\xfe", "queued", "[]", '{"name": 1}'))
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return float(value)
        return json.dumps(value) if isinstance(value, (list, dict)) else value

    def read(self, data: list[tuple[str, int, int, Any]] | tuple[int, bytes]) -> bool:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._seed, self._folder)
        path = next(self._folder.glob("*.sqlite"))
        if isinstance(data, tuple):
            with path.open("r+b") as file:
                file.seek(data[0])
                file.write(data[1])
        else:
            self._write(path, data)
        try:
            journal = Journal(self._folder, clock=lambda: NOW)
        except ConsoleError:
            return False
        try:
            journal.jobs()
            journal.events_after(0)
            journal.observations()
            journal.drains()
        except ConsoleError:
            return False
        finally:
            journal.close()
        return True

    def _write(self, path: Path, changes: list[tuple[str, int, int, Any]]) -> None:
        connection = sqlite3.connect(path)
        with connection:
            for table, row, column, value in changes:
                names = [found[1] for found in connection.execute(f"PRAGMA table_info({table})")]
                name = names[column % len(names)]
                with contextlib.suppress(sqlite3.Error):
                    connection.execute(
                        f'UPDATE {table} SET "{name}" = ? WHERE rowid IN '
                        f"(SELECT rowid FROM {table} LIMIT 1 OFFSET ?)",
                        (value, row),
                    )
        connection.close()


class Notebooks:
    """Notebooks as JSON."""

    SEED: ClassVar[dict[str, Any]] = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"language": "python"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Title"]},
            {"cell_type": "code", "source": ["import paddle\n", "%matplotlib inline\n"]},
            {"cell_type": "code", "source": "!pip install x\nnet = paddle.nn.Linear(4, 2)"},
            {"cell_type": "code", "source": ["%%bash\n", "ls"], "outputs": [{"text": "x"}]},
        ],
    }

    def __init__(self, folder: Path) -> None:
        del folder

    def make(self, rng: random.Random) -> bytes:
        """A notebook with odd values or damage."""
        return mutate.json_bytes(rng, self.SEED)

    def read(self, data: bytes) -> bool:
        try:
            notebook.cells(Path("n.ipynb"), data, _parse)
        except ConsoleError:
            return False
        return True


def _parse(text: str, place: str) -> ast.Module:
    from gpuconsole.errors import UsageError

    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError("Wrong script", f"{place}: {error}", "") from None


class Reports:
    """Files that the reporter leaves in a container."""

    SEED: ClassVar[dict[str, Any]] = {
        "version": 1,
        "backend": "gpu",
        "peak_allocated": 10 * 2**30,
        "peak_reserved": 11 * 2**30,
        "steps": 100,
        "step_s": 0.25,
        "oom": "Out of memory error on GPU 0. Cannot allocate 1.5GB",
        "devices": {"0": {"allocated": 2**30}},
    }

    def __init__(self, folder: Path) -> None:
        del folder

    def make(self, rng: random.Random) -> dict[str, bytes]:
        """A few files."""
        return {
            f"{rank}.json": mutate.json_bytes(rng, self.SEED) for rank in range(rng.randint(1, 3))
        }

    def read(self, data: dict[str, bytes]) -> bool:
        read_reports(data)
        return True


class Scripts:
    """Scripts of users, changed."""

    SEEDS = tuple(
        path.read_bytes() for path in sorted(SCRIPTS.glob("*/*.py")) if path.stat().st_size < 12_000
    )

    def __init__(self, folder: Path) -> None:
        self._path = folder / "train.py"

    def make(self, rng: random.Random) -> bytes:
        """A script whose text is damaged, or some of whose constants are odd."""
        seed = rng.choice(self.SEEDS)
        if rng.random() < 0.5:
            return mutate.damage(rng, seed, 3)
        tree = ast.parse(seed)
        # What stands in an f-string can only be text.
        inside = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in ast.walk(node)
        }
        constants = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and id(node) not in inside
        ]
        for node in rng.sample(constants, min(len(constants), rng.randint(1, 4))):
            node.value = rng.choice((0, -1, 2**31, 10**12, 1e308, "", "x", None, True, (), 3.5))
        return ast.unparse(tree).encode()

    def read(self, data: bytes) -> bool:
        self._path.write_bytes(data)
        try:
            analyse(self._path, ()).estimate(32)
        except ConsoleError:
            return False
        return True


TARGETS: dict[str, Target] = {
    "documents": Documents,
    "engine": EngineReader,
    "frames": Frames,
    "logs": Logs,
    "notebooks": Notebooks,
    "reports": Reports,
    "rows": Rows,
    "scripts": Scripts,
    "tars": Tars,
    "tasks": Tasks,
    "tools": Tools,
}
