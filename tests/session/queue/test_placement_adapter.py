"""The queue as placement sees it."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.planner import Plan, Situation

NOW = 1_800_000_000.0
FLEET = FleetSnapshot(
    1,
    NOW,
    (
        Host(
            "a",
            HostState.UP,
            devices=tuple(
                Device(f"GPU-{n}", n, "NVIDIA A100", memory_total_mib=40960.0, memory_used_mib=0.0)
                for n in range(2)
            ),
        ),
    ),
)


def job(job_id: str, state: JobState = JobState.QUEUED, **task: object) -> Job:
    return Job(
        id=job_id,
        task=Task(name=job_id, script="/p/t.py", **task),  # type: ignore[arg-type]
        user="ada",
        state=state,
        submitted_at=NOW - 10,
        estimate_mib=1000.0,
    )


def running(job_id: str, uuid: str, **task: object) -> Job:
    attempt = Attempt(1, "a", (uuid,), (0,), created_at=NOW - 60, started_at=NOW - 60)
    return replace(job(job_id, JobState.RUNNING, **task), attempts=(attempt,))


def test_devices_of_this_queue_and_of_others_are_not_given_twice() -> None:
    placer = Placer(LabSettings())
    theirs = {"a": (Lease("GPU-1", "t", "t-1", "bob", "other", NOW - 5),)}
    jobs = [running("r", "GPU-0", run_time_s=100.0), job("q")]
    plan = placer.plan(Situation(jobs, FLEET, NOW, leases=theirs))
    assert plan.choices == ()
    why = plan.waiting["q"]
    assert {(blocker["user"], blocker["uuid"]) for blocker in why.blockers} == {
        ("ada", "GPU-0"),
        ("bob", "GPU-1"),
    }
    assert why.estimated_start == NOW + 40
    assert why.as_json()["estimated_start"].endswith("Z")


def advice(plan: Plan) -> tuple[str, ...]:
    return tuple(
        option
        for option in plan.waiting["q"].options
        if "a device" in option or "claim" in option or "other queues" in option
    )


def test_only_what_helps_is_advised_about_the_claim_of_another_console() -> None:
    placer = Placer(LabSettings(lease_grace=120.0))
    mine = "Raise its priority to be next, or cancel a job that holds a device."
    ask = "Ask bob to cancel a job that holds a device: only its owner can."
    unseen = (
        "Jobs that wait for these devices in other queues are not visible here, and priorities do "
        "not hold between queues; `gpuconsole dispatch --lab` serves one queue to all."
    )

    def theirs(*uuids: str, since: float) -> dict[str, tuple[Lease, ...]]:
        return {"a": tuple(Lease(uuid, "t", "t-1", "bob", "other", since) for uuid in uuids)}

    old = theirs("GPU-0", "GPU-1", since=NOW - 500)
    assert advice(placer.plan(Situation([job("q")], FLEET, NOW, leases=old))) == (ask, unseen)
    fresh = theirs("GPU-0", "GPU-1", since=NOW - 30)
    lapse = (
        "Wait: a claim of a console that ended before its job started is removed in about 1m30s."
    )
    assert advice(placer.plan(Situation([job("q")], FLEET, NOW, leases=fresh))) == (
        ask,
        unseen,
        lapse,
    )
    both = [running("r", "GPU-0"), job("q")]
    of_one = theirs("GPU-1", since=NOW - 500)
    assert advice(placer.plan(Situation(both, FLEET, NOW, leases=of_one))) == (mine, ask, unseen)
    unknown = frozenset({("a", "GPU-1")})
    assert advice(placer.plan(Situation(both, FLEET, NOW, avoid=unknown))) == (
        mine,
        unseen,
        lapse.replace("1m30s", "2m00s"),
    )


def test_of_a_queue_that_has_the_lab_to_itself_no_other_is_told() -> None:
    plan = Placer(LabSettings()).plan(
        Situation([running("r", "GPU-0"), running("s", "GPU-1"), job("q")], FLEET, NOW)
    )
    assert advice(plan) == ("Raise its priority to be next, or cancel a job that holds a device.",)


def test_two_queued_jobs_get_a_device_each() -> None:
    plan = Placer(LabSettings()).plan(Situation([job("x"), job("y")], FLEET, NOW))
    assert {choice.job for choice in plan.choices} == {"x", "y"}
    assert {choice.device_uuids for choice in plan.choices} == {("GPU-0",), ("GPU-1",)}
    assert all(choice.reasons for choice in plan.choices)


def test_a_device_another_console_took_a_moment_ago_is_left_out() -> None:
    avoid = frozenset({("a", "GPU-0"), ("a", "GPU-1")})
    plan = Placer(LabSettings()).plan(Situation([job("x")], FLEET, NOW, avoid=avoid))
    assert plan.choices == ()


def test_a_job_waits_for_those_it_comes_after() -> None:
    placer = Placer(LabSettings())
    for state, words in (
        (JobState.RUNNING, "is running"),
        (JobState.OOM, "ran out of memory"),
        (JobState.CANCELLED, "was cancelled"),
    ):
        first = replace(running("first", "GPU-0"), state=state)
        plan = placer.plan(Situation([first, job("x", after=("first",))], FLEET, NOW))
        assert plan.choices == ()
        assert words in plan.waiting["x"].reason
    gone = placer.plan(Situation([job("x", after=("nowhere",))], FLEET, NOW))
    assert "does not know" in gone.waiting["x"].reason
    done = replace(running("first", "GPU-0"), state=JobState.SUCCEEDED)
    plan = placer.plan(Situation([done, job("x", after=("first",))], FLEET, NOW))
    assert [choice.job for choice in plan.choices] == ["x"]


def test_all_that_a_job_comes_after_is_told_and_what_is_not_named_is_counted() -> None:
    placer = Placer(LabSettings())
    others = [replace(job(f"j{number}"), state=JobState.HELD) for number in range(7)]
    late = job("x", after=("j0", "j1"))
    why = placer.plan(Situation([*others, late], FLEET, NOW)).waiting["x"]
    assert "comes after job j0" in why.reason
    assert "comes after job j1" in why.reason
    assert "more" not in why.reason
    assert [blocker["job"] for blocker in why.blockers] == ["j0", "j1"]
    assert why.options == ("Run `gpuconsole release j0`.", "Run `gpuconsole release j1`.")

    swept = [replace(other, task=replace(other.task, sweep="s")) for other in others]
    late = job("x", after=("s", "j6"))
    why = placer.plan(Situation([*swept, late], FLEET, NOW)).waiting["x"]
    assert why.reason.endswith("It waits for the 5 jobs named here and 2 more.")
    assert [blocker["job"] for blocker in why.blockers] == [f"j{number}" for number in range(5)]


def test_sharded_states_count_once_among_the_devices_that_share_them() -> None:
    placer = Placer(LabSettings())
    large = replace(
        job("q", devices=None, distributed_strategy="sharding"),
        estimate_mib=45000.0,
        estimate={"memory": {"optimizer_mib": 24000.0}},
    )
    plan = placer.plan(Situation([large], FLEET, NOW))
    assert [choice.device_uuids for choice in plan.choices] == [("GPU-0", "GPU-1")]
    whole = replace(large, estimate=None)
    assert "needs up to" in placer.plan(Situation([whole], FLEET, NOW)).waiting["q"].reason


def test_a_number_left_open_grows_into_what_nobody_waits_for() -> None:
    memory = {"memory": {"optimizer_mib": 0.0, "gradients_mib": 10.0}}
    estimate = {**memory, "flops_per_step": 1e13, "bytes_per_step": 1e9}
    wide = job("wide", devices=None, distributed_strategy="ddp")
    wide = replace(wide, estimate=estimate)
    model = replace(FLEET.hosts[0].devices[0], model="NVIDIA A100-SXM4-40GB")
    devices = tuple(replace(model, uuid=f"GPU-{n}", index=n) for n in range(2))
    fleet = replace(FLEET, hosts=(replace(FLEET.hosts[0], devices=devices),))
    (choice,) = Placer(LabSettings()).plan(Situation([wide], fleet, NOW)).choices
    assert choice.device_uuids == ("GPU-0", "GPU-1")
    assert choice.reasons[0].startswith("2 devices are taken: 2 NVIDIA A100-SXM4-40GB should")
    plan = Placer(LabSettings()).plan(Situation([wide, job("narrow")], fleet, NOW))
    assert {len(choice.device_uuids) for choice in plan.choices} == {1}
    assert len(plan.choices) == 2
    quota = LabSettings.model_validate({"quotas": [{"user": "ada", "devices": 1}]})
    (choice,) = Placer(quota).plan(Situation([wide], fleet, NOW)).choices
    assert len(choice.device_uuids) == 1
    assert "a quota leaves no room for 2" in choice.reasons[0]
