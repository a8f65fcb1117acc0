"""Pods of a gang as processes: the names and words that a cluster gives them, and real Paddle."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="needs Paddle"),
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root"),
]
TRAIN = """
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
total = paddle.to_tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank={dist.get_rank()} of {dist.get_world_size()} total={total.item()}", flush=True)
"""
NAMED = 'mount --bind "$HOSTS" /etc/hosts && exec "$@"'
"""Its own names for the pods, for these processes alone."""


async def _run(words: list[str], hosts: Path, **env: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "unshare", "--mount", "sh", "-c", NAMED, "sh", *words,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **env, "HOSTS": str(hosts)}, cwd=env.get("PWD"),
    )  # fmt: skip
    try:
        text, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode is not None
    return process.returncode, text.decode(errors="replace")


async def test_the_pods_of_a_gang_find_each_other_by_name(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    rendered = await asyncio.to_thread(
        subprocess.run,
        [
            sys.executable, "-m", "gpuconsole", "render", str(project / "train.py"),
            "--to", "kubernetes", "--devices", "2", "--hosts", "2", "--image", "any",
            "--state", str(tmp_path / "state"),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    objects: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all(rendered.stdout)}
    spec = objects["Job"]["spec"]["template"]["spec"]
    name = objects["Job"]["metadata"]["name"]
    hosts = tmp_path / "hosts"
    pods = [f"127.0.0.{rank + 1} {name}-{rank}.{name}\n" for rank in range(2)]
    hosts.write_text("".join(("127.0.0.1 localhost\n", *pods)))
    waiting = next(one for one in spec["initContainers"] if one["name"] == "peers")["command"]

    async def pod(rank: int) -> tuple[int, str]:
        def own(word: str) -> str:
            return word.replace("$(JOB_COMPLETION_INDEX)", str(rank)).replace("$$", "$")

        code, text = await _run([sys.executable, *waiting[1:]], hosts)
        assert code == 0, text
        env = {one["name"]: own(one["value"]) for one in spec["containers"][0]["env"]}
        words = [own(word) for word in spec["containers"][0]["command"]]
        log = str(tmp_path / f"log-{rank}")
        words = [sys.executable, *words[1:3], "--log_dir", log, *words[3:]]
        here = {
            "GLOO_SOCKET_IFNAME": "lo", "PADDLE_DISTRI_BACKEND": "gloo", "PWD": str(project),
            "HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0",
        }  # fmt: skip
        return await _run(words, hosts, **env | here)

    ended = await asyncio.gather(pod(0), pod(1))
    for rank, (code, text) in enumerate(ended):
        logs = "".join(path.read_text() for path in (tmp_path / f"log-{rank}").glob("workerlog.*"))
        assert code == 0, text + logs
        assert f"rank={rank} of 2 total=3.0" in text + logs
