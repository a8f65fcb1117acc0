"""The objects of the Kubernetes API that equal a job: a Job, and what belongs to it.

Plain data for `batch/v1`, `v1` and `networking.k8s.io/v1`, as Kubernetes 1.29 and later read it:
the schema of those before wants more of a `podFailurePolicy`. Nothing here asks a cluster.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import field

from gpuconsole.core.engines.docker_command import DROPPED_CAPABILITIES
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass

Object = dict[str, object]

WORKSPACE, CODE, SHM = "/workspace", "/gpuconsole", "/dev/shm"
BUNDLE = "project.tar.gz"
RANK = "$(JOB_COMPLETION_INDEX)"
"""What Kubernetes puts the number of a pod for."""
MAIN = "main"
WAIT = """\
import socket, sys, time
for name in sys.argv[1:]:
    while True:
        try:
            socket.gethostbyname(name)
            break
        except OSError:
            time.sleep(1)
"""
JOB_LABEL = "batch.kubernetes.io/job-name"
"""What the Job controller puts on its pods, since 1.27."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the container, and where it comes from: a claim, else the node, else nowhere:
    then it goes with the pod."""

    target: str
    claim: str = ""
    inside: str = ""
    """The folder within the claim; may hold RANK."""
    node_path: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """What a label of a node must be: Kubernetes' `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything that decides how a job looks in a cluster."""

    name: str
    image: str
    command: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """May contain no references: `$` is a literal character."""
    secrets: tuple[str, ...] = ()
    """Variables with values in the Secret `secret_name`, which a person creates."""
    working_dir: str = WORKSPACE
    resource: str = ""
    """What the cluster calls such devices; "" for a job without."""
    devices: int = 1
    """Of each pod."""
    pods: int = 1
    uid: int = 1000
    gid: int = 1000
    memory_limit_mib: float | None = None
    memory_request_mib: float | None = None
    cpus: float | None = None
    shm_mib: float = 64.0
    bundle: bytes | None = None
    """The packed project where it is small enough to travel in a ConfigMap."""
    code_claim: str = ""
    """Where it is not: the claim that holds it, unpacked, in a folder of the job's name."""
    folders: tuple[Folder, ...] = ()
    required: tuple[NodeRequirement, ...] = ()
    preferred: tuple[NodeRequirement, ...] = ()
    """The first is preferred most."""
    tolerated: tuple[str, ...] = ()
    """Keys of taints."""
    retries: int = 0
    seconds: int | None = None
    """After which it is stopped, waiting and retries included."""
    kept_s: int | None = None
    """How long its pods and their logs are kept after its end."""
    grace_s: int = 30
    isolated: bool = True
    """Whether it reaches nothing but the pods of its own gang."""

    @property
    def gang(self) -> bool:
        """Whether several pods work together."""
        return self.pods > 1


def objects(work: Workload) -> list[Object]:
    """Return the objects in the order in which a cluster should get them."""
    documents = [_config_map(work)] if work.bundle is not None else []
    if work.isolated:
        documents.append(_policy(work))
    if work.gang:
        documents.append(_service(work))
    return [*documents, _job(work)]


def secret_name(name: str) -> str:
    """Return the name of the Secret from which a job's secret variables come."""
    return f"{name}-env"


def pod_name(name: str, rank: str) -> str:
    """Return the name by which the pods of a gang reach one of them."""
    return f"{name}-{rank}.{name}"


def literal(text: str) -> str:
    """Return a text so that Kubernetes, which replaces `$(NAME)`, leaves it as it is."""
    return text.replace("$", "$$")


def _meta(work: Workload) -> Object:
    return {"name": work.name, "labels": dict(work.labels)}


def _config_map(work: Workload) -> Object:
    assert work.bundle is not None
    data = base64.b64encode(work.bundle).decode("ascii")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(work),
        "immutable": True,
        "binaryData": {BUNDLE: data},
    }


def _service(work: Workload) -> Object:
    """Names for the pods; also before they are ready, for they wait for each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(work),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_LABEL: work.name},
        },
    }


def _policy(work: Workload) -> Object:
    own = {"podSelector": {"matchLabels": {JOB_LABEL: work.name}}}
    spec: Object = {**own, "policyTypes": ["Ingress", "Egress"]}
    if work.gang:
        dns = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
        spec["ingress"] = [{"from": [own]}]
        spec["egress"] = [{"to": [own]}, {"ports": dns}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _meta(work),
        "spec": spec,
    }


def _job(work: Workload) -> Object:
    spec: Object = {
        "parallelism": work.pods,
        "completions": work.pods,
        # Of a gang no pod can be replaced alone: the others have lost their partner.
        "backoffLimit": 0 if work.gang else work.retries,
        "podFailurePolicy": {
            "rules": [
                # The node went away, or somebody more important came: not the job's own fault.
                {
                    "action": "Count",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": MAIN, "operator": "NotIn", "values": [0]},
                },
            ]
        },
    }
    if work.gang:
        spec["completionMode"] = "Indexed"
    if work.seconds is not None:
        spec["activeDeadlineSeconds"] = work.seconds
    if work.kept_s is not None:
        spec["ttlSecondsAfterFinished"] = work.kept_s
    spec["template"] = {"metadata": {"labels": dict(work.labels)}, "spec": _pod(work)}
    meta = {**_meta(work), "annotations": dict(work.annotations)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _pod(work: Workload) -> Object:
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": work.grace_s,
        # A training script has no business with the cluster's API.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": work.uid,
            "runAsGroup": work.gid,
            "fsGroup": work.gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if work.gang:
        pod["subdomain"] = work.name
    if affinity := _affinity(work):
        pod["affinity"] = {"nodeAffinity": affinity}
    if work.tolerated:
        pod["tolerations"] = [{"key": key, "operator": "Exists"} for key in work.tolerated]
    before = [_unpacking(work)] if work.bundle is not None else []
    before += [_meeting(work)] if work.gang else []
    if before:
        pod["initContainers"] = before
    pod["containers"] = [_main(work)]
    pod["volumes"] = _volumes(work)
    return pod


def _affinity(work: Workload) -> Object:
    affinity: Object = {}
    if work.required:
        term = {"matchExpressions": [_expression(requirement) for requirement in work.required]}
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    if work.preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": max(1, 100 - 10 * place),
                "preference": {"matchExpressions": [_expression(requirement)]},
            }
            for place, requirement in enumerate(work.preferred)
        ]
    return affinity


def _expression(requirement: NodeRequirement) -> Object:
    expression: Object = {"key": requirement.key, "operator": requirement.operator}
    return {**expression, "values": list(requirement.values)} if requirement.values else expression


def _confined() -> Object:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": list(DROPPED_CAPABILITIES)},
    }


def _unpacking(work: Workload) -> Object:
    return {
        "name": "code",
        "image": work.image,
        # The image's own Python is there for certain; tar need not be.
        "command": ["python", "-m", "tarfile", "-e", f"{CODE}/{BUNDLE}", WORKSPACE],
        "securityContext": _confined(),
        "volumeMounts": [
            {"name": "code", "mountPath": CODE, "readOnly": True},
            {"name": "workspace", "mountPath": WORKSPACE},
        ],
    }


def _meeting(work: Workload) -> Object:
    """Wait until the names of all pods are known: Paddle's launcher ends at one that is not, and
    a name comes some seconds after its pod."""
    names = [pod_name(work.name, str(number)) for number in range(work.pods)]
    return {
        "name": "peers",
        "image": work.image,
        "command": ["python", "-c", WAIT, *names],
        "securityContext": _confined(),
    }


def _main(work: Workload) -> Object:
    env: list[Object] = [
        {"name": name, "value": literal(value)} for name, value in work.env.items()
    ]
    for name in work.secrets:
        key = {"name": secret_name(work.name), "key": name}
        env.append({"name": name, "valueFrom": {"secretKeyRef": key}})
    return {
        "name": MAIN,
        "image": work.image,
        "command": list(work.command),
        "workingDir": work.working_dir,
        "env": env,
        "resources": _resources(work),
        "securityContext": _confined(),
        "volumeMounts": _mounts(work),
    }


def _resources(work: Workload) -> Object:
    limits: Object = {}
    if work.resource:
        limits[work.resource] = str(work.devices)
    if work.memory_limit_mib is not None:
        limits["memory"] = quantity(work.memory_limit_mib)
    requests: Object = {}
    if work.memory_request_mib is not None:
        requests["memory"] = quantity(work.memory_request_mib)
    if work.cpus is not None:
        limits["cpu"] = requests["cpu"] = f"{work.cpus:g}"
    return {"limits": limits, **({"requests": requests} if requests else {})}


def quantity(size_mib: float) -> str:
    """Return a size as Kubernetes writes it."""
    return f"{int(size_mib)}Mi" if size_mib == int(size_mib) else str(math.ceil(size_mib * MIB))


def _mounts(work: Workload) -> list[Object]:
    own: list[Object] = [{"name": "workspace", "mountPath": WORKSPACE}]
    if work.bundle is None and work.code_claim:
        own[0]["subPath"] = work.name
    own.append({"name": "shm", "mountPath": SHM})
    for number, folder in enumerate(work.folders):
        mount: Object = {"name": _volume_name(work, number), "mountPath": folder.target}
        if folder.claim and folder.inside:
            by_rank = RANK in folder.inside
            mount["subPathExpr" if by_rank else "subPath"] = folder.inside
        if folder.read_only:
            mount["readOnly"] = True
        own.append(mount)
    return own


def _volumes(work: Workload) -> list[Object]:
    held = work.bundle is None and work.code_claim
    workspace: Object = (
        {"persistentVolumeClaim": {"claimName": work.code_claim}} if held else {"emptyDir": {}}
    )
    volumes: list[Object] = [{"name": "workspace", **workspace}]
    if work.bundle is not None:
        volumes.append({"name": "code", "configMap": {"name": work.name}})
    memory = {"medium": "Memory", "sizeLimit": quantity(work.shm_mib)}
    volumes.append({"name": "shm", "emptyDir": memory})
    for number, folder in enumerate(work.folders):
        name = _volume_name(work, number)
        if any(volume["name"] == name for volume in volumes):
            continue
        volumes.append({"name": name, **_source(folder)})
    return volumes


def _source(folder: Folder) -> Object:
    if folder.claim:
        return {"persistentVolumeClaim": {"claimName": folder.claim}}
    if folder.node_path:
        return {"hostPath": {"path": folder.node_path, "type": "Directory"}}
    return {"emptyDir": {}}


def _volume_name(work: Workload, number: int) -> str:
    """Return the name of a folder's volume: one for all folders of a claim."""
    folder = work.folders[number]
    if folder.claim:
        first = next(n for n, other in enumerate(work.folders) if other.claim == folder.claim)
        return f"claim-{first}"
    return f"folder-{number}"
