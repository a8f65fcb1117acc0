"""A job as objects for Kubernetes, held against the official schema of its API."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuconsole.cli.entry import main
from gpuconsole.config import KubernetesSection, LabSettings
from gpuconsole.core.engines.kubernetes import WAIT, literal
from gpuconsole.core.engines.kubernetes_names import (
    LONGEST_NAME,
    RESOURCES,
    object_name,
    type_values,
)
from gpuconsole.core.estimate import MEMORY_THRESHOLD
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Job, JobState, Mount, Task
from gpuconsole.errors import UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.export.kubernetes import LARGEST_BUNDLE, UNNAMED, manifest
from gpuconsole.session.export.render import rendered, unqueued
from gpuconsole.session.factory import NoHosts
from gpuconsole.session.submit.pack import pack_project
from gpuconsole.state import Journal
from tests.session.fakes import START, VirtualClock
from tests.waiting import DEADLINE_S

DOCS = Path(__file__).resolve().parents[3] / "docs" / "kubernetes.md"
VERSIONS = ("1.29", "1.33", "1.37")
"""The first that reads our `podFailurePolicy`, one between, the newest of the package."""
NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
TRAINING = """import paddle
net = paddle.nn.Linear(256, 10)
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(3):
    loss = net(paddle.randn([64, 256])).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
WORDS = st.characters(codec="utf-8", exclude_characters="\0")
Write = Callable[..., tuple[dict[str, Any], list[str]]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("import paddle, net\n")
    (folder / "net.py").write_text("layers = 3\n")
    return folder


@pytest.fixture
def task(project: Path) -> Task:
    return Task("Train #1", str(project / "train.py"), project=str(project), image="lab/paddle:3")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    clock = VirtualClock()
    journal = Journal(tmp_path / "state", clock=clock.now)
    return Context(
        hosts=NoHosts(), journal=journal, clock=clock,
        settings=LabSettings(), user="ann", pack=pack_project,
        default_image=lambda _: "lab/default:1",
    )  # fmt: skip


@pytest.fixture
def write(context: Context) -> Write:
    """Return the objects by kind, checked, and the notes."""

    def objects(
        task: Task, estimate_mib: float | None = 9000.0, job_id: str = UNNAMED, **cluster: Any
    ) -> tuple[dict[str, Any], list[str]]:
        lab = replace(
            context,
            settings=context.settings.model_copy(
                update={"kubernetes": KubernetesSection(**cluster)}
            ),
        )
        job = Job(job_id, task, "ann", JobState.QUEUED, START, estimate_mib=estimate_mib)
        return parsed(manifest(lab, job))

    return objects


def parsed(text: str, versions: Sequence[str] = VERSIONS[-1:]) -> tuple[dict[str, Any], list[str]]:
    notes = [line[2:] for line in text.splitlines() if line.startswith("#")]
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        for version in versions:
            kubernetes_validate.validate(document, version, strict=True)
        assert NAME.fullmatch(document["metadata"]["name"])
        assert all(LABEL_VALUE.fullmatch(v) for v in document["metadata"]["labels"].values())
    by_kind = {document["kind"]: document for document in documents}
    assert len(by_kind) == len(documents)
    assert len({document["metadata"]["name"] for document in documents}) == 1
    assert documents[-1]["kind"] == "Job", "what it needs is there before it"
    _holds_together(by_kind)
    return by_kind, notes


def _holds_together(objects: dict[str, Any]) -> None:
    """What a schema cannot say: names that refer to each other do."""
    job = objects["Job"]
    spec = job["spec"]["template"]["spec"]
    volumes = [volume["name"] for volume in spec["volumes"]]
    assert len(set(volumes)) == len(volumes)
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        mounts = container.get("volumeMounts", ())
        assert {mount["name"] for mount in mounts} <= set(volumes)
        paths = [mount["mountPath"] for mount in mounts]
        assert len(set(paths)) == len(paths), "Kubernetes refuses two mounts at one place"
        names = [one["name"] for one in container.get("env", ())]
        assert len(set(names)) == len(names)
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["restartPolicy"] == "Never", "a failure policy asks for it"
    (container,) = job["spec"]["podFailurePolicy"]["rules"][1:]
    assert container["onExitCodes"]["containerName"] == spec["containers"][0]["name"]
    held = {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}
    assert held == ({objects["ConfigMap"]["metadata"]["name"]} if "ConfigMap" in objects else set())
    if "Service" in objects:
        assert spec["subdomain"] == objects["Service"]["metadata"]["name"]


def pod(objects: dict[str, Any]) -> dict[str, Any]:
    return dict(objects["Job"]["spec"]["template"]["spec"])


def container(objects: dict[str, Any]) -> dict[str, Any]:
    return dict(pod(objects)["containers"][0])


def env(objects: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container(objects)["env"]}


def requirements(objects: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    affinity = pod(objects).get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    (term,) = terms.get("nodeSelectorTerms", [{"matchExpressions": []}])
    return {
        one["key"]: (one["operator"], one.get("values", [])) for one in term["matchExpressions"]
    }


def test_the_schema_is_strict() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {}}}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, "1.37", strict=True)
    whole = {"containers": [{"name": "a"}], "restartPolicy": "Never"}
    job["spec"] = {"template": {"spec": whole}}
    kubernetes_validate.validate(job, "1.37", strict=True)
    job["spec"] = {"template": {"spec": {**whole, "restart_policy": "Never"}}}
    with pytest.raises(kubernetes_validate.ValidationError, match="restart_policy"):
        kubernetes_validate.validate(job, "1.37", strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_it(context: Context, task: Task, version: str) -> None:
    full = replace(
        task, devices=4, hosts=2, checkpoint_dir="c", deadline="2027-01-15T09:00:00Z",
        preferred_devices=("A100",), labels={"a": "b"}, anti_labels={"c": ""}, retries=2,
        mounts=(Mount("/data", "/data"),), env={"A": "b"},
    )  # fmt: skip
    cluster = KubernetesSection(claim="lab", volumes={"/data": "data"})
    settings = context.settings.model_copy(update={"kubernetes": cluster})
    for one in (full, replace(full, hosts=1)):
        job = Job("20270115-abc", one, "ann", JobState.QUEUED, START, estimate_mib=100.0)
        parsed(manifest(replace(context, settings=settings), job), (version,))


def test_an_image_made_for_cuda_is_no_image_for_others(context: Context, task: Task) -> None:
    job = Job(UNNAMED, replace(task, image=""), "ann", JobState.QUEUED, START)
    assert container(parsed(manifest(context, job))[0])["image"] == "lab/default:1"
    npu = replace(job, task=replace(job.task, backend="npu"))
    with pytest.raises(UsageError, match="none for npu"):
        manifest(context, npu)
    settings = context.settings.model_copy(update={"images": {"npu": "lab/npu:1"}})
    found, _ = parsed(manifest(replace(context, settings=settings), npu))
    assert container(found)["image"] == "lab/npu:1"


def test_a_script_becomes_a_job_with_its_code(write: Write, task: Task) -> None:
    objects, notes = write(replace(task, args=("--lr", "0.1"), env={"A": "b"}))
    assert set(objects) == {"ConfigMap", "NetworkPolicy", "Job"}
    main_one = container(objects)
    assert main_one["image"] == "lab/paddle:3"
    assert main_one["command"] == ["python", "train.py", "--lr", "0.1"]
    assert main_one["workingDir"] == "/workspace"
    assert main_one["resources"]["limits"] == {"nvidia.com/gpu": "1", "memory": "65536Mi"}
    assert env(objects)["A"] == "b"
    assert env(objects)["HOME"] == "/workspace"
    assert "NVIDIA_VISIBLE_DEVICES" not in env(objects), "the device plugin says which"
    packed = base64.b64decode(objects["ConfigMap"]["binaryData"]["project.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert {"train.py", "net.py"} <= set(tar.getnames())
    (unpacking,) = pod(objects)["initContainers"]
    assert unpacking["command"][:4] == ["python", "-m", "tarfile", "-e"]
    shm = next(volume for volume in pod(objects)["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "8192Mi"}
    assert notes[0].startswith("Train #1: a pod with 1 device. Start it with: kubectl apply")


def test_the_unpacked_code_runs_as_the_manifest_says(
    write: Write, task: Task, tmp_path: Path
) -> None:
    objects, _ = write(task)
    (tmp_path / "project.tar.gz").write_bytes(
        base64.b64decode(objects["ConfigMap"]["binaryData"]["project.tar.gz"])
    )
    (unpacking,) = pod(objects)["initContainers"]
    words = [sys.executable, *unpacking["command"][1:4], str(tmp_path / "project.tar.gz")]
    done = subprocess.run([*words, str(tmp_path / "workspace")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace" / "train.py").read_text() == "import paddle, net\n"


@pytest.mark.parametrize("backend", [*RESOURCES, "cpu"])
def test_devices_are_asked_for_by_their_vendors_name(
    write: Write, task: Task, backend: Backend
) -> None:
    objects, _ = write(replace(task, backend=backend, devices=4))
    limits = container(objects)["resources"]["limits"]
    if backend == "cpu":
        assert set(limits) == {"memory"}
        assert "tolerations" not in pod(objects)
    else:
        assert limits[RESOURCES[backend]] == "4"
        assert {"key": RESOURCES[backend], "operator": "Exists"} in pod(objects)["tolerations"]


def test_a_cluster_may_call_devices_otherwise(write: Write, task: Task) -> None:
    objects, _ = write(
        replace(task, backend="dcu", preferred_devices=("MI300X",)),
        resources={"dcu": "amd.com/gpu"},
        types={"MI300X": "AMD_Instinct_MI300X_OAM"},
    )
    assert container(objects)["resources"]["limits"]["amd.com/gpu"] == "1"
    affinity = pod(objects)["affinity"]["nodeAffinity"]
    (requirement,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert requirement["preference"]["matchExpressions"] == [
        {"key": "amd.com/gpu.product-name", "operator": "In", "values": ["AMD_Instinct_MI300X_OAM"]}
    ]


def test_the_estimate_chooses_nodes_with_enough_memory(write: Write, task: Task) -> None:
    objects, _ = write(task, 17000.0)
    operator, (least,) = requirements(objects)["nvidia.com/gpu.memory"]
    assert operator == "Gt"
    assert (int(least) + 1) * MEMORY_THRESHOLD >= 17000.0 > int(least) * MEMORY_THRESHOLD
    assert env(objects)["GPUCONSOLE_ESTIMATE_MIB"] == "17000"
    strict, _ = write(replace(task, memory_threshold=0.5), 17000.0)
    assert requirements(strict)["nvidia.com/gpu.memory"] == ("Gt", ["33999"])
    unknown, notes = write(task, None)
    assert "nvidia.com/gpu.memory" not in requirements(unknown)
    assert any("memory is unknown" in note for note in notes)
    other, notes = write(replace(task, backend="npu"), 17000.0)
    assert "nvidia.com/gpu.memory" not in requirements(other)
    assert any("19.5 GiB or more" in note for note in notes)
    shared, notes = write(replace(task, devices=8, distributed_strategy="sharding"), 90000.0)
    assert "nvidia.com/gpu.memory" not in requirements(shared)
    assert any("share its memory" in note for note in notes)


def test_preferred_types_are_preferred_in_their_order(write: Write, task: Task) -> None:
    objects, _ = write(replace(task, preferred_devices=("A100-SXM4-40GB", "RTX_3090")))
    affinity = pod(objects)["affinity"]["nodeAffinity"]
    first, second = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert first["weight"] > second["weight"]
    (expression,) = first["preference"]["matchExpressions"]
    assert expression["key"] == "nvidia.com/gpu.product"
    assert "NVIDIA-A100-SXM4-40GB" in expression["values"]
    (expression,) = second["preference"]["matchExpressions"]
    assert {"NVIDIA-GeForce-RTX-3090", "GeForce-RTX-3090"} <= set(expression["values"])
    assert not any("Ti" in value for value in expression["values"])
    own, _ = write(replace(task, preferred_devices=("A100",)), type_label="lab.example/card",
                   types={"A100": "ampere"})  # fmt: skip
    (requirement,) = pod(own)["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert requirement["preference"]["matchExpressions"] == [
        {"key": "lab.example/card", "operator": "In", "values": ["ampere"]}
    ]
    assert type_values("Nobody's 9000", {}) == ("NVIDIA-Nobody-s-9000", "Nobody-s-9000")


def test_labels_of_hosts_become_labels_of_nodes(write: Write, task: Task) -> None:
    wanted = replace(
        task, labels={"pool": "train", "nvlink": ""}, anti_labels={"rack": "r7", "old": ""}
    )
    found = requirements(write(wanted)[0])
    assert found["pool"] == ("In", ["train"])
    assert found["nvlink"] == ("Exists", [])
    assert found["rack"] == ("NotIn", ["r7"])
    assert found["old"] == ("DoesNotExist", [])
    for labels in ({"two words": "x"}, {"pool": "a b"}, {"x" * 64: "y"}):
        with pytest.raises(UsageError, match="No label of a node"):
            write(replace(task, labels=labels))


def test_only_jobs_with_checkpoints_go_where_nodes_may_be_taken_away(
    write: Write, task: Task
) -> None:
    plain, _ = write(task)
    assert requirements(plain)["karpenter.sh/capacity-type"] == ("NotIn", ["spot"])
    assert [one["key"] for one in pod(plain)["tolerations"]] == ["nvidia.com/gpu"]
    resuming, _ = write(replace(task, checkpoint_dir="checkpoints"), claim="lab")
    assert "karpenter.sh/capacity-type" not in requirements(resuming)
    tolerated = {one["key"] for one in pod(resuming)["tolerations"]}
    assert {"cloud.google.com/gke-spot", "nvidia.com/gpu"} <= tolerated
    own, _ = write(replace(task, checkpoint_dir="c"), claim="lab", interruptible={"spot": "yes"})
    assert [one["key"] for one in pod(own)["tolerations"]] == ["nvidia.com/gpu", "spot"]


def test_secrets_come_from_a_secret_that_a_person_makes(write: Write, task: Task) -> None:
    wanted = replace(task, env={"HF_TOKEN": "hidden-1", "LR": "1"}, secrets={"MINE": "hidden-2"})
    objects, notes = write(wanted)
    assert "hidden" not in repr((objects, notes))
    env = {one["name"]: one for one in container(objects)["env"]}
    assert env["LR"]["value"] == "1"
    name = f"{objects['Job']['metadata']['name']}-env"
    for key in ("HF_TOKEN", "MINE"):
        assert env[key]["valueFrom"]["secretKeyRef"] == {"name": name, "key": key}
    assert any(f"create secret generic {name} --from-env-file=FILE" in note for note in notes)


def test_results_and_checkpoints_lie_on_the_claim(write: Write, task: Task) -> None:
    objects, notes = write(replace(task, checkpoint_dir="out/ckpt"), claim="lab-data")
    name = objects["Job"]["metadata"]["name"]
    mounts = {one["mountPath"]: one for one in container(objects)["volumeMounts"]}
    assert mounts["/results"]["subPath"] == f"{name}/results"
    assert mounts["/workspace/out/ckpt"]["subPath"] == f"{name}/checkpoint"
    claims = [v for v in pod(objects)["volumes"] if "persistentVolumeClaim" in v]
    assert [v["persistentVolumeClaim"]["claimName"] for v in claims] == ["lab-data"]
    assert not any("go with the pod" in note for note in notes)
    assert env(objects)["GPUCONSOLE_CHECKPOINT"] == "/workspace/out/ckpt"
    lost, notes = write(replace(task, checkpoint_dir="out/ckpt"))
    assert any("results and checkpoints go with the pod" in note for note in notes)
    assert not [v for v in pod(lost)["volumes"] if "persistentVolumeClaim" in v]


def test_mounts_come_from_claims_or_the_node(write: Write, task: Task) -> None:
    mounts = (Mount("/data/images/train", "/data"), Mount("/data/imagesque", "/other"),
              Mount("/scratch", "/scratch", read_only=False))  # fmt: skip
    objects, notes = write(replace(task, mounts=mounts), volumes={"/data/images/": "images"})
    found = {one["mountPath"]: one for one in container(objects)["volumeMounts"]}
    assert found["/data"]["subPath"] == "train"
    assert found["/data"]["readOnly"] is True
    assert "readOnly" not in found["/scratch"]
    paths = [v["hostPath"]["path"] for v in pod(objects)["volumes"] if "hostPath" in v]
    assert paths == ["/data/imagesque", "/scratch"]
    assert sum("must be on every node" in note for note in notes) == 2


def test_a_gang_is_an_indexed_job_whose_pods_find_each_other(write: Write, task: Task) -> None:
    gang = replace(task, devices=8, hosts=2, args=("--x",), checkpoint_dir="c", retries=3)
    objects, notes = write(gang, claim="lab")
    assert set(objects) == {"ConfigMap", "NetworkPolicy", "Service", "Job"}
    spec, name = objects["Job"]["spec"], objects["Job"]["metadata"]["name"]
    assert (spec["parallelism"], spec["completions"]) == (2, 2)
    assert spec["completionMode"] == "Indexed"
    assert spec["backoffLimit"] == 0
    service = objects["Service"]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert container(objects)["resources"]["limits"]["nvidia.com/gpu"] == "4"
    words = container(objects)["command"]
    said = dict(pairwise(words))
    assert said["--master"].startswith(f"{name}-0.{name}:")
    assert said["--nnodes"] == "2"
    assert said["--rank"] == "$(JOB_COMPLETION_INDEX)"
    assert said["--host"] == f"{name}-$(JOB_COMPLETION_INDEX).{name}"
    first = said["--host"].replace("$(JOB_COMPLETION_INDEX)", "0")
    assert said["--master"].startswith(f"{first}:"), "by that the launcher of rank 0 knows itself"
    waiting = pod(objects)["initContainers"][-1]["command"]
    assert waiting[3:] == [f"{name}-0.{name}", f"{name}-1.{name}"]
    assert said["--devices"] == "0,1,2,3"
    assert words[-2:] == ["train.py", "--x"]
    mounts = {one["mountPath"]: one for one in container(objects)["volumeMounts"]}
    assert mounts["/results"]["subPathExpr"] == f"{name}/results/$(JOB_COMPLETION_INDEX)"
    assert mounts["/workspace/c"]["subPath"] == f"{name}/checkpoint", "one for all"
    policy = objects["NetworkPolicy"]["spec"]
    assert policy["ingress"] == [{"from": [{"podSelector": policy["podSelector"]}]}]
    assert env(objects)["NCCL_SOCKET_IFNAME"] == "eth0"
    assert any("A pod that is lost ends the whole job" in note for note in notes)
    # A pod's name ends in its number, and its host name must fit.
    assert len(f"{name}-63-abcde") <= 63


def test_a_gang_waits_for_names_that_are_not_known_yet() -> None:
    known = subprocess.run(
        [sys.executable, "-c", WAIT, "localhost", "127.0.0.1"], timeout=DEADLINE_S
    )
    assert known.returncode == 0
    unknown = subprocess.Popen([sys.executable, "-c", WAIT, "localhost", "nobody.invalid"])
    with pytest.raises(subprocess.TimeoutExpired):
        unknown.wait(3.0)
    unknown.kill()
    unknown.wait()


def test_only_other_peoples_faults_are_tried_again(write: Write, task: Task) -> None:
    objects, _ = write(replace(task, retries=4))
    spec = objects["Job"]["spec"]
    assert spec["backoffLimit"] == 4
    disrupted, failed = spec["podFailurePolicy"]["rules"]
    assert disrupted["action"] == "Count"
    assert disrupted["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert failed["action"] == "FailJob"
    assert failed["onExitCodes"] | {"containerName": ""} == {
        "containerName": "", "operator": "NotIn", "values": [0]
    }  # fmt: skip


def test_a_deadline_is_what_is_left_of_it(write: Write, task: Task) -> None:
    soon, notes = write(replace(task, deadline="2027-01-15T09:00:00Z"))
    assert START == 1_800_000_000.0, "2027-01-15T08:00:00Z"
    assert soon["Job"]["spec"]["activeDeadlineSeconds"] == 3600
    assert any("activeDeadlineSeconds" in note for note in notes)
    over, notes = write(replace(task, deadline="2027-01-15T07:00:00Z"))
    assert "activeDeadlineSeconds" not in over["Job"]["spec"]
    assert any("is over" in note for note in notes)


def test_a_time_limit_ends_the_pods_before_a_later_deadline(write: Write, task: Task) -> None:
    both = replace(task, deadline="2027-01-15T09:00:00Z", time_limit_s=90.5)
    assert write(both)[0]["Job"]["spec"]["activeDeadlineSeconds"] == 91
    alone = replace(task, time_limit_s=7200.0)
    assert write(alone)[0]["Job"]["spec"]["activeDeadlineSeconds"] == 7200


def test_the_network_is_as_closed_as_at_home(write: Write, task: Task) -> None:
    policy = write(task)[0]["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy
    assert "egress" not in policy
    assert "NetworkPolicy" not in write(replace(task, network="full"))[0]


def test_memory_of_the_host(write: Write, task: Task) -> None:
    resources = container(write(task)[0])["resources"]
    assert resources["requests"] == {"memory": "8192Mi"}, "the lab's limit fits no small node"
    own = container(write(replace(task, memory_limit_mib=2048.5))[0])["resources"]
    assert own["limits"]["memory"] == own["requests"]["memory"] == str(int(2048.5 * 2**20))


def test_a_project_that_is_too_large_is_not_forced_into_a_config_map(
    write: Write, task: Task, project: Path
) -> None:
    import random

    (project / "weights.bin").write_bytes(random.Random(1).randbytes(LARGEST_BUNDLE + 1))
    objects, notes = write(task)
    assert "ConfigMap" not in objects
    assert "initContainers" not in pod(objects)
    assert any("too large for a ConfigMap" in note for note in notes)
    held, notes = write(task, code_claim="code")
    name = held["Job"]["metadata"]["name"]
    mount = container(held)["volumeMounts"][0]
    assert (mount["mountPath"], mount["subPath"]) == ("/workspace", name)
    assert any(f"folder {name} of the claim code" in note for note in notes)


def test_the_code_of_a_queued_job_is_what_was_submitted(
    write: Write, task: Task, context: Context, project: Path
) -> None:
    kept = context.bundle("20270115-abc")
    kept.parent.mkdir(parents=True)
    with tarfile.open(kept, "w:gz") as tar:
        tar.add(project / "net.py", "train.py")
    objects, notes = write(task, job_id="20270115-abc")
    assert (
        base64.b64decode(objects["ConfigMap"]["binaryData"]["project.tar.gz"]) == kept.read_bytes()
    )
    assert objects["Job"]["metadata"]["name"] == "train-1-20270115-abc"
    assert objects["Job"]["metadata"]["labels"]["gpuconsole/job"] == "20270115-abc"
    kept.unlink()
    _, notes = write(task, job_id="20270115-abc")
    assert any("no longer kept" in note for note in notes)


def test_what_does_not_carry_over_is_said(write: Write, task: Task) -> None:
    _, notes = write(replace(task, priority=5, after=("x",), share=True, devices=None))
    reported = " ".join(notes)
    for words in ("priorityClassName", "waits for other jobs", "share its device", "open"):
        assert words in reported


def test_dollars_stay_dollars(write: Write, task: Task) -> None:
    foul = ("$(JOB_COMPLETION_INDEX)", "$$", "a$b", "$(HOME)")
    objects, _ = write(replace(task, args=foul, env={"PRICE": "$(HOME) $$5"}))
    assert [_expanded(word) for word in container(objects)["command"][2:]] == list(foul)
    assert _expanded(env(objects)["PRICE"]) == "$(HOME) $$5"


def _expanded(text: str) -> str:
    """What Kubernetes makes of a word: `$$` is a `$`, `$(NAME)` of a known name its value."""
    return re.sub(
        r"\$\$|\$\(HOME\)|\$\(JOB_COMPLETION_INDEX\)", lambda m: "$" if m[0] == "$$" else "!", text
    )


@given(st.text(alphabet="$()ab{", max_size=12))
def test_any_word_survives(text: str) -> None:
    assert _expanded(literal(text)) == text


@given(words=st.text(max_size=90), identity=st.from_regex(r"[0-9a-z-]{1,40}", fullmatch=True))
def test_any_task_gets_a_name(words: str, identity: str) -> None:
    name = object_name(words, identity)
    assert NAME.fullmatch(name)
    assert len(name) <= LONGEST_NAME


@settings(
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.text(max_size=40), user=st.text(max_size=20),
    args=st.lists(st.text(WORDS, max_size=20), max_size=3),
    devices=st.integers(1, 16), hosts=st.integers(1, 4), checkpoint=st.booleans(),
    shm=st.floats(1, 1e6), retries=st.integers(0, 20),
)  # fmt: skip
def test_any_task_is_valid(
    context: Context, task: Task, name: str, user: str, args: list[str], devices: int, hosts: int,
    checkpoint: bool, shm: float, retries: int,
) -> None:  # fmt: skip
    odd = replace(
        task, name=name, args=tuple(args), devices=devices, hosts=hosts, shm_size_mib=shm,
        checkpoint_dir="c" if checkpoint else "", retries=retries,
    )  # fmt: skip
    job = Job(UNNAMED, odd, user, JobState.QUEUED, START, estimate_mib=100.0)
    objects, _ = parsed(manifest(context, job))
    spec = objects["Job"]["spec"]
    assert (
        spec["parallelism"] * int(container(objects)["resources"]["limits"]["nvidia.com/gpu"])
        == devices
    )


def test_a_change_makes_another_name(write: Write, task: Task, project: Path) -> None:
    """A cluster refuses to change what a name refers to."""

    def name(changed: Task) -> str:
        return str(write(changed)[0]["Job"]["metadata"]["name"])

    before = name(task)
    assert name(task) == before
    assert name(replace(task, devices=2)) != before
    (project / "net.py").write_text("layers = 4\n")
    assert name(task) != before


def test_two_tasks_have_two_names(context: Context, task: Task) -> None:
    jobs = [unqueued(replace(task, args=(n,)), "ann", START, None) for n in ("1", "2")]
    first, second = (parsed(rendered(context, job, "kubernetes"))[0] for job in jobs)
    assert first["Job"]["metadata"]["name"] != second["Job"]["metadata"]["name"]
    with pytest.raises(UsageError, match="Unknown target"):
        rendered(context, jobs[0], "nomad")


def test_the_command_takes_a_script(
    task: Task, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = Path(task.script)
    script.write_text(TRAINING)
    words = ["render", str(script), "--to", "kubernetes", "--state", str(tmp_path / "s")]
    assert main([*words, "--devices", "2", "--image", "lab/x:1", "--", "--epochs", "3"]) == 0
    objects, _ = parsed(capsys.readouterr().out)
    assert container(objects)["command"][-2:] == ["--epochs", "3"]
    assert container(objects)["image"] == "lab/x:1"
    assert "nvidia.com/gpu.memory" in requirements(objects), "preflight was asked"
    assert main(["render", "nothing", "--to", "kubernetes", "--state", str(tmp_path / "s")]) == 2
    assert main(["render", "--to", "kubernetes"]) == 2
    assert main(["render", "job", "--to", "kubernetes", "--image", "x"]) == 2
    assert "image, devices and arguments already" in capsys.readouterr().err


def test_the_page_names_every_setting() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for key in KubernetesSection.model_fields:
        assert f"`{key}`" in text
    for backend, resource in RESOURCES.items():
        assert f"| `{backend}` | `{resource}` |" in text
