"""A job as objects for a Kubernetes cluster, and what they leave to a person, as comments."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import yaml

from gpuconsole.core.containers import CHECKPOINT_FOLDER, ContainerSpec, HostAccount
from gpuconsole.core.engines import kubernetes
from gpuconsole.core.engines.device_requests import environment
from gpuconsole.core.engines.kubernetes import (
    RANK,
    Folder,
    NodeRequirement,
    Workload,
    pod_name,
    secret_name,
)
from gpuconsole.core.engines.kubernetes_names import (
    MEMORY_LABELS,
    RESOURCES,
    TYPE_LABELS,
    label_key,
    label_value,
    label_word,
    object_name,
    type_values,
)
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Attempt, Job, Mount, Task
from gpuconsole.core.submission.secrets import withheld
from gpuconsole.core.submission.time_limits import time_limit
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib, parse_time
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement.launch_command import Meeting, meeting_port
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import (
    RESULTS_DIR,
    checkpoint_path,
    container_spec,
)
from gpuconsole.session.submit.pack import pack_project

LARGEST_BUNDLE = 900 * 1024
"""Bytes: a ConfigMap holds 1 MiB, and something is around it."""
LONGEST_KEPT_S = 2.0**31 - 1
"""What the field of 32 bits holds."""
UNNAMED = "JOB"
"""The id of a task that is not queued."""


def manifest(context: Context, job: Job) -> str:
    """Return the YAML documents that run a job's task in a cluster, with what remains to be done
    as comments before them. UsageError for a task that no cluster could read."""
    work, notes = _Rendering(context, job).workload()
    head = "".join(f"# {clean(line, 400)}\n" for line in notes)
    documents = yaml.dump_all(
        kubernetes.objects(work), Dumper=_Plain, sort_keys=False, width=4096, allow_unicode=True
    )
    return f"{head}{documents}".rstrip("\n")


class _Rendering:
    """One job on its way into a cluster; collects notes."""

    def __init__(self, context: Context, job: Job) -> None:
        self._context = context
        self._job = job
        self._task = job.task
        self._settings = context.settings
        self._cluster = context.settings.kubernetes
        self._notes: list[str] = []

    def workload(self) -> tuple[Workload, list[str]]:
        """Return what is to be written, and the notes."""
        task, packed = self._task, self._packed()
        name = _name_of(self._job, packed)
        pods, each = _divided(task)
        spec = self._spec(name, pods, each)
        secrets = withheld(task.env, task.secrets)
        if secrets:
            self._note(
                f"Secret, so without values here: {', '.join(sorted(secrets))}. Write NAME=VALUE of"
                " each into a file and run: kubectl create secret generic"
                f" {secret_name(name)} --from-env-file=FILE"
            )
        resource = self._resource()
        bundle = self._bundle(name, packed)
        work = Workload(
            name=name,
            image=spec.image,
            command=_command(spec.command, len(task.args) + 1 if task.script else 0),
            working_dir=spec.working_dir,
            labels=self._labels(),
            annotations=self._annotations(),
            env=_environment(spec, task, secrets),
            secrets=tuple(sorted(secrets)),
            resource=resource,
            devices=each,
            pods=pods,
            uid=int(spec.user.partition(":")[0]),
            gid=int(spec.user.partition(":")[2]),
            memory_limit_mib=spec.memory_limit_mib,
            memory_request_mib=self._memory_request(spec),
            cpus=spec.cpus,
            shm_mib=spec.shm_size_mib,
            bundle=bundle,
            code_claim=self._cluster.code_claim,
            folders=tuple(self._folders(name, pods)),
            required=tuple(self._required(resource, each * pods)),
            preferred=tuple(self._preferred(resource)),
            tolerated=tuple(self._tolerated(resource)),
            retries=task.retries,
            seconds=self._seconds(),
            kept_s=int(min(self._settings.retention.jobs, LONGEST_KEPT_S)),
            grace_s=max(1, round(self._settings.stop_grace)),
            isolated=(task.network or self._settings.network) == "none",
        )
        return work, self._summary(work)

    # -- the container ----------------------------------------------------------------------

    def _spec(self, name: str, pods: int, each: int) -> ContainerSpec:
        job, task = self._job, self._task
        meeting = None
        if pods > 1:
            # Rank 0 opens the meeting when its own address is the master's, letter by letter.
            master = f"{pod_name(name, '0')}:{meeting_port(name, ())}"
            meeting = Meeting(master, name, pods, RANK, pod_name(name, RANK), "eth0")
        return container_spec(
            replace(job, id=name) if job.id == UNNAMED else job,
            # Without devices: the cluster's plugin hands them over.
            Attempt(1, "", container_name=name),
            command=self._context.command(task, each, meeting),
            image=task.image or self._image(),
            # A cluster knows no account of ours; its storage decides who may write.
            account=HostAccount(1000, 1000, ""),
            journal=self._context.journal.id,
            settings=self._settings,
            host=None,
            meeting=meeting,
        )

    def _image(self) -> str:
        """Return the image that a host with such devices has for tasks that name none."""
        backend, hosts = self._task.backend, self._context.hosts.snapshot().hosts
        fitting = [host.name for host in hosts if any(d.backend == backend for d in host.devices)]
        image = self._settings.images.get(cast(Backend, backend), "")
        # If the host is unknown the usual image is named, which is built for CUDA.
        if not image and (fitting or backend in ("gpu", "cpu")):
            image = self._context.default_image(fitting[0] if fitting else "")
        if not image:
            raise UsageError(
                "No image",
                msg("The task names no image, and the lab none for {backend}.", backend=backend),
                "Name one with --image or in the task, or under `images` in the settings.",
            )
        return image

    def _memory_request(self, spec: ContainerSpec) -> float | None:
        if self._task.memory_limit_mib is not None:
            return self._task.memory_limit_mib
        limit = spec.memory_limit_mib
        return None if limit is None else min(limit, self._cluster.memory_request)

    def _bundle(self, name: str, packed: bytes) -> bytes | None:
        """Return the packed project where there is one and it fits into a ConfigMap."""
        if len(packed) <= LARGEST_BUNDLE:
            return packed or None
        size = format_mib(len(packed) / MIB)
        claim = self._cluster.code_claim
        if claim:
            self._note(
                f"The project is too large for a ConfigMap ({size} packed): unpack it into the"
                f" folder {name} of the claim {claim} before."
            )
        else:
            self._note(
                f"The project is too large for a ConfigMap ({size} packed). Build it into the image"
                " (`workspace` below would hide it: remove that volume), clone it in an init"
                " container, or name a claim for it as `kubernetes.code_claim`."
            )
        return None

    def _packed(self) -> bytes:
        """Return the project, packed; nothing for a task without a script."""
        if not self._task.script:
            return b""
        bundle = self._context.bundle(self._job.id)
        if self._job.id != UNNAMED:
            if bundle.exists():
                return bundle.read_bytes()
            self._note("The project as it was submitted is no longer kept; this is how it is now.")
        with tempfile.TemporaryDirectory(prefix="gpuconsole-render-") as folder:
            target = Path(folder) / "project.tar.gz"
            packed = pack_project(self._task, target, self._settings.code_size_limit)
            for sentence in packed.skipped:
                self._note(sentence)
            return target.read_bytes()

    def _folders(self, name: str, pods: int) -> Iterator[Folder]:
        claim, task = self._cluster.claim, self._task
        inside = f"{name}/results" + (f"/{RANK}" if pods > 1 else "")
        yield Folder(RESULTS_DIR, claim, inside)
        if target := checkpoint_path(task):
            # One for all ranks: each continues from what rank 0 has saved.
            yield Folder(target, claim, f"{name}/{CHECKPOINT_FOLDER}")
        if not claim:
            self._note(
                "No claim is named (`kubernetes.claim` in the settings): results"
                + (" and checkpoints" if task.checkpoint_dir else "")
                + " go with the pod."
            )
        for mount in task.mounts:
            yield self._mounted(mount)

    def _mounted(self, mount: Mount) -> Folder:
        for path, claim in self._cluster.volumes.items():
            top = path.rstrip("/")
            if mount.source == top or mount.source.startswith(f"{top}/"):
                inside = mount.source[len(top) :].strip("/")
                return Folder(mount.target, claim, inside, read_only=mount.read_only)
        self._note(
            f"{mount.source} must be on every node, and the namespace must allow hostPath; or name"
            " a claim that holds it under `kubernetes.volumes`."
        )
        return Folder(mount.target, node_path=mount.source, read_only=mount.read_only)

    # -- where it may run -------------------------------------------------------------------

    def _resource(self) -> str:
        backend = self._task.backend
        if backend == "cpu":
            return ""
        resource = self._cluster.resources.get(backend) or RESOURCES.get(backend, "")
        if not resource:
            raise UsageError(
                "Unknown kind of device",
                msg("What a cluster calls a {backend} is not known.", backend=backend),
                msg(
                    "Say it in the settings: `kubernetes: {resources: {{kind}: …}}`.", kind=backend
                ),
            )
        return resource

    def _required(self, resource: str, devices: int) -> Iterator[NodeRequirement]:
        task = self._task
        for key, value in task.labels.items():
            yield (
                NodeRequirement(label_key(key), "In", (label_value(value),))
                if value
                else NodeRequirement(label_key(key), "Exists")
            )
        for key, value in task.anti_labels.items():
            if value:
                yield NodeRequirement(label_key(key), "NotIn", (label_value(value),))
            else:
                yield NodeRequirement(label_key(key), "DoesNotExist")
        if not task.checkpoint_dir:
            for key, value in self._cluster.interruptible.items():
                yield NodeRequirement(key, "NotIn", (value,))
        if requirement := self._memory(resource, devices):
            yield requirement

    def _memory(self, resource: str, devices: int) -> NodeRequirement | None:
        """Return what the estimate asks of a device."""
        estimate, task = self._job.estimate_mib, self._task
        if not resource:
            return None
        if estimate is None:
            self._note("Its memory is unknown, so any device will be taken.")
            return None
        if task.distributed_strategy == "sharding" and devices > 1:
            self._note("Devices share its memory, so none is asked of each.")
            return None
        needed = math.ceil(estimate / task.threshold(self._settings.memory_threshold))
        if resource not in MEMORY_LABELS:
            self._note(
                f"It needs devices of {format_mib(needed)} or more; no label of such nodes says"
                " how much theirs have, so choose them by type."
            )
            return None
        return NodeRequirement(MEMORY_LABELS[resource], "Gt", (str(needed - 1),))

    def _preferred(self, resource: str) -> Iterator[NodeRequirement]:
        wanted = self._task.preferred_devices
        label = self._cluster.type_label or TYPE_LABELS.get(resource, "")
        if wanted and resource and not label:
            self._note(
                f"It would rather have {', '.join(wanted)}; name the label of nodes that tells"
                " the type as `kubernetes.type_label`."
            )
        elif resource:
            for name in wanted:
                yield NodeRequirement(label, "In", type_values(name, self._cluster.types))

    def _tolerated(self, resource: str) -> Iterator[str]:
        if resource:
            yield resource
        if self._task.checkpoint_dir:
            yield from self._cluster.interruptible

    # -- the rest ---------------------------------------------------------------------------

    def _seconds(self) -> int | None:
        """Return after how many seconds the cluster ends it: at its time limit, or its deadline."""
        limit = time_limit(self._task, self._context.settings.limits.time_limit)
        limits = [self._until_deadline(), None if limit is None else math.ceil(limit.seconds)]
        return min((seconds for seconds in limits if seconds is not None), default=None)

    def _until_deadline(self) -> int | None:
        if not self._task.deadline:
            return None
        left = math.floor(parse_time(self._task.deadline) - self._context.clock.now())
        if left <= 0:
            self._note(f"Its deadline {self._task.deadline} is over.")
            return None
        self._note(
            f"activeDeadlineSeconds is what is left now until {self._task.deadline}; the cluster"
            " ends it then, the console would not."
        )
        return left

    def _labels(self) -> dict[str, str]:
        labels = {"app.kubernetes.io/managed-by": "gpuconsole"}
        named = self._job.id if self._job.id != UNNAMED else ""
        for key, word in (("job", named), ("user", self._job.user)):
            if value := label_word(word):
                labels[f"gpuconsole/{key}"] = value
        return labels

    def _annotations(self) -> dict[str, str]:
        annotations = {"gpuconsole/task": clean(self._task.name, 200)}
        if self._job.estimate_mib is not None:
            annotations["gpuconsole/estimate-mib"] = f"{self._job.estimate_mib:.0f}"
        return annotations

    def _note(self, sentence: str) -> None:
        self._notes.append(sentence)

    def _summary(self, work: Workload) -> list[str]:
        task = self._task
        count = work.devices if work.resource else 0
        kind = f"{work.pods} pods, each" if work.gang else "a pod"
        verb = "create" if work.bundle is not None and len(work.bundle) > 180 * 1024 else "apply"
        head = [
            f"{task.name}: {kind} with {count} {'device' if count == 1 else 'devices'}."
            f" Start it with: kubectl {verb} -f FILE"
        ]
        if work.gang:
            self._note(
                "A pod that is lost ends the whole job; create it again, and it goes on from its"
                " checkpoint if it keeps one."
            )
        for applies, said in (
            (task.priority, f"Priority {task.priority}: name a priorityClassName of the cluster."),
            (task.after, "It waits for other jobs here; in the cluster somebody has to."),
            (task.share, "It may share its device here; in the cluster it has it alone."),
            (task.devices is None, "It leaves the number of devices open; this asks for one."),
        ):
            if applies:
                self._note(said)
        return head + [f"- {sentence}" for sentence in self._notes]


def _divided(task: Task) -> tuple[int, int]:
    """Return pods and devices of each."""
    count = task.devices or 1
    pods = task.hosts if task.hosts > 1 and count % task.hosts == 0 else 1
    return pods, count // pods


def _command(words: Sequence[str], own: int) -> tuple[str, ...]:
    """Return the command; the last `own` words are the user's, in which a `$` is a `$`."""
    first = len(words) - own
    return (*words[:first], *map(kubernetes.literal, words[first:]))


def _environment(spec: ContainerSpec, task: Task, secrets: Collection[str]) -> dict[str, str]:
    """Return the container's variables, without those by which a runtime hands devices over: here
    the device plugin does; nor the number of a try, which the cluster counts; nor secrets."""
    given = environment(spec)
    ours = {"NVIDIA_VISIBLE_DEVICES", "GPUCONSOLE_ATTEMPT"} - task.env.keys()
    return {name: value for name, value in given.items() if name not in (*ours, *secrets)}


def _name_of(job: Job, packed: bytes) -> str:
    """Return the name of all objects of a job. A cluster keeps most of an object as it was made, so
    a task that is not queued gets another name with every change of it or of its code."""
    identity = job.id
    if identity == UNNAMED:
        seed = repr(job.task).encode(errors="replace") + packed
        identity = hashlib.sha256(seed).hexdigest()[:8]
    return object_name(job.task.name, identity)


class _Plain(yaml.SafeDumper):
    """Writes everything in place, without anchors: people read it."""

    def ignore_aliases(self, data: object) -> bool:
        """Nothing is referred to."""
        return True
