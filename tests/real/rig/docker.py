"""A real dockerd for tests: own data, own socket, and a stood-in GPU runtime.

The engine, containerd and runc are the real ones. Stood in are the two programs that NVIDIA's
toolkit installs, and only they:

* `nvidia-container-runtime-hook` on dockerd's PATH is what makes Docker accept requests for GPUs.
  Ours puts a node `/dev/nvidia<index>` into the container for each device that was asked for, and
  refuses one that this host does not have, in the toolkit's words.
* the runtime named `nvidia` is runc, with the folders of this machine that an image of the lab
  stands on (see `image.py`) bound in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docker

from tests.real.rig.patience import PATIENCE_S

Popen = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]

HOOK = """#!{python} -IS
import json, os, subprocess, sys
state = json.load(sys.stdin)
config = json.load(open(os.path.join(state["bundle"], "config.json")))
env = dict(item.split("=", 1) for item in config["process"]["env"] if "=" in item)
wanted = env.get("NVIDIA_VISIBLE_DEVICES", "void")
with open({log!r}, "a") as log:
    log.write(wanted + "\\n")
if wanted in ("", "void", "none"):
    sys.exit(0)
if os.path.exists({broken!r}):
    sys.exit(open({broken!r}).read())
devices = json.load(open({devices!r}))
names = list(devices) if wanted == "all" else wanted.split(",")
root = config["root"]["path"]
root = root if root.startswith("/") else os.path.join(state["bundle"], root)
for name in names:
    uuid = name if not name.isdigit() else list(devices)[int(name)]
    if uuid not in devices:
        sys.exit("nvidia-container-cli: device error: %s: unknown device" % name)
    node = "%s/dev/nvidia%d" % (root, devices[uuid])
    nsenter = ["nsenter", "--target", str(state["pid"]), "--mount", "--"]
    subprocess.check_call(nsenter + ["mknod", "-m", "666", node, "c", "195", str(devices[uuid])])
"""

RUNTIME = """#!/bin/sh
case " $* " in *" create "*) {python} -IS {bind} "$@" || exit 1;; esac
exec runc "$@"
"""

BIND = """import json, os, sys
bundle = sys.argv[sys.argv.index("--bundle") + 1]
path = os.path.join(bundle, "config.json")
config = json.load(open(path))
env = dict(item.split("=", 1) for item in config["process"]["env"] if "=" in item)
own = {mount["destination"] for mount in config["mounts"]}
for folder in filter(None, env.get("LAB_STANDS_ON", "").split(":")):
    if folder not in own:
        config["mounts"].append({"destination": folder, "source": folder, "type": "bind",
                                 "options": ["rbind", "ro"]})
json.dump(config, open(path, "w"))
"""


def why_not() -> str:
    """Return why no engine can be started here, or ""."""
    if os.geteuid() != 0:
        return "dockerd needs root"
    missing = [name for name in ("dockerd", "containerd", "runc", "nsenter") if not _which(name)]
    return f"{', '.join(missing)} not installed" if missing else ""


class LabDocker:
    """One engine. `uuids` are the devices its host has, in index order.

    `popen` starts a program where the engine shall live (in a host's namespaces); without
    `toolkit` the host has no GPU runtime; with `live_restore` containers outlive the engine.
    `runtimes` are further names of its runtime, as other makers' toolkits register theirs.
    """

    def __init__(
        self,
        root: Path,
        *,
        uuids: Sequence[str] = (),
        toolkit: bool = True,
        live_restore: bool = False,
        runtimes: Sequence[str] = (),
        popen: Popen = subprocess.Popen,
    ) -> None:
        self.root = root
        self.socket = root / "docker.sock"
        self.hook_log = root / "hook.log"
        self._broken = root / "broken"
        self._popen = popen
        self._toolkit = toolkit
        self._live_restore = live_restore
        self._runtimes = runtimes
        self._process: subprocess.Popen[bytes] | None = None
        root.mkdir(parents=True, exist_ok=True)
        self._install()
        self.set_devices(uuids)

    def set_devices(self, uuids: Sequence[str]) -> None:
        """Change which devices the host has."""
        devices = {uuid: index for index, uuid in enumerate(uuids)}
        (self.root / "devices.json").write_text(json.dumps(devices))

    def break_hook(self) -> None:
        """Let the GPU runtime fail as it does where the driver is not loaded."""
        words = "initialization error: nvml error: driver not loaded"
        self._broken.write_text(f"nvidia-container-cli: {words}")

    def repair_hook(self) -> None:
        """Let the GPU runtime work again."""
        self._broken.unlink()

    def start(self, deadline_s: float = PATIENCE_S) -> LabDocker:
        """Start the engine and wait until it answers."""
        self._process = self._popen(self._command())
        deadline = time.monotonic() + deadline_s
        while not self._answers():
            log = (self.root / "log").read_text() if (self.root / "log").exists() else ""
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"dockerd did not come up:\n{log[-2000:]}")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """End the engine and its containers."""
        if self._process is None:
            return
        supervised = (self.root / "exec" / "containerd" / "containerd.pid").read_text().strip()
        self._signal("TERM")
        deadline = time.monotonic() + PATIENCE_S
        # Once its containerd has ended there is nothing left that the engine has to do, yet it
        # sleeps for a second before it looks.
        while self._process.poll() is None and time.monotonic() < deadline:
            if not Path("/proc", supervised).exists():
                break
            time.sleep(0.01)
        self._process.kill()
        self._process.wait()
        (self.root / "pid").unlink(missing_ok=True)
        self._process = None

    def restart(self) -> None:
        """End the engine and start it again on the same data."""
        self.stop()
        self.start()

    def clear(self) -> None:
        """Remove every container, also those that an engine left running when it ended."""
        if self._process is None:
            self.start()
        client = self.client()
        for item in client.containers(all=True):
            client.remove_container(item["Id"], force=True)
        client.close()

    def freeze(self) -> None:
        """Let the engine hang: its socket accepts and nothing answers."""
        self._signal("STOP")

    def thaw(self) -> None:
        """Let a frozen engine go on."""
        self._signal("CONT")

    def client(self) -> docker.APIClient:
        """Return a client of the engine, past everything under test."""
        return docker.APIClient(base_url=f"unix://{self.socket}")

    def __enter__(self) -> LabDocker:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def _command(self) -> list[str]:
        root = self.root
        path = f"{root / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin"
        daemon = ["dockerd", "--data-root", f"{root / 'data'}", "--exec-root", f"{root / 'exec'}"]
        daemon += ["--pidfile", f"{root / 'pid'}", "--host", f"unix://{self.socket}"]
        daemon += ["--bridge=none", "--iptables=false", "--ip6tables=false"]
        name = "nvidia" if self._toolkit else "lab"
        for runtime in (name, *self._runtimes):
            daemon += ["--add-runtime", f"{runtime}={root / 'bin' / 'lab-runtime'}"]
        daemon += ["--default-runtime", name, "--shutdown-timeout", "2"]
        daemon += ["--live-restore"] if self._live_restore else []
        to_log = ["sh", "-c", 'exec "$@" >>"$0" 2>&1', f"{root / 'log'}"]
        return [*to_log, "env", f"PATH={path}", *daemon]

    def _install(self) -> None:
        folder = self.root / "bin"
        folder.mkdir(exist_ok=True)
        python = os.path.realpath(sys.executable)
        bind = folder / "bind.py"
        bind.write_text(BIND)
        _program(folder / "lab-runtime", RUNTIME.format(python=python, bind=bind))
        if self._toolkit:
            names: dict[str, Any] = {
                "python": python,
                "log": str(self.hook_log),
                "devices": str(self.root / "devices.json"),
                "broken": str(self._broken),
            }
            _program(folder / "nvidia-container-runtime-hook", HOOK.format(**names))

    def _signal(self, name: str) -> None:
        # By its own pid, where it lives: the process started may only have led into a namespace.
        pid = (self.root / "pid").read_text().strip()
        self._popen(["kill", f"-{name}", pid]).wait(PATIENCE_S)

    def _answers(self) -> bool:
        try:
            self.client().ping()
        except (docker.errors.DockerException, OSError):
            return False
        return True


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
