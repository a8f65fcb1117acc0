"""The engine of another host, reached through SSH by an account that is not root."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.jobs import Mount
from gpuconsole.errors import UnreachableError
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.inventory import parse_inventory
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.transfer.bundle import make_bundle
from tests.real.rig.engines import output, spec, until
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S

pytestmark = pytest.mark.real


@pytest.fixture
async def host(docker_lab: Lab) -> LabHost:
    host = docker_lab.add(devices=2)
    await asyncio.to_thread(host.start_engine)
    return host


@pytest.fixture
async def engine(docker_lab: Lab, host: LabHost) -> AsyncIterator[DockerEngine]:
    entry = parse_inventory(docker_lab.inventory(), "lab").hosts[0]
    link = SshLink(entry, timeout=PATIENCE_S)
    engine = DockerEngine(link, host.name, entry.docker_socket)
    yield engine
    await engine.close()
    await link.close()


TRAIN = """
import paddle
layer = paddle.nn.Linear(4, 1)
optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
for step in range(20):
    loss = (layer(paddle.ones([2, 4])) ** 2).mean()
    loss.backward(); optimizer.step(); optimizer.clear_grad()
    print("step", step, float(loss))
paddle.save(layer.state_dict(), "/results/model.pdparams")
"""


async def test_a_paddle_script_goes_there_and_its_result_comes_back(
    engine: DockerEngine, host: LabHost, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    script = tmp_path / "project" / "train.py"
    script.write_text(TRAIN)
    bundle = make_bundle(script, None, tmp_path / "b.tar.gz", limit_mib=1)
    account = await engine.prepare("job-ssh")
    assert account.uid == host.uid
    wanted = Lease(host.uuids[1], "job-ssh", "job-ssh-1", "ann", "J1", 1.0)
    await engine.claim([wanted])
    made = spec(
        "ssh",
        *("python", bundle.script_name),
        user=f"{account.uid}:{account.gid}",
        mounts=(Mount(account.results_dir, "/results", False),),
        device_uuids=(host.uuids[1],),
    )
    container = await engine.create(made)
    await engine.put(container, bundle.path, made.working_dir)
    await engine.start(container)
    log = (await output(engine, container)).decode()
    status = await until(engine, container, "exited")
    assert status.exit_code == 0, log
    assert "step 19" in log
    fetched = b"".join([chunk async for chunk in engine.results("job-ssh")])
    with tarfile.open(fileobj=io.BytesIO(fetched)) as tar:
        model = tar.getmember("./model.pdparams")
        assert model.uid == host.uid
        assert model.size > 0
    assert await engine.leases() == (wanted,)


async def test_an_account_outside_the_group_is_told_so(engine: DockerEngine, host: LabHost) -> None:
    Path(host.socket).chmod(0o600)
    with pytest.raises(UnreachableError) as caught:
        await engine.info()
    assert caught.value.title == "Docker refuses this account"
    Path(host.socket).chmod(0o660)
    assert (await engine.info()).gpu_runtime


async def test_a_host_without_docker_is_told_so(docker_lab: Lab) -> None:
    bare = docker_lab.add()
    link = SshLink(parse_inventory(docker_lab.inventory(), "lab").hosts[0], timeout=PATIENCE_S)
    engine = DockerEngine(link, bare.name, "/run/nosuch.sock")
    with pytest.raises(UnreachableError) as caught:
        await engine.info()
    assert caught.value.title == "Docker is not there"
    await engine.close()
    await link.close()


async def test_a_connection_lost_under_a_follow_costs_the_job_nothing(
    engine: DockerEngine, host: LabHost
) -> None:
    loop = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"
    container = await engine.create(spec("long", "sh", "-c", loop))
    await engine.start(container)
    with contextlib.suppress(UnreachableError):
        async for _ in engine.logs(container, follow=True):
            await asyncio.to_thread(host.stop_sshd)
    with pytest.raises(UnreachableError):
        await engine.inspect(container)
    await asyncio.to_thread(host.start_sshd)
    status = await engine.inspect(container)
    assert status is not None
    assert status.state == "running"
    async with contextlib.aclosing(engine.logs(container, follow=True)) as log:
        assert (await anext(log)).startswith(b"line 1\n")
    await engine.stop(container, 0)
