"""A real Slurm on a lab host, which is its login node: munged, slurmctld and two slurmd.

The daemons are Debian's own. Stood in are the GPUs alone: device nodes that need not work, which
Slurm counts, hands out and names in CUDA_VISIBLE_DEVICES as it does real ones.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.rig.hosts import LabHost
from tests.real.rig.patience import PATIENCE_S

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "srun")
DEVICES = 4
NODES = ("n1", "n2")

CONF = """\
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=17817
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
KillWait=5
MessageTimeout=5
NodeName=n[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17821-17822] CPUs=8 \
RealMemory=8000 Gres=gpu:a100:{devices} Feature=nvlink State=UNKNOWN
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=60 DefMemPerCPU=100 State=UP
PartitionName=debug Nodes=n2 MaxTime=5 DefMemPerCPU=100 State=UP
"""


def why_not() -> str:
    """Return why Slurm cannot be run here, or ""."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if not shutil.which(program, path=path)]
    return f"{', '.join(missing)} not installed" if missing else ""


@dataclass(slots=True)
class LabSlurm:
    """The daemons of a cluster on a lab host."""

    host: LabHost
    root: Path
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        """Its slurm.conf."""
        return self.root / "slurm.conf"

    def start(self) -> None:
        """Start all daemons and wait until both nodes are idle."""
        for name in ("state", "munge", "dev", *(f"spool-{node}" for node in NODES)):
            (self.root / name).mkdir(parents=True)
        self.root.chmod(0o755)
        (self.root / "munge").chmod(0o700)
        key = self.root / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        for index in range(DEVICES):
            os.mknod(self.root / "dev" / f"nvidia{index}", 0o666 | 0o020000, os.makedev(195, index))
        text = CONF.format(root=self.root, devices=DEVICES)
        self.conf.write_text(text)
        files = f"{self.root}/dev/nvidia[0-{DEVICES - 1}]"
        (self.root / "gres.conf").write_text(f"Name=gpu Type=a100 File={files}\n")
        self._munge(key)
        self.start_controller()
        for node in NODES:
            self._daemon(node, ["slurmd", "-D", "-N", node])
        self._wait(
            lambda: self.say("sinfo", "-h", "-N", "-p", "gpu", "-o", "%t").split() == ["idle"] * 2
        )

    def start_controller(self, *, forgetful: bool = False) -> None:
        """Start slurmctld, with what it remembers or with nothing."""
        self._daemon("slurmctld", ["slurmctld", "-D", *(["-c"] if forgetful else [])])
        self._wait(lambda: " is UP" in self.say("scontrol", "ping"))

    def stop_controller(self) -> None:
        """End slurmctld; it writes down what it knows. (Killed, it would forget the jobs of the
        last seconds, and count on from before them.)"""
        daemon = self._daemons.pop("slurmctld")
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(PATIENCE_S)

    def say(self, *argv: str) -> str:
        """Run one of Slurm's commands as root and return what it prints."""
        env = {**os.environ, "SLURM_CONF": str(self.conf), "LC_ALL": "C"}
        return self.host.run(argv, env=env).stdout.decode()

    def _munge(self, key: Path) -> None:
        root = self.root
        argv = ["munged", "--force", "--foreground", "--num-threads=2", f"--key-file={key}"]
        argv += [f"--socket={root}/munge.sock", f"--pid-file={root}/munged.pid"]
        argv += [f"--log-file={root}/munged.log", f"--seed-file={root}/munge/seed"]
        self._daemon("munged", argv)
        self._wait((root / "munge.sock").exists)

    def _daemon(self, name: str, argv: list[str]) -> None:
        env = {**os.environ, "SLURM_CONF": str(self.conf)}
        quiet = subprocess.DEVNULL
        self._daemons[name] = self.host.popen(argv, env=env, stdout=quiet, stderr=quiet)

    def _wait(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < deadline, self._logs()
            time.sleep(0.05)

    def _logs(self) -> str:
        logs = sorted(self.root.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs)

    def close(self) -> None:
        """End the daemons."""
        for daemon in self._daemons.values():
            daemon.kill()
        for daemon in self._daemons.values():
            daemon.wait(PATIENCE_S)


def with_slurm(host: LabHost) -> LabSlurm:
    """Start Slurm on a lab host; it ends with the host."""
    made = LabSlurm(host, host.root / "slurm")
    host.at_close(made.close)
    made.start()
    return made
