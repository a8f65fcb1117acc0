"""The engine against a real dockerd: a container's life from image to results."""

from __future__ import annotations

import asyncio
import contextlib
import io
import shlex
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.containers import ContainerSpec, LogTail
from gpuconsole.core.engines.docker_command import docker_line
from gpuconsole.core.jobs import Mount
from gpuconsole.errors import EngineError, ImageError, RefusedError
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.engines import labels, output, run, spec, sweep, until
from tests.real.rig.image import paddle_image, why_no_paddle
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
UUIDS = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")


@pytest.fixture(scope="module")
def lab() -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), uuids=UUIDS) as engine:
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


async def test_runs_to_its_end_and_tells_how(engine: DockerEngine) -> None:
    began = time.time()
    status, log = await run(engine, spec("life", "sh", "-c", "echo out; echo err >&2; exit 3"))
    assert status.exit_code == 3
    assert sorted(log.splitlines()) == [b"err", b"out"]
    assert not status.oom_killed
    assert status.created_at is not None
    assert status.started_at is not None
    assert status.ended_at is not None
    assert began - 2 < status.created_at <= status.started_at
    # A busy engine notes the start of a short life a moment after its end.
    assert status.started_at - 1 < status.ended_at < time.time() + 2


async def test_options_take_hold_inside(engine: DockerEngine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "data").write_text("seen")
    script = (
        "id -u; id -g; pwd; echo $HOME; echo $TASK; cat /data/data; echo;"
        "touch /data/x 2>&- || echo ro;"
        "grep -c NoNewPrivs:.1 /proc/self/status; grep CapBnd /proc/self/status;"
        "ls /sys/class/net; df -m /dev/shm | tail -1 | cut -c1-60; cat /proc/1/comm"
    )
    made = spec(
        "options",
        "sh",
        "-c",
        script,
        env={"TASK": "a $b 'c'"},
        mounts=(Mount(str(tmp_path), "/data"),),
    )
    _, log = await run(engine, made)
    lines = log.decode().splitlines()
    assert lines[:6] == ["1234", "2345", "/workspace", "/workspace", "a $b 'c'", "seen"]
    assert "ro" in lines
    assert "CapBnd:\t0000000000000000" in lines
    assert "lo" in lines
    assert "eth0" not in lines
    assert any(line.split()[1:2] == ["64"] for line in lines if line.startswith("shm"))
    assert "docker-init" in lines[-1]


async def test_memory_limit_kills_and_is_named(engine: DockerEngine) -> None:
    hog = "x = bytearray(400 * 2**20); print(len(x))"
    status, _ = await run(engine, spec("oom", "python", "-c", hog, memory_limit_mib=100))
    assert status.exit_code == 137
    assert status.oom_killed


async def test_log_is_live(engine: DockerEngine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    script = "echo one; until test -e /gate/go; do sleep 0.05; done; echo two"
    gate = Mount(str(tmp_path), "/gate")
    container = await engine.create(spec("live", "sh", "-c", script, mounts=(gate,)))
    await engine.start(container)
    seen = b""
    async for chunk in engine.logs(container, follow=True):
        seen += chunk
        if seen == b"one\n":
            status = await engine.inspect(container)
            assert status is not None
            assert status.state == "running"
            (tmp_path / "go").touch()
    assert (tmp_path / "go").exists()
    assert b"one\ntwo\n".startswith(seen)
    assert await output(engine, container) == b"one\ntwo\n"


async def test_a_follow_that_is_given_up_ends_its_thread(engine: DockerEngine) -> None:
    container = await engine.create(spec("giveup", "sh", "-c", "echo a; exec sleep 1000"))
    await engine.start(container)
    before = set(threading.enumerate())
    async with contextlib.aclosing(engine.logs(container, follow=True)) as log:
        assert await anext(log) == b"a\n"
        started = [
            t for t in threading.enumerate() if t.name.endswith("-stream") and t not in before
        ]
        assert len(started) == 1
    await asyncio.to_thread(started[0].join, PATIENCE_S)
    assert not started[0].is_alive()


async def test_many_silent_logs_do_not_hold_up_the_rest(engine: DockerEngine) -> None:
    container = await engine.create(spec("silent", "sleep", "1000"))
    await engine.start(container)

    async def follow() -> bytes:
        return await output(engine, container)

    follows = [asyncio.ensure_future(follow()) for _ in range(12)]
    for _ in range(3):
        status = await asyncio.wait_for(engine.inspect(container), PATIENCE_S)
        assert status is not None
    await engine.stop(container, 0)
    assert await asyncio.wait_for(asyncio.gather(*follows), PATIENCE_S) == [b""] * 12


async def test_stop_asks_first_then_kills(engine: DockerEngine) -> None:
    polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    deaf = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    for name, script, code, said in (("polite", polite, 0, b"bye"), ("deaf", deaf, 137, b"up")):
        container = await engine.create(spec(name, "sh", "-c", script))
        await engine.start(container)
        async with contextlib.aclosing(engine.logs(container, follow=True)) as log:
            await anext(log)
        await engine.stop(container, 1)
        status = await until(engine, container, "exited")
        assert status.exit_code == code
        assert (await output(engine, container)).split()[-1] == said
        await engine.stop(container, 1)
        await engine.remove(container)
        await engine.remove(container)
        await engine.stop(container, 1)
        assert await engine.inspect(container) is None


async def test_a_container_sees_only_its_devices(engine: DockerEngine, lab: LabDocker) -> None:
    script = "ls /dev | grep nvidia; echo $NVIDIA_VISIBLE_DEVICES"
    command = ("sh", "-c", script)
    _, both = await run(engine, spec("two", *command, device_uuids=(UUIDS[0], UUIDS[2])))
    _, one = await run(engine, spec("one", *command, device_uuids=(UUIDS[1],)))
    # Neither the image nor the task can ask for more.
    _, none = await run(engine, spec("none", *command, env={"NVIDIA_VISIBLE_DEVICES": "all"}))
    greedy = spec(
        "greedy", *command, device_uuids=(UUIDS[1],), env={"NVIDIA_VISIBLE_DEVICES": "all"}
    )
    _, own = await run(engine, greedy)
    assert both.split() == [b"nvidia0", b"nvidia2", b"GPU-aaaa,GPU-cccc"]
    assert one.split() == [b"nvidia1", b"GPU-bbbb"]
    assert none.split() == [b"void"]
    assert own.split() == [b"nvidia1", b"GPU-bbbb"]
    assert "GPU-aaaa,GPU-cccc" in lab.hook_log.read_text().split()


async def test_a_device_that_is_gone_is_named(engine: DockerEngine) -> None:
    container = await engine.create(spec("gone", "true", device_uuids=("GPU-nope",)))
    with pytest.raises(EngineError) as caught:
        await engine.start(container)
    assert caught.value.title == "The GPU runtime failed"
    assert "GPU-nope: unknown device" in caught.value.message
    status = await engine.inspect(container)
    assert status is not None
    assert (status.state, status.exit_code) == ("created", None)
    assert "unknown device" in status.error


async def test_other_vendors_nodes_are_handed_over(engine: DockerEngine) -> None:
    made = spec("npu", "true", backend="npu", device_uuids=("NPU-1",), device_indexes=(1,))
    with pytest.raises(EngineError) as caught:
        await engine.start(await engine.create(made))
    assert caught.value.title == "A mounted folder is missing"
    assert not Path("/usr/local/Ascend/driver").exists()
    made = spec("xpu", "true", backend="xpu", device_uuids=("XPU-1",), device_indexes=(1,))
    with pytest.raises(EngineError) as caught:
        await engine.start(await engine.create(made))
    assert caught.value.title == "A device node is missing"


async def test_same_name_is_adopted_only_by_its_own_attempt(engine: DockerEngine) -> None:
    made = spec("twice", "true")
    container = await engine.create(made)
    assert await engine.create(made) == container
    for key in ("job", "attempt", "nonce", "journal"):
        other = replace(made, labels={**made.labels, f"gpuconsole.{key}": "other"})
        with pytest.raises(EngineError, match="left alone"):
            await engine.create(other)
    with pytest.raises(EngineError, match="left alone"):
        await engine.create(replace(made, labels={}))
    assert await engine.inspect(container) is not None


async def test_starting_twice_never_runs_twice(engine: DockerEngine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    made = spec(
        "once", "sh", "-c", "echo x >>/gate/runs", mounts=(Mount(str(tmp_path), "/gate", False),)
    )
    container = await engine.create(made)
    await engine.start(container)
    await until(engine, container, "exited")
    await engine.start(container)
    status = await engine.inspect(container)
    assert status is not None
    assert status.state == "exited"
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_code_goes_in_and_results_come_out(engine: DockerEngine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    bundle = tmp_path / "code.tar.gz"
    with tarfile.open(bundle, "w:gz") as tar:
        for name, text in (
            ("pkg/train.py", b"print(open('pkg/data').read())\n"),
            ("pkg/data", b"hello"),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    account = await engine.prepare("job-7")
    assert Path(account.results_dir).stat().st_mode & 0o777 == 0o700
    Path(account.results_dir).chmod(0o777)
    for folder in Path(account.results_dir).parents:
        if folder.stat().st_uid == 0 and str(folder).startswith(tempfile.gettempdir() + "/"):
            folder.chmod(0o755)
    script = (
        "python pkg/train.py; stat -c %u:%g . pkg pkg/train.py; touch new;"
        "echo 1 >/results/a; ln -s a /results/b;"
        "mkdir /results/deep; head -c 3000 /dev/zero >'/results/deep/c d'"
    )
    made = spec(
        "code", "sh", "-ec", script, mounts=(Mount(account.results_dir, "/results", False),)
    )
    container = await engine.create(made)
    await engine.put(container, bundle, "/workspace")
    await engine.start(container)
    assert await output(engine, container) == b"hello\n1234:2345\n1234:2345\n1234:2345\n"
    assert (await until(engine, container, "exited")).exit_code == 0
    fetched = b"".join([chunk async for chunk in engine.results("job-7")])
    with tarfile.open(fileobj=io.BytesIO(fetched)) as tar:
        assert {"./a", "./b"} < set(tar.getnames())
    listed = await engine.list_results("job-7")
    assert [(file.name, file.size_bytes) for file in listed] == [("deep/c d", 3000), ("a", 2)]
    with pytest.raises(RefusedError, match="job-8"):
        await engine.list_results("job-8")
    with pytest.raises(RefusedError, match="job-8"):
        await anext(aiter(engine.results("job-8")))


async def test_a_huge_line_comes_in_bounded_pieces(engine: DockerEngine) -> None:
    script = "import sys; sys.stdout.write('x' * 10_000_000); sys.stderr.write('\\x1b[31m')"
    container = await engine.create(spec("huge", "python", "-c", script))
    await engine.start(container)
    live = [chunk async for chunk in engine.logs(container, follow=True)]
    whole = [chunk async for chunk in engine.logs(container, follow=False)]
    assert max(map(len, [*live, *whole])) <= 256 * 1024 + 16 * 1024
    assert sum(map(len, whole)) == 10_000_005
    # Docker may end a follow early when the container exits; never with other bytes.
    assert b"".join(whole).startswith(b"".join(live))
    tail = await engine.log_tail(container, 1000)
    assert (tail.data, tail.whole) == (b"".join(whole)[-1000:], False)


async def test_the_end_of_a_log_is_read_without_its_beginning(engine: DockerEngine) -> None:
    script = "for number in range(9000): print(number)"
    _, whole = await run(engine, spec("counts", "python", "-c", script))
    short = await engine.log_tail("counts", 100)
    assert (short.data, short.whole) == (whole[-100:], False)
    # Not the size, the number of lines is what ends it.
    lines = await engine.log_tail("counts", 1 << 20)
    assert whole.endswith(lines.data)
    assert (len(lines.data) < len(whole), lines.whole) == (True, False)
    _, little = await run(engine, spec("little", "python", "-c", "print('a'); print('b')"))
    assert await engine.log_tail("little", 100) == LogTail(little, whole=True)


async def test_missing_image_is_named_with_its_host(engine: DockerEngine) -> None:
    said: list[str] = []
    with pytest.raises(ImageError) as caught:
        await engine.ensure_image("127.0.0.1:1/nobody/none:3", said.append)
    assert said == ["pulling 127.0.0.1:1/nobody/none:3"]
    assert "127.0.0.1:1/nobody/none:3 on here" in caught.value.message
    assert "network" in caught.value.hint
    with pytest.raises(ImageError, match="lab/other:1 on here"):
        await engine.create(spec("noimage", "true", image="lab/other:1"))
    # Docker's own process 1 says it when the program is missing.
    status, log = await run(engine, spec("noprogram", "nosuchprogram"))
    assert status.exit_code == 127
    assert b"nosuchprogram" in log
    await engine.ensure_image("lab/paddle:1", said.append)
    assert len(said) == 1


async def test_prune_takes_only_what_is_over_and_ours(engine: DockerEngine) -> None:
    def labelled(name: str, journal: str) -> ContainerSpec:
        return spec(name, "sleep", "1000", labels=labels(name, journal))

    for name in ("over", "kept", "busy"):
        await engine.prepare(f"job-{name}")
        await engine.create(labelled(name, "J9"))
    foreign = await engine.create(labelled("foreign", "J8"))
    await engine.start("busy")
    full = await engine.prepare("job-full")
    (Path(full.results_dir) / "model").write_text("weights")
    await engine.create(labelled("full", "J9"))
    result = await engine.prune(frozenset({"job-kept"}), "J9")
    assert (result.containers, result.results_removed) == (2, 1)
    assert (Path(full.results_dir) / "model").exists()
    assert {status.name for status in await engine.own("J9")} == {"kept", "busy"}
    assert await engine.inspect(foreign) is not None


async def test_the_line_shown_makes_the_same_container(
    engine: DockerEngine, lab: LabDocker
) -> None:
    made = spec(
        "line",
        "python",
        "-c",
        "print('it''s')",
        device_uuids=(UUIDS[0], UUIDS[1]),
        env={"A": "b 'c' $d"},
        mounts=(Mount("/tmp", "/with,comma"), Mount("/tmp", "/rw", False)),
        cpuset="0",
        pids_limit=77,
        memory_limit_mib=300.5,
    )
    client = lab.client()
    ours = client.inspect_container(await engine.create(made))
    line = docker_line(replace(made, name="by-hand"))
    words = shlex.split(line)
    words[1:3] = ["--host", f"unix://{lab.socket}", "create"]
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = client.inspect_container("by-hand")
    for found in (ours, theirs):
        # Order of variables, and defaults that the command line spells out.
        found["Config"]["Env"].sort()
        found["HostConfig"]["RestartPolicy"]["Name"] = "no"
    # Ours is made of the image's id, and says the name for a person.
    assert ours["Config"]["Labels"].pop("gpuconsole.image") == made.image
    assert ours["Image"] == theirs["Image"]
    differing = {
        key
        for key in ours["HostConfig"]
        if ours["HostConfig"][key] != theirs["HostConfig"].get(key)
        and (ours["HostConfig"][key] or theirs["HostConfig"].get(key))
    }
    assert {key: (ours["HostConfig"][key], theirs["HostConfig"][key]) for key in differing} == {}
    for key in ("Env", "Cmd", "User", "WorkingDir", "Labels", "Tty"):
        assert ours["Config"][key] == theirs["Config"][key], key


@pytest.mark.skipif(bool(why_no_paddle()), reason=why_no_paddle() or "-")
async def test_real_paddle_runs(engine: DockerEngine) -> None:
    script = "import paddle; x = paddle.ones([2, 3]); print(float((x @ x.T).sum()))"
    status, log = await run(engine, spec("paddle", "python", "-c", script))
    assert status.exit_code == 0, log
    assert log.split()[-1] == b"12.0"
