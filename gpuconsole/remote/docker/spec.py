"""A ContainerSpec for the engine's API; `core.engines.docker_command` says the same as a line."""

from __future__ import annotations

import docker
from docker.types import DeviceRequest, LogConfig
from docker.types import Mount as ApiMount

from gpuconsole.core.containers import ContainerSpec
from gpuconsole.core.engines.device_requests import (
    Handover,
    container_labels,
    environment,
    handover,
)
from gpuconsole.core.engines.docker_command import (
    DROPPED_CAPABILITIES,
    LOG_DRIVER,
    SECURITY_OPTIONS,
    log_options,
    memory_folders,
    size_bytes,
)


def create_options(
    client: docker.APIClient, spec: ContainerSpec, *, init: bool
) -> dict[str, object]:
    """Return the keyword arguments of `create_container` for this spec.

    `init` asks for Docker's own process 1, which passes signals on and collects orphans; an
    engine installed without it refuses the option.
    """
    return {
        "image": spec.image,
        "command": list(spec.command),
        "name": spec.name,
        "user": spec.user or None,
        "working_dir": spec.working_dir,
        "environment": environment(spec),
        "labels": container_labels(spec),
        "volumes": list(spec.input_folders) or None,
        "tty": False,
        # The proxy of the console's machine is not the container's.
        "use_config_proxy": False,
        "host_config": _host_config(client, spec, handover(spec), init),
    }


def _host_config(
    client: docker.APIClient, spec: ContainerSpec, given: Handover, init: bool
) -> dict[str, object]:
    limit = None if spec.memory_limit_mib is None else size_bytes(spec.memory_limit_mib)
    mounts = (*spec.mounts, *given.mounts)
    return client.create_host_config(
        device_requests=_requests(given),
        devices=[f"{node}:{node}:rwm" for node in given.nodes],
        group_add=list(given.groups),
        # As mounts, not binds: a folder that is missing is an error, not made by root.
        mounts=[
            ApiMount(mount.target, mount.source, type="bind", read_only=mount.read_only)
            for mount in mounts
        ],
        mem_limit=limit,
        memswap_limit=limit,
        shm_size=size_bytes(spec.shm_size_mib),
        pids_limit=spec.pids_limit,
        cpuset_cpus=spec.cpuset or None,
        nano_cpus=None if spec.cpus is None else int(spec.cpus * 1e9),
        read_only=spec.read_only or None,
        tmpfs=memory_folders(spec) or None,
        network_mode=spec.network,
        security_opt=[*SECURITY_OPTIONS, *given.security],
        cap_drop=list(DROPPED_CAPABILITIES),
        cap_add=list(given.capabilities) or None,
        privileged=given.privileged,
        runtime=given.runtime or None,
        log_config=LogConfig(type=LOG_DRIVER, config=log_options(spec)),
        init=init,
    )


def _requests(given: Handover) -> list[DeviceRequest]:
    if not given.uuids:
        return []
    return [DeviceRequest(device_ids=list(given.uuids), capabilities=[["gpu"]])]
