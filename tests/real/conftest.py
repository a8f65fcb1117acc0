"""Shards and fixtures of the suite on real parts. A missing part skips with its reason."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.real.rig import docker, hosts, image, nvml, shard

TEMPORARY = pytest.StashKey[Path]()


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


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what shards left when they were interrupted."""
    if TEMPORARY in config.stash:
        shutil.rmtree(config.stash[TEMPORARY], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything below this folder as real."""
    for item in items:
        if "tests/real/" in str(item.path):
            item.add_marker(pytest.mark.real)


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
