"""What a real engine says about an image, as far as it is anybody's business."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole.core.fleet import HostFacts
from gpuconsole.placement.rules.image_compatibility import image_backend, image_fault
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from tests.real.rig.docker import LabDocker, why_not

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
VARIABLES = {
    "CUDA_VERSION": "12.6.3",
    "NVIDIA_REQUIRE_CUDA": "cuda>=12.6 brand=tesla,driver>=535,driver<536",
    "TOKEN": "not for anybody",
}


@pytest.fixture(scope="module")
def lab() -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-"))) as engine:
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        engine.client().import_image_from_data(
            empty.getvalue(),
            repository="lab/train",
            tag="7",
            changes=[f'ENV {name}="{value}"' for name, value in VARIABLES.items()],
        )
        yield engine


async def test_an_image_tells_what_it_is_made_for_and_nothing_else(lab: LabDocker) -> None:
    engine = DockerEngine(LocalLink("here"), "here", str(lab.socket))
    facts = await engine.image_facts("lab/train:7")
    absent = await engine.image_facts("lab/train:8")
    await engine.close()
    assert absent is None
    assert facts is not None
    assert set(facts.env) == {"CUDA_VERSION", "NVIDIA_REQUIRE_CUDA"}
    assert facts.architecture
    assert image_backend("lab/train:7", facts) == "gpu"
    old = HostFacts(driver_version="550.54.14", runtime_version="12.4")
    assert "asks for CUDA 12.6" in image_fault("gpu", "lab/train:7", facts, old)
