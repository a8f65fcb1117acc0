"""Fixtures of the suite on real parts. A missing part skips with its reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.rig import docker, hosts, image, nvml


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
