"""Shards and fixtures of the suite on real parts. A missing part skips with its reason."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.real.rig import docker, hosts, image, nvml, shard
from tests.real.rig.sessions import (  # noqa: F401 - fixtures
    its_engine,
    one_desk,
    one_host,
    one_session,
)

HERE = Path(__file__).parent
TEMPORARY = pytest.StashKey[Path]()
LONGEST = (
    "test_lab_queue_flood", "test_lab_queue", "test_road", "test_services", "test_training_memory",
    "test_jupyter", "test_matrix_*", "test_page_commands", "test_paddleclas", "test_gang",
    "test_limits", "test_lab_operations", "test_lab_standby", "test_history", "test_search",
    "test_lab_sessions", "test_shell_*", "test_lab_checkpoint", "test_lab_services",
    "test_claims", "test_killed_consoles", "test_meta_*",
    "test_probe", "test_operator_memory", "test_faults*", "test_layers_memory",
    "test_queue", "test_preflight_paddle", "test_agent", "test_slurm",
    "test_preemption", "test_lab_attacks", "test_measuring", "test_hostile", "test_notebook",
    "test_console_*", "test_elastic", "test_prometheus", "test_journal_*", "test_host_faults",
    "test_links", "test_demo_console", "test_tutorial", "test_serving", "test_image_*",
    "test_sharing_live", "test_visualdl", "test_random_sessions",
)  # fmt: skip
"""Files that take long, the longest first: they are begun first, so that shards end together."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Give each worker of pytest-xdist namespaces of its own, and all a folder to remove."""
    if shard.why_not():
        return
    # A short name: the sockets of an engine below it have room for 108 bytes.
    temporary = config.stash[TEMPORARY] = Path(tempfile.mkdtemp(prefix="real-"))
    temporary.chmod(0o755)
    for spec in specs:
        spec.python = shard.python(str(temporary))


def pytest_configure() -> None:
    """Let a shard's temporary files lie in the folder that is removed in the end, and its
    terminals have their own size."""
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    # Not by TMPDIR: what the tests start would pass it on into hosts and containers.
    tempfile.tempdir = os.environ.get("GPUCONSOLE_TEMPORARY", tempfile.tempdir)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what shards left when they were interrupted."""
    if TEMPORARY in config.stash:
        shutil.rmtree(config.stash[TEMPORARY], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything below this folder as real, and put the files that take longest first."""
    real = [item for item in items if HERE in item.path.parents]
    for item in real:
        item.add_marker(pytest.mark.real)
    others = [item for item in items if HERE not in item.path.parents]
    items[:] = [*others, *sorted(real, key=_rank)]


def _rank(item: pytest.Item) -> int:
    found = (rank for rank, name in enumerate(LONGEST) if fnmatch(item.path.stem, name))
    return next(found, len(LONGEST))


@pytest.fixture
def lab() -> Iterator[hosts.Lab]:
    """Give a lab to which a test adds hosts."""
    reason = hosts.why_not() or nvml.why_not()
    if reason:
        pytest.skip(reason)
    with hosts.lab() as made:
        yield made


@pytest.fixture
def docker_lab(lab: hosts.Lab) -> hosts.Lab:
    """Give a lab whose hosts can have engines: see `with_engine`."""
    reason = docker.why_not() or image.why_no_paddle()
    if reason:
        pytest.skip(reason)
    return lab
