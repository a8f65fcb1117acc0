"""The container of an attempt, decided from the task, the lab's settings and the host."""

from __future__ import annotations

import re

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import LABEL_PREFIX, ContainerSpec, HostAccount
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import Attempt, Job, Mount
from gpuconsole.errors import UsageError
from gpuconsole.remote import reporter
from gpuconsole.session.recovery import nonce_of
from gpuconsole.session.sharing import memory_variables, share_of

WORKING_DIR = "/workspace"
RESULTS_DIR = "/results"
_CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def attempt_key(job_id: str, number: int) -> str:
    """Return the name of an attempt that is unique among all consoles: leases carry it."""
    return f"{job_id}-{number}"


def container_name(job_id: str, number: int, nonce: str) -> str:
    """Return the name of an attempt's container."""
    return f"gpuconsole-{job_id}-{number}-{nonce}"


def container_spec(
    job: Job,
    attempt: Attempt,
    *,
    command: tuple[str, ...],
    image: str,
    account: HostAccount,
    journal: str,
    settings: LabSettings,
    host: Host | None,
) -> ContainerSpec:
    """Return the container that runs an attempt.

    UsageError when it would have to run as root and the lab does not allow that.
    """
    if account.uid == 0 and not settings.allow_root:
        raise UsageError(
            "Container would run as root",
            f"The account used on {attempt.host} is root, and jobs run as that account.",
            "Use another account there (`user:` in the inventory), or set `allow_root: true` "
            "in the lab's settings.",
        )
    task = job.task
    share = share_of(job, attempt, settings, host)
    return ContainerSpec(
        name=attempt.container_name,
        image=image,
        command=command,
        working_dir=WORKING_DIR,
        env={**_environment(job, attempt), **memory_variables(job, share)},
        labels=_labels(job, attempt, journal),
        mounts=(*task.mounts, Mount(account.results_dir, RESULTS_DIR, read_only=False)),
        backend=task.backend,
        device_uuids=attempt.device_uuids,
        device_indexes=attempt.device_indexes,
        user=f"{account.uid}:{account.gid}",
        memory_limit_mib=memory_limit_mib(job, settings, host),
        shm_size_mib=settings.shm_size if task.shm_size_mib is None else task.shm_size_mib,
        pids_limit=settings.pids_limit,
        cpuset=cpuset(attempt, host),
        network=network_name(task.network or settings.network, settings),
        python_path=reporter.FOLDER if task.script else "",
        share=share,
    )


def memory_limit_mib(job: Job, settings: LabSettings, host: Host | None) -> float:
    """Return the limit of host memory: the task's, or the lab's but never more than there is."""
    if job.task.memory_limit_mib is not None:
        return job.task.memory_limit_mib
    total = host.facts.memory_total_mib if host is not None else None
    return settings.memory_limit if total is None else min(settings.memory_limit, total)


def network_name(policy: str, settings: LabSettings) -> str:
    """Return the engine's word for a network policy."""
    return {"lab": settings.lab_network, "full": "bridge"}.get(policy, "none")


def cpuset(attempt: Attempt, host: Host | None) -> str:
    """Return the processors near the devices; "" when the host does not tell, or when the devices
    do not share a NUMA node."""
    if host is None:
        return ""
    nodes = {device.numa_node for device in host.devices if device.uuid in attempt.device_uuids}
    node = nodes.pop() if len(nodes) == 1 else None
    if node is None or not 0 <= node < len(host.facts.numa_cpus):
        return ""
    listed = host.facts.numa_cpus[node]
    return listed if _CPU_LIST.fullmatch(listed) else ""


def _environment(job: Job, attempt: Attempt) -> dict[str, str]:
    given = {
        "GPUCONSOLE_JOB": job.id,
        "GPUCONSOLE_ATTEMPT": str(attempt.number),
        "GPUCONSOLE_RESULTS": RESULTS_DIR,
        # Paddle's default, and the allocator that the estimate has simulated.
        "FLAGS_allocator_strategy": "auto_growth",
    }
    if job.estimate_mib is not None:
        given["GPUCONSOLE_ESTIMATE_MIB"] = f"{job.estimate_mib:.0f}"
    return {**given, **job.task.env}


def _labels(job: Job, attempt: Attempt, journal: str) -> dict[str, str]:
    values = {
        "job": job.id,
        "attempt": attempt_key(job.id, attempt.number),
        "user": job.user,
        "journal": journal,
        "nonce": nonce_of(attempt.container_name),
    }
    return {LABEL_PREFIX + name: value for name, value in values.items()}
