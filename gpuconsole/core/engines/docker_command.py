"""The `docker run` line that equals a container made through the engine's API.

Values that are secret are not in it: Docker takes those of the variables that it is given by name
alone from the shell that runs the line.

The constants here are the options that every container gets; the engine reads them too, so the
line shown and the container made cannot drift apart.
"""

from __future__ import annotations

import csv
import io
import shlex

from gpuconsole.core.containers import ContainerSpec
from gpuconsole.core.engines.device_requests import container_labels, environment, handover
from gpuconsole.core.jobs import Mount
from gpuconsole.core.submission.secrets import withheld
from gpuconsole.core.units import MIB

SECURITY_OPTIONS = ("no-new-privileges",)
DROPPED_CAPABILITIES = ("ALL",)
LOG_DRIVER = "json-file"
"""Set explicitly, so that logs can be read on a host with a default driver that keeps none."""
LOG_FILES = 4
"""A log is kept in so many files, of which the oldest goes first."""


def size_bytes(size_mib: float) -> int:
    """Return a size of MiB in bytes, as the engine wants it."""
    return int(size_mib * MIB)


def docker_run(spec: ContainerSpec) -> tuple[str, ...]:
    """Return the argument list of `docker run` that makes and starts this container."""
    return ("docker", "run", "--detach", *_options(spec), spec.image, *spec.command)


def docker_line(spec: ContainerSpec) -> str:
    """Return the line for a POSIX shell, quoted."""
    return shlex.join(docker_run(spec))


def _options(spec: ContainerSpec) -> list[str]:
    options = ["--name", spec.name, "--init", "--workdir", spec.working_dir]
    if spec.user:
        options += ["--user", spec.user]
    options += [*_devices(spec), *_limits(spec), *_confinement(spec)]
    hidden = withheld(spec.env, spec.secrets)
    for name, value in environment(spec).items():
        options += ["--env", name if name in hidden else f"{name}={value}"]
    for name, value in sorted(container_labels(spec).items()):
        options += ["--label", f"{name}={value}"]
    for mount in (*spec.mounts, *handover(spec).mounts):
        options += ["--mount", _mount(mount)]
    return options


def _devices(spec: ContainerSpec) -> list[str]:
    given = handover(spec)
    options = []
    if given.runtime:
        options += ["--runtime", given.runtime]
    if given.privileged:
        options.append("--privileged")
    if given.uuids:
        # Docker reads the value as CSV, so a list of devices needs quotes of its own.
        options += ["--gpus", f'"device={",".join(given.uuids)}"']
    for node in given.nodes:
        options += ["--device", node]
    for group in given.groups:
        options += ["--group-add", group]
    return options


def _limits(spec: ContainerSpec) -> list[str]:
    options = ["--shm-size", _size(spec.shm_size_mib), "--pids-limit", str(spec.pids_limit)]
    if spec.memory_limit_mib is not None:
        # Equal limits: no swap, so the limit is strict.
        limit = _size(spec.memory_limit_mib)
        options += ["--memory", limit, "--memory-swap", limit]
    if spec.cpuset:
        options += ["--cpuset-cpus", spec.cpuset]
    if spec.cpus is not None:
        options += ["--cpus", f"{spec.cpus:g}"]
    return options


def _confinement(spec: ContainerSpec) -> list[str]:
    given = handover(spec)
    options = ["--network", spec.network]
    for security in (*SECURITY_OPTIONS, *given.security):
        options += ["--security-opt", security]
    for capability in DROPPED_CAPABILITIES:
        options += ["--cap-drop", capability]
    for capability in given.capabilities:
        options += ["--cap-add", capability]
    if spec.read_only:
        options.append("--read-only")
    for folder, settings in memory_folders(spec).items():
        options += ["--tmpfs", f"{folder}:{settings}"]
    for folder in spec.input_folders:
        options += ["--volume", folder]
    options += ["--log-driver", LOG_DRIVER]
    for name, value in log_options(spec).items():
        options += ["--log-opt", f"{name}={value}"]
    return options


def log_options(spec: ContainerSpec) -> dict[str, str]:
    """Return the options of the log's driver: a script that prints for ever fills a part of the
    host's disk, not all of it."""
    return {"max-size": f"{int(spec.log_mib) // LOG_FILES}m", "max-file": str(LOG_FILES)}


def memory_folders(spec: ContainerSpec) -> dict[str, str]:
    """Return the folders in memory with their mount options; they are the container's user's.

    An engine may give such a folder the rights, but not the owner, that it has in the image.
    """
    uid, _, gid = spec.user.partition(":")
    owned = f",uid={uid},gid={gid or uid}" if uid.isdigit() else ""
    return {
        folder: f"exec,mode=0755,size={size_bytes(size_mib)}{owned}"
        for folder, size_mib in spec.memory_folders.items()
    }


def _mount(mount: Mount) -> str:
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    if mount.read_only:
        fields.append("readonly")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _size(size_mib: float) -> str:
    return f"{int(size_mib)}m" if size_mib == int(size_mib) else f"{size_bytes(size_mib)}b"
