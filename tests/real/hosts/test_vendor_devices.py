"""Every maker's container, made and started by a real engine; the nodes stand in for devices.

They are the kernel's own null device under the makers' names: nothing is computed on them, but who
sees and may open them is decided by the engine and the kernel, as it is for real ones.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuconsole.core.engines.device_requests import handover
from gpuconsole.core.vendors import VENDORS, Vendor
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.engines import run, spec, sweep
from tests.real.rig.image import paddle_image, why_no_paddle

pytestmark = pytest.mark.skipif(bool(why_not() or why_no_paddle()), reason="no engine or image")
GROUP = 43210
"""Owns the nodes; no image has a name for it."""
GIVEN, OTHER = 41, 42
"""Numbers of two devices of each maker; only the first is handed over."""
OPENED = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR))
        print("opened", path)
    except OSError as error:
        print(type(error).__name__, path)
"""


def paths(vendor: Vendor, number: int) -> list[str]:
    """Return what a maker's driver puts below /dev for a device."""
    shared = ["/dev/dri/renderD128" if one == "/dev/dri" else one for one in vendor.shared]
    return [*(node.format(number) for node in vendor.nodes), *shared]


@pytest.fixture(scope="module")
def stand_ins() -> Iterator[None]:
    """Make nodes and driver folders of all makers where the machine has none; take them away."""
    made: list[Path] = []
    try:
        for vendor in VENDORS.values():
            for path in (*paths(vendor, GIVEN), *paths(vendor, OTHER)):
                _parents(Path(path), made)
                if not os.path.exists(path):
                    os.mknod(path, stat.S_IFCHR | 0o660, os.makedev(1, 3))
                    os.chmod(path, 0o660)
                    os.chown(path, 0, GROUP)
                    made.append(Path(path))
            for path in vendor.mounts:
                _parents(Path(path) / "x", made)
        yield
    finally:
        for path in reversed(made):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _parents(path: Path, made: list[Path]) -> None:
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir()
            made.append(folder)


@pytest.fixture(scope="module")
def lab(stand_ins: None) -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), runtimes=["ascend"]) as engine:
        paddle_image(engine)
        yield engine


@pytest.fixture
async def engine(lab: LabDocker) -> AsyncIterator[DockerEngine]:
    link = LocalLink("here")
    engine = DockerEngine(link, "here", str(lab.socket))
    yield engine
    await engine.close()
    await link.close()
    sweep(lab)


@pytest.mark.parametrize("name", sorted(set(VENDORS) - {"nvidia", "enflame"}))
async def test_a_container_sees_and_opens_its_own_devices(engine: DockerEngine, name: str) -> None:
    vendor = VENDORS[name]
    account = await engine.prepare("vendors")
    assert account.node_groups == (GROUP,)
    mine, others = paths(vendor, GIVEN), set(paths(vendor, OTHER)) - set(paths(vendor, GIVEN))
    made = spec(
        f"see-{name}",
        "python", "-c", OPENED, *mine, *sorted(others), *vendor.mounts,
        backend=vendor.backend,
        vendor=name,
        device_uuids=("d",),
        device_indexes=(GIVEN,),
        node_groups=account.node_groups,
    )  # fmt: skip
    status, log = await run(engine, made)
    said = log.decode().splitlines()
    assert status.exit_code == 0, said
    assert [line for line in said if line.startswith("opened")] == [f"opened {p}" for p in mine]
    assert {f"FileNotFoundError {path}" for path in others} <= set(said)
    assert not any(f"FileNotFoundError {path}" in said for path in vendor.mounts)


async def test_without_their_group_the_nodes_stay_shut(engine: DockerEngine) -> None:
    made = spec("shut", "python", "-c", OPENED, "/dev/xpuctrl", backend="xpu", device_uuids=("d",),
                device_indexes=(GIVEN,), node_groups=())  # fmt: skip
    _, log = await run(engine, made)
    assert log.split() == [b"PermissionError", b"/dev/xpuctrl"]


async def test_a_makers_runtime_and_its_variable_reach_the_engine(
    engine: DockerEngine, lab: LabDocker
) -> None:
    assert "ascend" in (await engine.info()).runtimes
    made = spec("runtime", "true", backend="npu", device_uuids=("d",), device_indexes=(GIVEN,),
                runtime="ascend")  # fmt: skip
    container = await engine.create(made)
    client = lab.client()
    found = client.inspect_container(container)
    client.close()
    assert found["HostConfig"]["Runtime"] == "ascend"
    assert not found["HostConfig"]["Devices"]
    assert f"ASCEND_VISIBLE_DEVICES={GIVEN}" in found["Config"]["Env"]


async def test_a_privileged_container_says_which_device_is_its_own(
    engine: DockerEngine, lab: LabDocker
) -> None:
    made = spec("all", "true", backend="gcu", device_uuids=("d",), device_indexes=(GIVEN,))
    assert handover(made).privileged
    container = await engine.create(made)
    client = lab.client()
    found = client.inspect_container(container)
    client.close()
    assert found["HostConfig"]["Privileged"]
    assert f"TOPS_VISIBLE_DEVICES={GIVEN}" in found["Config"]["Env"]
