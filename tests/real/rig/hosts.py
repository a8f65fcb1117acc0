"""Lab hosts: each a set of namespaces with its own network, sshd, keys, login shell and driver.

The test process itself moves into a network namespace (the hub) and a pair of virtual cards leads
to each host, so nothing outside these namespaces is touched. Needs root.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .nvml import FakeNvml

SUBNET = "10.91.0"
NEW_NETWORK = 0x40000000
DEADLINE_S = 20.0
NEEDED = ("sshd", "ssh-keygen", "ip", "nsenter", "unshare", "mount", "gcc")


def missing() -> str:
    """Return why lab hosts cannot be made here, or ''."""
    if os.geteuid() != 0:
        return "lab hosts need root"
    absent = [name for name in NEEDED if not _which(name)]
    return f"lab hosts need {', '.join(absent)}" if absent else ""


def wait_for(condition: Callable[[], Any], what: str, seconds: float = DEADLINE_S) -> Any:
    """Return the first true answer of `condition`; TimeoutError names what did not come."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)
    return answer


class Hub:
    """The network between the console and the hosts; the test process lives in it meanwhile."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        if self._libc.unshare(NEW_NETWORK) != 0:
            number = ctypes.get_errno()
            os.close(self._outside)
            raise OSError(number, os.strerror(number))
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "hub", "type", "bridge")
        _run("ip", "addr", "add", f"{SUBNET}.254/24", "dev", "hub")
        _run("ip", "link", "set", "hub", "up")

    def close(self) -> None:
        """Go back to the machine's own network."""
        self._libc.setns(self._outside, NEW_NETWORK)
        os.close(self._outside)


class LabHost:
    """One host. Attributes: `name`, `address`, `pid` (its first process), `env` of the driver."""

    def __init__(
        self,
        folder: Path,
        number: int,
        library: Path,
        *,
        devices: int = 2,
        shell: str = "/bin/bash",
        bashrc: str = "",
        banner: str = "",
        path: str = "",
        user_key: Path | None = None,
    ) -> None:
        self.name = f"lab-{number}"
        self.address = f"{SUBNET}.{number}"
        self.folder = folder / self.name
        self.home = self.folder / "home"
        self.home.mkdir(parents=True)
        self.nvml = FakeNvml(library, self.folder / "nvml.state", devices)
        self.env: Mapping[str, str] = self.nvml.env
        self.key = self.folder / "host_key"
        self._card = f"lab{number}"
        self._shell, self._banner, self._path = shell, banner, path
        self._user_key = user_key or make_key(folder / "user_key")
        self._children: list[subprocess.Popen[Any]] = []
        for name in (".bashrc", ".tcshrc"):
            (self.home / name).write_text(bashrc)
        self._boot()
        self._wire(number)
        make_key(self.key)
        self.start_sshd()

    def start_sshd(self) -> None:
        """Start the host's sshd and wait until it listens."""
        config = self.folder / "sshd_config"
        banner = self.folder / "banner"
        banner.write_text(self._banner)
        lines = [
            f"ListenAddress {self.address}:22",
            f"HostKey {self.key}",
            f"AuthorizedKeysFile {self._user_key}.pub",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "PermitRootLogin prohibit-password",
            "AllowStreamLocalForwarding yes",
            *([f"Banner {banner}"] if self._banner else []),
            "SetEnv " + " ".join(f"{key}={value}" for key, value in self._variables().items()),
        ]
        config.write_text("\n".join(lines) + "\n")
        Path("/run/sshd").mkdir(exist_ok=True)
        self._sshd = self.popen([_which("sshd"), "-D", "-e", "-f", str(config)])
        wait_for(self._listens, f"sshd of {self.name}")

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a command inside the host."""
        enter = ["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-i", "-n", "--"]
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.DEVNULL)
        child = subprocess.Popen([*enter, *argv], **options)
        self._children.append(child)
        return child

    def run(self, *argv: str) -> str:
        """Run a command inside the host and return its output."""
        child = self.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = child.communicate(timeout=DEADLINE_S)
        if child.returncode != 0:
            raise RuntimeError(f"{argv}: {errors.decode()}")
        return str(output.decode())

    def hide(self, program: str) -> None:
        """Make a program of this host one that cannot be run."""
        self.run("mount", "--bind", "/dev/null", os.path.realpath(program))

    def processes(self, words: str) -> list[int]:
        """Return the host's processes, by their pids outside, whose command line holds `words`."""
        found = []
        for pid in self._pids():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if words.encode() in command:
                found.append(pid)
        return found

    def cut(self) -> None:
        """Pull the host's network cable."""
        _run("ip", "link", "set", self._card, "down")

    def heal(self) -> None:
        """Put the cable back."""
        _run("ip", "link", "set", self._card, "up")

    def freeze(self) -> None:
        """Stop every process of the host; its kernel still answers."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the host's processes go on."""
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the host with everything in it."""
        if self._unshare.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._unshare.wait(DEADLINE_S)
        for child in self._children:
            child.wait(DEADLINE_S)

    def known_hosts_line(self) -> str:
        """Return the host's line for a known_hosts file."""
        words = self.key.with_suffix(".pub").read_text().split()
        return f"{self.address} {words[0]} {words[1]}\n"

    def _variables(self) -> dict[str, str]:
        variables = dict(self.env)
        if self._path:
            variables["PATH"] = self._path
        return variables

    def _boot(self) -> None:
        # The first process reaps what is left to it, and everything ends with it.
        first = ["/bin/bash", "-c", "while :; do sleep 3600 & wait; done"]
        self._unshare = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--mount-proc",
             "--kill-child=SIGKILL", "--", *first],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        self.pid = int(wait_for(lambda: children.read_text().split(), self.name)[0])
        wait_for(lambda: Path(f"/proc/{self.pid}/comm").read_text() == "bash\n", self.name)
        passwd = self.folder / "passwd"
        passwd.write_text(
            f"root:x:0:0:root:{self.home}:{self._shell}\n"
            f"ops:x:1000:1000:ops:{self.home}:{self._shell}\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
        )
        self.run("mount", "--bind", str(passwd), "/etc/passwd")
        self.run("hostname", self.name)

    def _wire(self, number: int) -> None:
        peer = ["peer", "name", "eth0", "netns", str(self.pid)]
        _run("ip", "link", "add", self._card, "type", "veth", *peer)
        _run("ip", "link", "set", self._card, "master", "hub", "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def _pids(self) -> list[int]:
        mine = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    if os.readlink(entry / "ns" / "pid") == mine:
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def _listens(self) -> bool:
        if self._sshd.poll() is not None:
            raise RuntimeError(f"sshd of {self.name} ended with {self._sshd.returncode}")
        return ":22 " in self.run("ss", "-ltn")


def make_key(path: Path) -> Path:
    """Make a key pair without a passphrase, unless it is there."""
    if not path.exists():
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(path))
    return path


def _which(name: str) -> str:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.decode().strip()}")
