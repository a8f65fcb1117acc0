"""Jobs that go to a cluster which Slurm runs: what is asked of it, and what the console leaves.

A task goes there when its labels say so, `slurm: NAME`; where every host of the lab is such a
cluster, it is added. The console places nothing there and knows no turn: it hands a job over as
soon as nothing of its own keeps it, and Slurm decides where and when it runs.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from gpuconsole.config import LimitsSection
from gpuconsole.core.containers import (
    CHECKPOINT_FOLDER,
    ContainerSpec,
    HostAccount,
)
from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.engines.batch_job import CLUSTER_LABEL, WAITS, Batch
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.submission.time_limits import time_limit
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import UsageError
from gpuconsole.placement import Decision
from gpuconsole.placement.launch_command import launch_command
from gpuconsole.placement.model import Waiting
from gpuconsole.session.dispatch.attempt.container_spec import (
    WORKING_DIR,
    checkpoint_path,
    labels_of,
    start_path,
)
from gpuconsole.session.queue.dependencies import Order
from gpuconsole.session.queue.planner import Choice, Plan, Situation, Why

WORDS = ("partition", "qos", "constraint")
"""Other labels of such a task: options of sbatch."""
DECIDES = (
    "Slurm decides where and when it runs: the console's order, quotas and leases do not count "
    "there."
)
LIMIT_MARGIN_S = 60.0
"""Slurm counts in minutes."""
TIME_MARGIN = 1.5
"""Slurm ends a job at its time limit; `run_time` says how long it should take, not at most."""


def cluster_of(task: Task) -> str:
    """Return the cluster to which a task goes; "" for one that the console places."""
    return task.labels.get(CLUSTER_LABEL, "")


def resolved(task: Task, snapshot: FleetSnapshot) -> Task:
    """Return the task with its cluster named, where it can only go to one.

    UsageError for a cluster that is not there, and for what cannot be asked of one.
    """
    clusters = [host.name for host in snapshot.hosts if host.name == host.cluster]
    if not cluster_of(task) and len(clusters) == 1 and all(host.cluster for host in snapshot.hosts):
        task = replace(task, labels={**task.labels, CLUSTER_LABEL: clusters[0]})
    name = cluster_of(task)
    if not name:
        return task
    if name not in clusters:
        names = ", ".join(clusters) or "none"
        raise UsageError(
            "No such cluster",
            msg("No host is called {value} and runs Slurm.", value=f"{clean(name, 80)!r}"),
            msg("Clusters of the inventory: {known}.", known=names),
        )  # fmt: skip
    unknown = [
        key for key in (*task.labels, *task.anti_labels) if key not in (CLUSTER_LABEL, *WORDS)
    ]
    if unknown or task.anti_labels:
        raise UsageError(
            "Slurm does not know this label",
            msg(
                "{value} cannot be asked of {name}.",
                value=clean(", ".join(unknown) or ", ".join(task.anti_labels), 80),
                name=name,
            ),
            msg("Use {names}, which are sbatch's.", names=", ".join(WORDS)),
        )
    if task.mounts:
        raise UsageError(
            "Slurm mounts nothing",
            msg(
                "{name} has `mounts:`, and {name2} runs it on the nodes themselves.",
                name=task.name,
                name2=name,
            ),
            "Let the script read from the cluster's shared filesystem.",
        )
    require_even(task)
    return task


def require_even(task: Task) -> None:
    """Raise UsageError for a task with devices that cannot be spread evenly over its nodes."""
    if (task.devices or 1) % task.hosts:
        raise UsageError(
            "Devices do not divide among hosts",
            msg(
                "{devices} devices cannot be spread evenly over {hosts} nodes.",
                devices=task.devices,
                hosts=task.hosts,
            ),
            "Ask for a multiple of the nodes.",
        )


def reach(task: Task, snapshot: FleetSnapshot) -> FleetSnapshot:
    """Return the part of the fleet on which a task may run."""
    name = cluster_of(task)
    hosts = tuple(host for host in snapshot.hosts if host.cluster == name)
    return snapshot if len(hosts) == len(snapshot.hosts) else replace(snapshot, hosts=hosts)


def without_clusters(snapshot: FleetSnapshot) -> FleetSnapshot:
    """Return the picture for placement: hosts on which the console decides."""
    if not any(host.cluster for host in snapshot.hosts):
        return snapshot
    return replace(snapshot, hosts=tuple(host for host in snapshot.hosts if not host.cluster))


def hand_over(situation: Situation, plan: Plan) -> Plan:
    """Hand jobs for clusters over at once: a step of planning."""
    jobs = situation.jobs
    ours = [job for job in jobs if job.state is JobState.QUEUED and cluster_of(job.task)]
    if not ours:
        return plan
    hosts = {host.name: host for host in situation.fleet.hosts}
    order, by_id = Order(jobs), {job.id: job for job in jobs}
    handed_over = Counter((job.user, job.task.sweep) for job in jobs if job.state.active)
    choices: list[Choice] = []
    waiting: dict[str, Why] = {}
    for job in ours:
        name = cluster_of(job.task)
        why = _hindrance(job, hosts.get(name)) or _held_back(job, order, by_id, jobs)
        why = why or _full_sweep(job, handed_over)
        if why is None:
            handed_over[job.user, job.task.sweep] += 1
            choices.append(Choice(job.id, name, (), (), (DECIDES,)))
        else:
            waiting[job.id] = why
    return plan.plus(Plan(tuple(choices), waiting))


def needed_runs(task: Task, jobs: Iterable[Job], cluster: str) -> tuple[str, ...]:
    """Return the runs on a cluster that must end well before a task begins."""
    needed = set(task.after)  # Those of other kinds are waited for here: none of their names match.
    return tuple(
        job.attempt.container_name
        for job in jobs
        if (job.id in needed or job.task.sweep in needed)
        and job.state.active
        and job.attempt is not None
        and job.attempt.host == cluster
    )


def _slurm_limit_s(task: Task, limits: LimitsSection) -> float | None:
    """Return the time limit that Slurm gets. Where the queue has one itself, Slurm's comes after
    it and its grace: it ends what no console is there to end."""
    limit = time_limit(task, limits.time_limit)
    if limit is not None:
        return limit.seconds + limits.grace + LIMIT_MARGIN_S
    return None if task.run_time_s is None else task.run_time_s * TIME_MARGIN


def batch_of(
    job: Job, snapshot: FleetSnapshot, jobs: Iterable[Job], limits: LimitsSection
) -> Batch:
    """Return what is asked of Slurm for a job."""
    task, cluster = job.task, cluster_of(job.task)
    path = checkpoint_path(task)
    devices = 0 if task.backend == "cpu" else (task.devices or 1) // task.hosts
    return Batch(
        devices=devices,
        nodes=task.hosts,
        kind=kind_of(job, snapshot) if devices else "",
        memory_mib=task.memory_limit_mib,
        time_s=_slurm_limit_s(task, limits),
        partition=task.labels.get("partition", ""),
        account=task.account,
        qos=task.labels.get("qos", ""),
        constraint=task.labels.get("constraint", ""),
        after=needed_runs(task, jobs, cluster),
        array=task.sweep,
        link=(path, CHECKPOINT_FOLDER) if path else None,
    )


def batch_spec(
    job: Job,
    attempt: Attempt,
    batch: Batch,
    *,
    image: str,
    account: HostAccount,
    journal: str,
) -> ContainerSpec:
    """Return the run of an attempt on a cluster. Its paths are the cluster's own: whatever
    container a node puts around it sees them unchanged."""
    results = account.results_dir
    env = {
        "PYTHONUNBUFFERED": "1",
        "GPUCONSOLE_JOB": job.id,
        "GPUCONSOLE_ATTEMPT": str(attempt.number),
        "GPUCONSOLE_RESULTS": results,
        # Paddle's default, and the allocator that the estimate has simulated.
        "FLAGS_allocator_strategy": "auto_growth",
    }
    if job.estimate_mib is not None:
        env["GPUCONSOLE_ESTIMATE_MIB"] = f"{job.estimate_mib:.0f}"
    if batch.link is not None:
        target = account.checkpoint_dir
        env["GPUCONSOLE_CHECKPOINT"] = target
        path = PurePosixPath(batch.link[0])
        inside = posixpath.relpath(path, start_path(job.task))
        batch = replace(batch, link=(inside, target) if path.is_relative_to(WORKING_DIR) else None)
    return ContainerSpec(
        name=attempt.container_name,
        image=image,
        working_dir=start_path(job.task),
        command=command_of(job.task, batch),
        env={
            **{name: value for name, value in env.items() if name not in job.task.secrets},
            **job.task.env,
        },
        secrets=job.task.secrets,
        labels=labels_of(job, attempt, journal),
        backend=job.task.backend,
        batch=batch,
    )


def command_of(task: Task, batch: Batch) -> tuple[str, ...]:
    """Return the command that each node of a run starts.

    Which devices they are, Slurm tells it; the launcher takes all that it is given.
    """
    if batch.nodes == 1 and batch.devices <= 1:
        return launch_command(task, 1)
    python, *rest = launch_command(task, 1)
    return (python, "-m", "paddle.distributed.launch", *rest)


def kind_of(job: Job, snapshot: FleetSnapshot) -> str:
    """Return the type of device to ask for: a preferred one, else one that fits where not all do;
    "" where any will do or nothing is known."""
    task, need = job.task, job.estimate_mib
    sizes: dict[str, float | None] = {}
    names: dict[str, str] = {}
    for host in snapshot.hosts:
        if host.cluster == cluster_of(task):
            for device in host.devices:
                sizes.setdefault(device.model, device.memory_total_mib)
                names[device.model] = device.gres
    matches = Catalogue.load().matches
    for wanted in task.preferred_devices:
        for model, size in sizes.items():
            if matches(wanted, model, size):
                return names[model]
    if need is None or any(size is None for size in sizes.values()):
        return ""
    known_sizes = {model: size for model, size in sizes.items() if size is not None}
    most = task.threshold(1.0)
    fitting = sorted((size, model) for model, size in known_sizes.items() if need <= size * most)
    return names[fitting[0][1]] if fitting and len(fitting) < len(known_sizes) else ""


def decision_there(task: Task, snapshot: FleetSnapshot) -> Decision | None:
    """Return the decision for a task that goes to a cluster; None for one that is placed here.

    UsageError as `resolved`.
    """
    task = resolved(task, snapshot)
    name = cluster_of(task)
    if not name:
        return None
    why = _hindrance(Job("", task, "", JobState.QUEUED, 0.0), snapshot.host(name))
    handed = sentences(msg("It is handed to {host}.", host=name), DECIDES)
    reason = handed if why is None else why.reason
    options = () if why is None else why.options
    return Decision("", None, (), (), Waiting(reason, (), None, options))


def waits_there(job: Job) -> bool:
    """Whether a job has been handed over and waits in a cluster's own queue."""
    return job.state is JobState.LAUNCHING and job.detail.startswith(WAITS)


def why_there(job: Job) -> Why:
    """Return why a job that was handed over waits there."""
    name = cluster_of(job.task)
    options = (msg("`scontrol show job` on {host} says more.", host=name), "Cancel it.")
    return Why(job.state.value, sentences(job.detail, DECIDES), options=options)


def _hindrance(job: Job, host: Host | None) -> Why | None:
    name = cluster_of(job.task)
    if host is None or host.cluster != name:
        reason = f"Its cluster {clean(name, 80)} is not in the inventory any more."
        return Why("queued", reason, options=("Put it back, or cancel the job.",))
    if host.state is not HostState.UP:
        reason = sentences(msg("Slurm on {host} cannot be asked now.", host=name), host.error)
        return Why("queued", reason, options=(msg("Look at {host}.", host=name),))
    if host.drained:
        return Why("queued", msg("{host} takes no new jobs: {why}.", host=name, why=host.drained))
    return None


def _held_back(job: Job, order: Order, by_id: Mapping[str, Job], jobs: Sequence[Job]) -> Why | None:
    """Return what a job waits for here; where all that it comes after was handed over to the same
    cluster, Slurm keeps the order."""
    why = order.held_back(job)
    if why is None:
        return None
    for needed in job.task.after:
        other = by_id.get(needed)
        group = [other] if other is not None else [it for it in jobs if it.task.sweep == needed]
        if not group or not all(_handed_over(it, cluster_of(job.task)) for it in group):
            return why
    return None


def _full_sweep(job: Job, running: Mapping[tuple[str, str], int]) -> Why | None:
    """Return why no further job of a sweep is handed over; `running` counts them by user and
    sweep."""
    sweep, most = job.task.sweep, job.task.at_most
    count = running.get((job.user, sweep), 0)
    if not sweep or most is None or count < most:
        return None
    return Why(
        "queued",
        msg(
            "Its sweep {name} may have {n} at once, and {all} are handed over.",
            name=sweep,
            n=most,
            all=count,
        ),
    )


def _handed_over(job: Job, cluster: str) -> bool:
    if job.state is JobState.SUCCEEDED:
        return True
    attempt = job.attempt
    return (
        job.state.active
        and attempt is not None
        and attempt.host == cluster
        and attempt.starting_at is not None
    )
