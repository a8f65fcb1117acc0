"""What a job comes after, in all kinds, and what becomes of one that can never start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.services import SERVICE, Service
from gpuconsole.core.submission.after_conditions import Condition
from gpuconsole.errors import UsageError
from gpuconsole.session.housekeeping import Dependants
from gpuconsole.session.queue.commands import find_condition
from gpuconsole.session.queue.dependencies import Order
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.planner import Situation
from tests.session.conftest import make_lab
from tests.session.queue.test_placement_adapter import FLEET, NOW, job, running

WELL, FAILED, RUNNING = JobState.SUCCEEDED, JobState.FAILED, JobState.RUNNING
OOM, CANCELLED, HELD = JobState.OOM, JobState.CANCELLED, JobState.HELD


def ended(state: JobState, sweep: str = "", name: str = "first") -> Job:
    made = running(name, "GPU-0")
    return replace(made, state=state, task=replace(made.task, sweep=sweep))


def standing(text: str, *others: Job) -> tuple[bool, str]:
    """Return whether a job may start after these, and why it never can."""
    order, late = Order(others), job("x", after=(text,))
    return order.held_back(late) is None, order.never(late)


@pytest.mark.parametrize(
    ("kind", "starts", "never"),
    [
        ("", {WELL}, {FAILED, OOM, CANCELLED}),
        ("afterok:", {WELL}, {FAILED, OOM, CANCELLED}),
        ("afterany:", {WELL, FAILED, OOM, CANCELLED}, set()),
        ("afternotok:", {FAILED, OOM, CANCELLED}, {WELL}),
    ],
)
def test_each_kind_starts_after_its_own_ends(
    kind: str, starts: set[JobState], never: set[JobState]
) -> None:
    for state in (WELL, FAILED, OOM, CANCELLED, RUNNING, HELD, JobState.UNKNOWN):
        begins, reason = standing(f"{kind}first", ended(state))
        assert begins is (state in starts), state
        assert bool(reason) is (state in never), state


def test_a_job_that_is_about_to_be_tried_again_has_not_ended() -> None:
    made = ended(OOM)
    due = replace(made, task=replace(made.task, auto_batch=True))
    for kind in ("afterany:", "afternotok:", ""):
        assert standing(f"{kind}first", due) == (False, "")
    over = replace(due, detail="Not tried again: its batch size is 1 already.")
    assert standing("afterany:first", over) == (True, "")


@pytest.mark.parametrize(
    ("states", "ok", "any_", "notok"),
    [
        ((WELL, WELL), "starts", "starts", "never"),
        ((WELL, FAILED), "never", "starts", "starts"),
        ((FAILED, RUNNING), "never", "waits", "waits"),
        ((WELL, RUNNING), "waits", "waits", "waits"),
    ],
)
def test_a_sweep_counts_as_a_whole(
    states: tuple[JobState, ...], ok: str, any_: str, notok: str
) -> None:
    jobs = [ended(state, "s", f"j{number}") for number, state in enumerate(states)]
    for kind, expected in (("", ok), ("afterany:", any_), ("afternotok:", notok)):
        begins, reason = standing(f"{kind}s", *jobs)
        assert ("starts" if begins else "never" if reason else "waits") == expected, kind


def test_why_says_what_must_happen() -> None:
    order = Order([ended(RUNNING)])
    why = order.held_back(job("x", after=("afternotok:first",)))
    assert why is not None
    assert why.reason == (
        "It starts only if job first (first) ends without success; it is running."
    )
    over = Order([ended(WELL)]).held_back(job("x", after=("afternotok:first",)))
    assert over is not None
    assert over.reason.endswith("ends without success, and that ended well.")
    assert over.options == ("Cancel this one.",)


def test_why_names_a_service_as_one() -> None:
    made = ended(RUNNING, "ocr", "ocr[1]")
    replica = replace(made, task=replace(made.task, kind=SERVICE, service=Service(8040)))
    for kind, reason in (
        ("", "It comes after service ocr: 0 of its 1 replicas have ended well."),
        ("afterany:", "It comes after service ocr: 0 of its 1 replicas have ended."),
        ("afternotok:", "It starts only if a job of service ocr ends without success: "
                        "0 of its 1 replicas have ended."),
    ):  # fmt: skip
        why = Order([replica]).held_back(job("x", after=(f"{kind}ocr",)))
        assert why is not None
        assert why.reason == reason


def test_conditions_are_read_strictly() -> None:
    assert str(Condition.of("afterok:a")) == "a"
    assert str(Condition.of("afterany:a")) == "afterany:a"
    assert Condition.of("lr:3") == Condition("afterok", "lr:3")
    for wrong in ("aftercorr:a", "after:a", "afterany:"):
        with pytest.raises(ValueError, match=r"expected|not known"):
            Condition.of(wrong)
    jobs = [ended(WELL)]
    assert find_condition(jobs, "afterany:fir") == "afterany:first"
    with pytest.raises(UsageError, match="not known"):
        find_condition(jobs, "afterburn:first")
    with pytest.raises(UsageError, match="no job"):
        find_condition(jobs, "afterany:nothing")


def test_a_chain_is_cancelled_where_it_asks_for_that_and_waits_where_not(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "state", hosts=("a",))
    desk = lab.desk()
    first = replace(job("first"), state=JobState.CANCELLED)
    second = job("second", after=("first",), cancel_if_failed=True)
    third = job("third", after=("second",), cancel_if_failed=True)
    patient = job("patient", after=("first",))
    held = replace(job("held", after=("first",), cancel_if_failed=True), state=HELD)
    other = job("other", after=("afternotok:first",), cancel_if_failed=True)
    for one in (first, second, third, patient, held, other):
        desk.journal.add(one)
    epoch = desk.journal.take_role("me")
    assert epoch is not None
    dependants = Dependants(desk.context)
    dependants.look(epoch)
    dependants.look(epoch)
    dependants.look(epoch)
    states = {one.id: one.state for one in desk.journal.jobs()}
    assert states["second"] is states["third"] is JobState.CANCELLED
    assert states["patient"] is states["other"] is JobState.QUEUED
    assert states["held"] is JobState.HELD
    cause = desk.job("third").cause
    assert cause == (
        "Cancelled before it started: It comes after job second (second), which was cancelled."
    )
    desk.journal.close()


def test_a_sweep_runs_so_many_at_once_and_why_says_so() -> None:
    def swept(one: Job) -> Job:
        return replace(one, task=replace(one.task, sweep="lr", at_most=1))

    first, second = swept(job("q1")), swept(job("q2"))
    plan = Placer(LabSettings()).plan(Situation([first, second], FLEET, NOW))
    assert [choice.job for choice in plan.choices] == ["q1"]
    why = plan.waiting["q2"]
    assert why.reason == "Its sweep lr may have 1 at once, and 1 job runs."
    assert why.options == ("Wait until one of its jobs ends.",)

    busy = swept(running("r", "GPU-0"))
    plan = Placer(LabSettings()).plan(Situation([busy, first, job("alone")], FLEET, NOW))
    assert [choice.job for choice in plan.choices] == ["alone"]
    theirs = replace(swept(running("r", "GPU-0")), user="bob")
    plan = Placer(LabSettings()).plan(Situation([theirs, first], FLEET, NOW))
    assert [choice.job for choice in plan.choices] == ["q1"], "another user's sweep of that name"
