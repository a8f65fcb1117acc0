"""The container of an attempt, decided from the task, the lab's settings and the host."""

from __future__ import annotations

import hashlib
import posixpath
import re
from pathlib import PurePosixPath

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import (
    KIND_LABEL,
    LABEL_PREFIX,
    ContainerSpec,
    HostAccount,
)
from gpuconsole.core.engines.terminals import SESSION, SESSIONS
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import Attempt, Job, Mount, Task
from gpuconsole.core.submission.time_limits import time_limit
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement.launch_command import Meeting
from gpuconsole.remote import injected
from gpuconsole.session.dispatch.attempt.recovery import nonce_of
from gpuconsole.session.dispatch.attempt.vendor_runtime import maker_of, require_confined
from gpuconsole.session.dispatch.device_sharing import memory_variables, share_of

WORKING_DIR = "/workspace"
RESULTS_DIR = "/results"
_RESULTS_HOME = ("gpuconsole", "results")
"""How the path ends below which hosts keep the folders of jobs."""
WANTED = "GPUCONSOLE_BACKEND"
"""Tells the reporter in a container for which kind of device the job was started."""
_INTERFACE = {"npu": "HCCL_SOCKET_IFNAME", "xpu": "BKCL_SOCKET_IFNAME"}
"""Where the collective library of a back end reads its network interface; the others' is NCCL's,
or RCCL, which reads the same."""
_CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def attempt_key(job_id: str, number: int) -> str:
    """Return the name of an attempt that is unique among all consoles: leases carry it."""
    return f"{job_id}-{number}"


def container_name(job_id: str, number: int, nonce: str, rank: int = 0) -> str:
    """Return the name of an attempt's container on the host of a rank."""
    return f"gpuconsole-{job_id}-{number}-{f'{rank}-' if rank else ''}{nonce}"


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
    meeting: Meeting | None = None,
    runtime: str = "",
    workspace: str = "",
) -> ContainerSpec:
    """Return the container that runs an attempt on a host, of a gang with where it meets.

    `workspace` is the host's folder in which a session works, where it is kept. `runtime` is the
    engine's runtime of the devices' maker, where it has one. UsageError when it
    would have to run as root, or privileged, and the lab does not allow that.
    """
    _require_account(account, attempt.host, settings)
    task = job.task
    share = share_of(job, attempt, settings, host)
    require_targets(task)
    for mount in task.mounts:
        require_safe_source(mount)
    maker = maker_of(task, attempt, host)
    require_confined(maker, settings)
    return ContainerSpec(
        name=attempt.container_name,
        image=image,
        command=command,
        working_dir=start_path(task),
        env={
            **_environment(job, attempt, meeting, settings.limits.time_limit),
            **memory_variables(job, share),
        },
        secrets=task.secrets,
        labels=labels_of(job, attempt, journal),
        mounts=(*task.mounts, *_own_mounts(task, account, workspace)),
        backend=task.backend,
        device_uuids=attempt.device_uuids,
        device_indexes=attempt.device_indexes,
        user=f"{account.uid}:{account.gid}",
        memory_limit_mib=memory_limit_mib(job, settings, host),
        shm_size_mib=settings.shm_size if task.shm_size_mib is None else task.shm_size_mib,
        pids_limit=settings.pids_limit,
        cpuset=cpuset(attempt, host),
        network="host" if meeting else network_name(task.network or settings.network, settings),
        python_path=injected.FOLDER if task.script else "",
        share=share,
        vendor="" if maker is None else maker.name,
        runtime=runtime,
        node_groups=account.node_groups,
        terminal=task.kind == SESSION,
    )


def _require_account(account: HostAccount, host: str, settings: LabSettings) -> None:
    """Raise UsageError if a job would run as root and the lab does not allow that."""
    if account.uid == 0 and not settings.allow_root:
        raise UsageError(
            "Container would run as root",
            msg("The account used on {host} is root, and jobs run as that account.", host=host),
            "Use another account there (`user:` in the inventory), or set `allow_root: true` "
            "in the lab's settings.",
        )


def memory_limit_mib(job: Job, settings: LabSettings, host: Host | None) -> float:
    """Return the limit of host memory: the task's, or the lab's but never more than there is, or
    than a job may ask for."""
    if job.task.memory_limit_mib is not None:
        return job.task.memory_limit_mib
    total = host.facts.memory_total_mib if host is not None else None
    limits = settings.memory_limit, settings.allowed.memory, total
    return min(limit for limit in limits if limit is not None)


def network_name(policy: str, settings: LabSettings) -> str:
    """Return the engine's word for a network policy."""
    return {"lab": settings.lab_network, "full": "bridge"}.get(policy, "none")


def workspace_folder(user: str, name: str) -> str:
    """Return what a user's workspace is called among the folders of jobs on a host."""
    return f"workspace-{hashlib.sha256(user.encode()).hexdigest()[:12]}-{name}"


def start_path(task: Task) -> str:
    """Return the folder of the container in which a task's script starts; UsageError for one that
    is not in its project."""
    path = PurePosixPath(WORKING_DIR, task.folder or "")
    if ".." in path.parts or not path.is_relative_to(WORKING_DIR):
        raise UsageError(
            "Wrong working folder",
            msg("{value} is not a folder of the project.", value=clean(task.folder or "", 200)),
            "Submit it from a folder of its project.",
        )
    return str(path)


def require_gang_network(task: Task, settings: LabSettings) -> None:
    """Raise UsageError for a task on several hosts where those could not talk to each other."""
    if task.hosts > 1 and (settings.gang_network != "host" or task.network == "none"):
        raise UsageError(
            "Hosts of one job must reach each other",
            f"{task.name} may use {task.hosts} hosts, and "
            + (
                "the lab keeps containers out of the hosts' network."
                if settings.gang_network != "host"
                else "its task says `network: none`."
            ),
            "Set `gang_network: host` in the lab's settings, or ask for one host.",
        )


def checkpoint_path(task: Task) -> str:
    """Return where a task finds its checkpoints in the container; "" when it keeps none.

    A relative path counts from the folder in which its script starts. UsageError for one that
    cannot be mounted.
    """
    if not task.checkpoint_dir:
        return ""
    path = PurePosixPath(start_path(task), task.checkpoint_dir)
    if (
        ".." in path.parts
        or len(path.parts) < 2
        or str(path) in (start_path(task), WORKING_DIR, RESULTS_DIR)
    ):
        raise UsageError(
            "Wrong checkpoint folder",
            msg(
                "`checkpoint_dir: {value}` cannot be a folder of its own.",
                value=clean(task.checkpoint_dir, 200),
            ),
            "Name one below the project, such as `checkpoints`, or an absolute path.",
        )
    return str(path)


def require_targets(task: Task) -> None:
    """Raise UsageError for a task with mounts that conflict with each other, or with the paths that
    gpuconsole uses in a container: the engine, as root, would write those into the host."""
    own = [WORKING_DIR, RESULTS_DIR, injected.FOLDER, *filter(None, (checkpoint_path(task),))]
    own_paths = [PurePosixPath(path) for path in own]
    targets = [_target(mount) for mount in task.mounts]
    for number, (mount, target) in enumerate(zip(task.mounts, targets, strict=True)):
        above = [
            other
            for other, mount in zip(targets, task.mounts, strict=True)
            if other in target.parents and not mount.read_only
        ]
        if any(own_path.is_relative_to(target) for own_path in own_paths):
            why = "it would hide what the job is started with"
        elif any(target.is_relative_to(own_path) for own_path in own_paths[1:]):
            why = "what lies there is the job's own"
        elif _is_systems(target):
            why = "what lies there is the system's"
        elif above:
            why = f"it lies in {above[0]}, which is mounted writable"
        elif target in targets[:number]:
            why = "something else is mounted there"
        else:
            continue
        raise UsageError(
            "Wrong mount",
            msg(
                "{value} cannot be mounted at {value2}: {why}.",
                value=clean(mount.source, 200),
                value2=clean(mount.target, 200),
                why=why,
            ),
            "Choose another folder of the container, such as /data.",
        )


def _target(mount: Mount) -> PurePosixPath:
    """Return where something is mounted, as the engine reads it."""
    return PurePosixPath(posixpath.normpath("/" + mount.target.lstrip("/")))


def _is_systems(path: PurePosixPath) -> bool:
    if path.is_relative_to("/dev/shm"):
        return False
    return any(path.is_relative_to(system) for system in ("/proc", "/sys", "/dev"))


def require_safe_source(mount: Mount) -> None:
    """Raise UsageError for a mount from within what jobs have written.

    An engine follows links as root, and any part of a path in there may have become one.
    """
    parts = PurePosixPath(posixpath.normpath(mount.source)).parts
    for end in range(2, len(parts) - 1):
        if parts[end - 2 : end] == _RESULTS_HOME:
            whole = clean(str(PurePosixPath(*parts[: end + 1])), 300)
            raise UsageError(
                "A mount lies in a job's results",
                msg(
                    "{value} is what a job has written, which may be a "
                    "link to anywhere on the host.",
                    value=clean(mount.source, 300),
                ),
                msg("Mount {whole} as a whole, and let the script look below it.", whole=whole),
            )


def _own_mounts(task: Task, account: HostAccount, workspace: str) -> tuple[Mount, ...]:
    mounts = [Mount(account.results_dir, RESULTS_DIR, read_only=False)]
    if workspace:
        mounts.append(Mount(workspace, WORKING_DIR, read_only=False))
    if target := checkpoint_path(task):
        mounts.append(Mount(account.checkpoint_dir, target, read_only=False))
    return tuple(mounts)


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


def _environment(
    job: Job, attempt: Attempt, meeting: Meeting | None, longest_s: float | None
) -> dict[str, str]:
    given = {
        "GPUCONSOLE_JOB": job.id,
        "GPUCONSOLE_ATTEMPT": str(attempt.number),
        "GPUCONSOLE_RESULTS": RESULTS_DIR,
        # Paddle's default, and the allocator that the estimate has simulated.
        "FLAGS_allocator_strategy": "auto_growth",
    }
    if job.task.backend != "cpu" and attempt.device_uuids:
        # The reporter holds what Paddle finds against it.
        given[WANTED] = job.task.backend
    limit = time_limit(job.task, longest_s)
    if limit is not None:
        given["GPUCONSOLE_TIME_LIMIT"] = f"{limit.seconds:.0f}"
    if job.estimate_mib is not None:
        given["GPUCONSOLE_ESTIMATE_MIB"] = f"{job.estimate_mib:.0f}"
    if job.task.folder or job.task.kind in SESSIONS:
        # Not the folder in which it starts, as an engine's container would have it.
        given["HOME"] = WORKING_DIR
    if job.task.checkpoint_dir:
        given["GPUCONSOLE_CHECKPOINT"] = checkpoint_path(job.task)
    if meeting is not None:
        names = ("GLOO_SOCKET_IFNAME", _INTERFACE.get(job.task.backend, "NCCL_SOCKET_IFNAME"))
        given.update(dict.fromkeys(names, meeting.interface))
    own = {name: value for name, value in given.items() if name not in job.task.secrets}
    return {**own, **job.task.env}


def labels_of(job: Job, attempt: Attempt, journal: str) -> dict[str, str]:
    """Return the labels by which an attempt's container is recognised."""
    values = {
        "job": job.id,
        "attempt": attempt_key(job.id, attempt.number),
        "user": job.user,
        "name": clean(job.task.name, 128),
        "journal": journal,
        "nonce": nonce_of(attempt.container_name),
    }
    return {
        **{LABEL_PREFIX + name: value for name, value in values.items()},
        KIND_LABEL: job.task.kind,
    }
