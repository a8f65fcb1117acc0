"""What the session asks of a cluster, and what it leaves to Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LimitsSection
from gpuconsole.core.containers import HostAccount
from gpuconsole.core.engines.batch_job import WAITS
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Mount, Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.dispatch.slurm_jobs import (
    DECIDES,
    batch_of,
    batch_spec,
    decision_there,
    hand_over,
    kind_of,
    reach,
    resolved,
    without_clusters,
)
from gpuconsole.session.fleet.drain import Drains
from gpuconsole.session.fleet.view import FleetView
from gpuconsole.session.queue.planner import Choice, Plan, Situation
from gpuconsole.session.queue.why import why_of
from gpuconsole.state import Journal

A100, T4 = "A100-SXM4-80GB", "Tesla T4"
LOGIN = Host("hpc", HostState.UP, cluster="hpc")


def node(name: str, model: str, gres: str, gib: float) -> Host:
    device = Device(f"hpc/{name}/0", 0, model, memory_total_mib=gib * 1024, gres=gres)
    return Host(f"hpc/{name}", HostState.UP, cluster="hpc", devices=(device,))


CLUSTER = (LOGIN, node("n1", A100, "a100", 80), node("n2", T4, "t4", 16))
DOCKER = Host("box", HostState.UP, devices=(Device("GPU-1", 0, A100),))
MIXED = FleetSnapshot(hosts=(DOCKER, *CLUSTER))
ALONE = FleetSnapshot(hosts=CLUSTER)


def job(name: str = "j1", state: JobState = JobState.QUEUED, **fields: object) -> Job:
    task = Task(name, "/p/t.py", project="/p", labels={"slurm": "hpc"})
    return Job(name, replace(task, **fields), "ada", state, 0.0)  # type: ignore[arg-type]


def handed_over(name: str, state: JobState, host: str = "hpc") -> Job:
    attempt = Attempt(1, host, container_name=f"run-{name}", starting_at=1.0)
    return replace(job(name, state), attempts=(attempt,))


class FakeHosts:
    def __init__(self, snapshot: FleetSnapshot) -> None:
        self.seen = snapshot

    def snapshot(self) -> FleetSnapshot:
        return self.seen


def plan_of(jobs: Sequence[Job], snapshot: FleetSnapshot = MIXED) -> Plan:
    """Return the plan after a step that has placed another job."""
    before = Plan((Choice("other", "box", ("GPU-1",), (0,)),))
    situation = Situation(jobs, without_clusters(snapshot), 0.0, with_clusters=snapshot)
    return hand_over(situation, before)


def test_a_task_goes_where_its_label_says_and_to_the_only_cluster_there_is() -> None:
    plain = Task("t", "/p/t.py")
    assert resolved(plain, MIXED) == plain
    assert resolved(plain, ALONE).labels == {"slurm": "hpc"}
    assert resolved(plain, FleetSnapshot()) == plain
    named = replace(plain, labels={"slurm": "hpc", "partition": "gpu"})
    assert resolved(named, MIXED) == named


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"labels": {"slurm": "hcp"}}, "hcp"),
        # A node is no cluster.
        ({"labels": {"slurm": "hpc/n1"}}, "hpc/n1"),
        ({"labels": {"slurm": "hpc", "rack": "r1"}}, "rack"),
        ({"labels": {"slurm": "hpc"}, "anti_labels": {"pool": "x"}}, "pool"),
        ({"labels": {"slurm": "hpc"}, "mounts": (Mount("/data", "/data"),)}, "mounts"),
        ({"labels": {"slurm": "hpc"}, "devices": 3, "hosts": 2}, "evenly"),
    ],
)
def test_what_cannot_be_asked_of_a_cluster_is_refused(
    fields: dict[str, object], reported: str
) -> None:
    task = replace(Task("t", "/p/t.py"), **fields)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        resolved(task, MIXED)
    assert reported in f"{caught.value.message} {caught.value.title}"


def test_a_task_is_held_against_the_devices_that_it_can_reach() -> None:
    plain, bound = Task("t"), Task("t", labels={"slurm": "hpc"})
    assert [host.name for host in reach(plain, MIXED).hosts] == ["box"]
    assert [host.name for host in reach(bound, MIXED).hosts] == ["hpc", "hpc/n1", "hpc/n2"]
    assert reach(bound, ALONE) is ALONE


def test_placement_never_sees_a_cluster() -> None:
    assert without_clusters(MIXED).hosts == (DOCKER,)
    plain = FleetSnapshot(hosts=(DOCKER,))
    assert without_clusters(plain) is plain


def test_a_job_is_handed_over_at_once_however_full_the_cluster_is() -> None:
    plan = plan_of([job("j1"), job("j2")])
    assert [choice.job for choice in plan.choices] == ["other", "j1", "j2"]
    assert plan.choices[1] == Choice("j1", "hpc", (), (), (DECIDES,))


@pytest.mark.parametrize(
    ("login", "reported"),
    [
        (replace(LOGIN, state=HostState.DOWN, error="Slurm does not answer"), "does not answer"),
        (replace(LOGIN, drained="moving house"), "moving house"),
        (Host("hpc", HostState.UP), "not in the inventory"),
    ],
)
def test_a_job_waits_while_its_cluster_cannot_take_it(login: Host, reported: str) -> None:
    plan = plan_of([job()], FleetSnapshot(hosts=(login,)))
    assert [choice.job for choice in plan.choices] == ["other"]
    assert reported in plan.waiting["j1"].reason


@pytest.mark.parametrize(
    ("needed", "goes"),
    [
        (handed_over("first", JobState.RUNNING), True),
        (handed_over("first", JobState.LAUNCHING), True),
        (handed_over("first", JobState.SUCCEEDED), True),
        # Slurm knows nothing of it: the console keeps the order.
        (job("first"), False),
        (handed_over("first", JobState.RUNNING, host="box"), False),
        (handed_over("first", JobState.FAILED), False),
    ],
)
def test_slurm_keeps_the_order_of_what_it_has(needed: Job, goes: bool) -> None:
    second = job("second", after=("first",))
    plan = plan_of([needed, second])
    assert ("second" in {choice.job for choice in plan.choices}) == goes
    if not goes:
        assert "first" in plan.waiting["second"].reason


def test_what_is_asked_of_slurm() -> None:
    one = job(
        devices=4,
        hosts=2,
        memory_limit_mib=2048.0,
        run_time_s=600.0,
        account="vision",
        sweep="lr",
        labels={"slurm": "hpc", "partition": "gpu", "qos": "high", "constraint": "nvlink"},
        after=("first",),
    )
    batch = batch_of(one, ALONE, [handed_over("first", JobState.RUNNING), one], LimitsSection())
    assert (batch.devices, batch.nodes) == (2, 2)
    assert (batch.memory_mib, batch.time_s) == (2048.0, 900.0)
    assert (batch.account, batch.partition, batch.qos) == ("vision", "gpu", "high")
    assert (batch.constraint, batch.array, batch.after) == ("nvlink", "lr", ("run-first",))


def test_what_would_be_done_with_a_task_is_told_before_it_is_queued() -> None:
    reported = decision_there(Task("t", labels={"slurm": "hpc"}), MIXED)
    assert reported is not None
    assert reported.waiting is not None
    assert reported.waiting.reason.startswith("It is handed to hpc. Slurm decides")
    assert decision_there(Task("t"), MIXED) is None


async def test_a_node_is_drained_by_slurm_and_a_login_node_by_the_console(tmp_path: Path) -> None:
    journal = Journal(tmp_path, clock=lambda: 0.0)
    hosts = FakeHosts(MIXED)
    drains = Drains(hosts, journal, lambda: 0.0)  # type: ignore[arg-type]
    view = FleetView(hosts, (drains.marks,))  # type: ignore[arg-type]
    with pytest.raises(RefusedError) as caught:
        await drains.drain("hpc/n1", "fan", "ada")
    assert "scontrol update nodename=n1" in caught.value.hint
    await drains.drain("hpc", "moving house", "ada")
    login = view.snapshot().host("hpc")
    journal.close()
    assert login is not None
    assert "moving house" in login.drained


def test_a_job_for_the_processor_asks_for_no_devices() -> None:
    batch = batch_of(job(backend="cpu"), ALONE, (), LimitsSection())
    assert (batch.devices, batch.kind) == (0, "")


@pytest.mark.parametrize(
    ("fields", "need", "kind"),
    [
        ({}, None, ""),
        ({"preferred_devices": ("A100",)}, None, "a100"),
        ({"preferred_devices": ("RTX_3090", "T4")}, None, "t4"),
        # Only one type holds it, both do, none does.
        ({}, 30_000.0, "a100"),
        ({}, 3_000.0, ""),
        ({}, 300_000.0, ""),
    ],
)
def test_a_type_is_asked_for_where_it_matters(
    fields: dict[str, object], need: float | None, kind: str
) -> None:
    one = replace(job(**fields), estimate_mib=need)
    assert kind_of(one, ALONE) == kind


def test_slurms_own_limit_comes_after_the_queues() -> None:
    limits = LimitsSection(grace=30.0)
    short = job(time_limit_s=3600.0, run_time_s=600.0)
    assert batch_of(short, ALONE, (), limits).time_s == 3600 + 30 + 60
    lab = LimitsSection(time_limit=1800.0, grace=30.0)
    assert batch_of(job(), ALONE, (), lab).time_s == 1800 + 30 + 60


def test_a_sweep_hands_over_no_more_jobs_than_it_may_have() -> None:
    jobs = [replace(job(sweep="lr", at_most=2), id=f"j{number}") for number in range(4)]
    plan = hand_over(Situation(jobs, ALONE, 0.0), Plan())
    assert [choice.job for choice in plan.choices] == ["j0", "j1"]
    why = plan.waiting["j3"]
    assert why.reason == "Its sweep lr may have 2 at once, and 2 are handed over."


def test_a_run_has_the_clusters_own_paths() -> None:
    one = replace(job(checkpoint_dir="out/state", env={"A": "1"}), estimate_mib=900.0)
    attempt = Attempt(2, "hpc", container_name="gpuconsole-j1-2-abc")
    account = HostAccount(1000, 1000, "/shared/results/j1")
    batch = batch_of(one, ALONE, (), LimitsSection())
    spec = batch_spec(one, attempt, batch, image="", account=account, journal="me")
    assert spec.command == ("python", "t.py")
    assert spec.env["GPUCONSOLE_RESULTS"] == "/shared/results/j1"
    assert spec.env["GPUCONSOLE_CHECKPOINT"] == "/shared/results/j1.checkpoint"
    assert (spec.env["A"], spec.env["GPUCONSOLE_ESTIMATE_MIB"]) == ("1", "900")
    assert spec.batch is not None
    assert spec.batch.link == ("out/state", "/shared/results/j1.checkpoint")
    assert spec.labels["gpuconsole.nonce"] == "abc"
    assert not spec.device_uuids


def test_several_devices_go_through_the_launcher_which_takes_what_slurm_gives() -> None:
    attempt = Attempt(1, "hpc", container_name="r")
    account = HostAccount(1, 1, "/r")
    one = job(devices=4, args=("--lr", "1"))
    batch = batch_of(one, ALONE, (), LimitsSection())
    spec = batch_spec(one, attempt, batch, image="", account=account, journal="me")
    assert spec.command == ("python", "-m", "paddle.distributed.launch", "t.py", "--lr", "1")


def test_why_says_slurms_reason_and_who_decides() -> None:
    waiting = replace(
        handed_over("j1", JobState.LAUNCHING), detail=f"{WAITS}Other jobs come before it."
    )
    why = why_of(waiting, {})
    assert why.reason.startswith(f"{WAITS}Other jobs come before it. Slurm decides")
    assert "Cancel it." in why.options
