"""The page on the lab's queue, followed word by word: its commands, its inventories, its unit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import wait_until
from tests.real.services.test_road import TRAIN

pytestmark = pytest.mark.real
PAGE = Path(__file__).parents[3] / "docs" / "lab-queue.md"
FOLDER = "/run/etc/gpuconsole"
"""In place of /etc/gpuconsole, which is not this host's own."""
SUDO = """#!/bin/sh
# What sudo does: the user's own home, and nothing of the caller's environment.
user=root
if [ "$1" = -u ]; then user=$2; shift 2; fi
home=$(getent passwd "$user" | cut -d: -f6)
path=/run/lab/bin:/usr/sbin:/usr/bin:/bin
cd / && exec runuser -u "$user" -- env -i HOME="$home" PATH="$path" "$@"
"""
USERADD = """#!/bin/sh
# The files of accounts are mounted one by one here: useradd cannot replace them.
[ "$*" = "--system --create-home gpuconsole" ] || exit 2
echo "gpuconsole:x:990:990::/home/gpuconsole:/bin/sh" >>/etc/passwd
echo "gpuconsole:x:990:" >>/etc/group
install -d -o 990 -g 990 /home/gpuconsole
"""


def _blocks(language: str) -> list[str]:
    setup = PAGE.read_text("utf-8").split("\n## Set up\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", setup, re.S)


@pytest.fixture
def head(docker_lab: Lab) -> LabHost:
    made = docker_lab.add(accounts=("ada",))
    made.start_engine()
    # The Python of the tests may lie where other accounts do not come.
    python = f"/run/python/bin/{Path(sys.executable).resolve().name}"
    modules = f"{PAGE.parents[1]}:{sysconfig.get_paths()['purelib']}"
    for name, text in (
        ("sudo", SUDO),
        ("useradd", USERADD),
        (
            "gpuconsole",
            f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(modules)} LD_LIBRARY_PATH=/run/python/lib\n"
            f'exec {python} -m gpuconsole "$@"\n',
        ),
    ):
        (made.root / "bin" / name).write_text(text)
    setup = (
        f"chmod 755 /run && mkdir /run/python && mount --bind {sys.base_prefix} /run/python"
        f" && cp {made.root}/bin/* /run/lab/bin/ && chmod 755 /run/lab/bin/*"
    )
    made.run(["sh", "-c", setup]).check_returncode()
    return made


def test_a_lab_is_set_up_by_the_pages_own_lines(
    docker_lab: Lab, head: LabHost, tmp_path: Path
) -> None:
    (commands,) = _blocks("text")
    lines = [line.split("  #")[0].strip() for line in commands.splitlines()]
    assert len(lines) <= 10
    installs, rest = lines[:3], lines[3:]
    assert all("/opt/gpuconsole" in line for line in installs)
    inventory, user = (yaml.safe_load(text) for text in _blocks("yaml")[:2])
    hosts = yaml.safe_load(docker_lab.inventory())
    inventory["hosts"] = hosts["hosts"]
    inventory["defaults"] = {"user": "ops", "image": hosts["defaults"]["image"]}

    def run(line: str) -> subprocess.CompletedProcess[bytes]:
        line = line.replace("/etc/gpuconsole", FOLDER).replace("gpu-01", head.name)
        # The question whether to trust a key is asked in a terminal.
        line = re.sub("(--trust .*)", r"\1 --yes", line)
        return head.run(["sh", "-c", f"PATH=/run/lab/bin:$PATH; {line}"])

    for line in rest[:-1]:
        done = run(line)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        if "install -d /etc/gpuconsole" in line:
            written = shlex.quote(yaml.safe_dump(inventory))
            head.run(["sh", "-c", f"printf %s {written} >{FOLDER}/lab.yaml"]).check_returncode()
        if "ssh-keygen" in line:
            key = head.run(["cat", "/home/gpuconsole/.ssh/id_ed25519.pub"]).stdout.decode()
            with (head.root / "authorized_keys").open("a") as accepted:
                accepted.write(key)
    log = (tmp_path / "log").open("wb")
    last = rest[-1].replace("/etc/gpuconsole", FOLDER)
    service = head.popen(
        ["sh", "-c", f"PATH=/run/lab/bin:$PATH; exec {last}"], stdout=log, stderr=log
    )
    try:
        home = tmp_path / "ada"
        (home / "project").mkdir(parents=True)
        (home / "project" / "train.py").write_text(TRAIN)
        user["queue"]["host"] = head.address
        user["defaults"] = {
            "user": "ada", "identity_file": str(docker_lab.key),
            "known_hosts": str(docker_lab.known_hosts()),
        }  # fmt: skip
        (home / ".config" / "gpuconsole").mkdir(parents=True)
        (home / ".config" / "gpuconsole" / "inventory.yaml").write_text(yaml.safe_dump(user))

        def ada(*words: str) -> subprocess.CompletedProcess[str]:
            kept = {name: os.environ[name] for name in ("PATH",)}
            return subprocess.run(
                [sys.executable, "-m", "gpuconsole", *words], capture_output=True, text=True,
                cwd=home / "project", env={**kept, "HOME": str(home)}, timeout=PATIENCE_S,
                check=False,
            )  # fmt: skip

        def said() -> str:
            return (tmp_path / "log").read_text(errors="replace")

        wait_until(
            lambda: ada("jobs").returncode == 0 or service.poll() is not None,
            what="the service serves",
        )
        assert service.poll() is None, said()
        done = ada("submit", "train.py", "--name", "first", "--", "--steps", "2")
        assert done.returncode == 0, done.stderr + said()
        done = ada("wait", "first")
        assert done.returncode == 0, done.stderr + done.stdout + said()
        assert "step=2/2" in ada("logs", "first").stdout
    finally:
        service.terminate()
        service.wait(PATIENCE_S)
        log.close()


def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    (unit,) = _blocks("ini")
    path = tmp_path / "gpuconsole-lab.service"
    path.write_text(unit.replace("/usr/local/bin/gpuconsole", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert "gpuconsole-lab" not in done.stderr, done.stderr
