"""Why a job is where it is: plain words for every state, and for every way into it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Attempt, EndedBy, Job, JobState, Member, Task
from gpuconsole.placement.forecast.start_times import Expected
from gpuconsole.placement.rules.fair_share import Share
from gpuconsole.session.queue.job_outlook import Prospect, prospect_of
from gpuconsole.session.queue.planner import Why
from gpuconsole.session.queue.usage_ledger import Ledger
from gpuconsole.session.queue.why import smaller_batches, why_of

NOW = 1_800_000_000.0
HOUR = 3600.0
DEADLINE = "2027-01-15T10:00:00.000Z"
"""Two hours after NOW."""


def job(state: JobState, *attempts: Attempt, **fields: object) -> Job:
    task = Task("train", "/p/train.py", **fields.pop("task", {}))  # type: ignore[arg-type]
    return Job("j1", task, "ada", state, NOW - HOUR, attempts=attempts, **fields)  # type: ignore[arg-type]


def tried(number: int = 1, **fields: object) -> Attempt:
    began = {"created_at": NOW - 1000, "starting_at": NOW - 1000, "started_at": NOW - 1000}
    return Attempt(number, "a", ("GPU-0",), (0,), **{**began, **fields})  # type: ignore[arg-type]


def ended(by: EndedBy, cause: str, **fields: object) -> Attempt:
    return tried(ended_at=NOW - 400, ended_by=by, cause=cause, **fields)


WAITS = Why("queued", "2 devices could do it: 2 in use by jobs.", estimated_start=NOW + 600)
NO_PROSPECT = Prospect(0.0)


def reason(found: Job, prospect: Prospect | None = NO_PROSPECT, **more: object) -> str:
    known = {found.id: WAITS} if found.state is JobState.QUEUED else {}
    why = why_of(found, known, prospect=prospect, now=NOW, **more)  # type: ignore[arg-type]
    assert why.state == found.state.value
    # Nothing that a person would stumble over.
    assert "None" not in why.reason
    assert "  " not in why.reason
    assert why.reason == why.reason.strip()
    assert why.reason.endswith(".")
    return why.reason


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (job(JobState.HELD), "It is held."),
        (job(JobState.QUEUED), WAITS.reason),
        (job(JobState.LAUNCHING, tried(), detail="pulling image 43 %"), "pulling image 43 %."),
        (job(JobState.LAUNCHING, tried()), "It starts on a: chosen."),
        (job(JobState.RUNNING, tried(placement_reasons=("No process uses it.",))),
         "It runs on a. No process uses it."),
        (job(JobState.UNKNOWN, tried(), detail="no answer"), "a is out of sight (no answer)."),
        (job(JobState.UNKNOWN, tried(), detail="x", cancel_requested=True), "will be stopped then"),
        (job(JobState.SUCCEEDED, tried(ended_at=NOW)), "It succeeded."),
        (job(JobState.FAILED, tried(ended_at=NOW), cause="ValueError: no file."), "ValueError"),
        (job(JobState.FAILED, tried(ended_at=NOW)), "It failed."),
        (job(JobState.OOM, tried(ended_at=NOW), cause="Out of memory on GPU 0."), "on GPU 0."),
        (job(JobState.CANCELLED, cause="Cancelled by ada before it started."), "by ada"),
    ],
)  # fmt: skip
def test_every_state_has_its_words(found: Job, words: str) -> None:
    assert words in reason(found)


@pytest.mark.parametrize(
    ("by", "cause", "words"),
    [
        ("preempted", "Preempted for job x.", "Try 1 on a made room for another job (Preempted"),
        ("crowded-out", "", "made room for the job it shared a device with."),
        ("lost-host", "a went away.", "was lost with its host (a went away)."),
        ("oom", "Out of memory; tried again with 32.", "ran out of memory (Out of memory; tried"),
        ("gang", "b ended first.", "ended with another host of its gang (b ended first)."),
        ("own", "Exit code 1.", "Try 1 on a ended (Exit code 1)."),
    ],
)
def test_a_job_that_is_queued_again_says_what_came_before(
    by: EndedBy, cause: str, words: str
) -> None:
    again = job(JobState.QUEUED, ended(by, cause))
    reported = reason(again)
    assert reported.startswith(WAITS.reason)
    assert words in reported
    soon = why_of(replace(again, detail=cause), {}, prospect=NO_PROSPECT, now=NOW)
    assert soon.reason.startswith("It starts in the dispatcher's next pass. Try 1 on a")
    second = tried(2, created_at=NOW - 100, starting_at=NOW - 100, started_at=NOW - 100)
    running = job(JobState.RUNNING, ended(by, cause), second)
    assert words in reason(running)


def test_checkpoints_of_a_preempted_job_keep_their_work() -> None:
    again = job(JobState.QUEUED, ended("preempted", "For x."), task={"checkpoint_dir": "ckpt"})
    assert "(For x); its checkpoints keep 10m00s of work." in reason(again)


def test_a_try_that_never_started_is_not_spoken_of() -> None:
    unused = tried(ended_at=NOW, starting_at=None, started_at=None, cause="Taken.")
    assert reason(job(JobState.QUEUED, unused)) == WAITS.reason


def test_a_held_job_names_the_command_that_releases_it() -> None:
    why = why_of(job(JobState.HELD), {}, prospect=NO_PROSPECT, now=NOW)
    assert why.options == ("Run `gpuconsole release j1`: it joins the queue again.",)


def test_a_long_wait_is_held_against_the_usual_one() -> None:
    queued = job(JobState.QUEUED)
    assert "waited" not in reason(queued, Prospect(30.0, (10.0, 40)))
    assert "It has waited 1h00m." in reason(queued, Prospect(HOUR))
    usual = reason(queued, Prospect(HOUR, (HOUR / 2, 40)))
    assert "It has waited 1h00m: the last 40 jobs waited 30m00s (median)." in usual
    long = reason(queued, Prospect(HOUR, (300.0, 40)))
    assert "It has waited 1h00m, longer than usual: the last 40" in long


def test_what_was_used_beyond_or_below_the_due_is_told() -> None:
    queued = job(JobState.QUEUED)
    over = reason(queued, Prospect(0.0, share=Share("ada", 0.75, 0.5)))
    assert "ada had 75% of recent use, above the 50% that are due: it comes later" in over
    under = reason(queued, Prospect(0.0, share=Share("ada", 0.1, 0.5)))
    assert "it comes earlier for that." in under
    assert reason(queued, Prospect(0.0, share=Share("ada", 0.5, 0.5))) == WAITS.reason
    assert reason(queued, Prospect(0.0, share=Share("ada", 1.0, 1.0))) == WAITS.reason


@pytest.mark.parametrize(
    ("left_s", "starts_at", "words"),
    [
        (HOUR, NOW, "It should meet its deadline of 2027-01-15 10:00 UTC."),
        (HOUR, NOW + 1.5 * HOUR, "cannot be met: it should end 30m00s later."),
        (HOUR, NOW + 3 * HOUR, "cannot be met: it is over before a start."),
        (None, NOW, "It is unknown whether it meets its deadline of 2027-01-15 10:00 UTC."),
    ],
)
def test_a_deadline_that_cannot_be_met_is_said(
    left_s: float | None, starts_at: float, words: str
) -> None:
    queued = job(JobState.QUEUED, task={"deadline": DEADLINE})
    expected = Expected(starts_at, ("a",), False)
    assert words in reason(queued, Prospect(0.0, left_s=left_s), expected=expected)


def test_a_running_job_says_when_it_should_end() -> None:
    running = job(JobState.RUNNING, tried(), task={"deadline": DEADLINE})
    reported = reason(running, Prospect(0.0, left_s=3 * HOUR))
    assert "It should end in about 3h00m." in reported
    assert "cannot be met: it should end 1h00m later." in reported
    assert "runs 10m00s longer than its task says" in reason(running, Prospect(0.0, left_s=-600.0))


def test_a_running_job_says_when_its_time_limit_ends_it() -> None:
    running = job(JobState.RUNNING, tried())
    reported = reason(running, Prospect(0.0, left_s=HOUR, limit_s=2 * HOUR))
    assert reported.endswith(
        "It should end in about 1h00m. Its time limit ends it in 2h00m at the latest."
    )
    assert "time limit" not in reason(running, Prospect(0.0, limit_s=-1.0)), "it is being ended"


def test_a_gang_runs_on_all_its_hosts() -> None:
    gang = tried(members=(Member("b", ("GPU-9",), (0,), "c"),))
    assert reason(job(JobState.RUNNING, gang)).startswith("It runs on a and b.")


def test_nobody_who_would_start_it_is_told() -> None:
    why = why_of(job(JobState.QUEUED), {}, no_console=True, prospect=NO_PROSPECT, now=NOW)
    assert "no console is open" in why.reason
    waits = why_of(
        job(JobState.QUEUED), {"j1": WAITS}, no_console=True, prospect=NO_PROSPECT, now=NOW
    )
    assert (
        waits.reason == f"No console is open that starts jobs, so none starts now. {WAITS.reason}"
    )
    assert waits.options == (*why.options, *WAITS.options)
    soon = why_of(job(JobState.QUEUED), {}, prospect=NO_PROSPECT, now=NOW)
    assert soon.reason == "It starts in the dispatcher's next pass."


def test_the_prospect_of_a_job_comes_from_the_journal() -> None:
    ledger = Ledger(LabSettings())
    past = [
        replace(
            job(JobState.SUCCEEDED, tried(ended_at=NOW - 1000 + HOUR)),
            id=f"p{number}",
            submitted_at=NOW - 1120,
        )
        for number in range(5)
    ]
    ledger.follow(past, FleetSnapshot())
    queued = replace(job(JobState.QUEUED), queued_at=NOW - 50)
    found = prospect_of(queued, ledger, NOW)
    assert found.waited_s == 50
    assert found.usual == (120.0, 5)
    assert found.left_s == pytest.approx(HOUR)
    assert found.length.startswith("It should run about 1h00m")
    said = replace(queued, task=replace(queued.task, run_time_s=120.0))
    assert prospect_of(said, ledger, NOW).length == "Its task declares a run time of 2m00s."


def verdict(device: str, said: str, most: int | None) -> dict[str, object]:
    return {"device": device, "verdict": said, "max_batch_size": most}


def test_a_smaller_batch_is_named_for_the_devices_that_are_too_small() -> None:
    document = {
        "batch_size": 64,
        "verdicts": [
            verdict("A100", "fits", 96),
            verdict("V100", "will-not-fit", 48),
            verdict("RTX 3090", "will-not-fit", 24),
            verdict("RTX 3090", "will-not-fit", 22),
            verdict("T4", "will-not-fit", 12),
        ],
    }
    assert smaller_batches(document) == (
        "With a batch of 48 or less instead of 64, V100 will do too.",
        "With a batch of 24 or less instead of 64, RTX 3090 will do too.",
    )


def test_no_batch_is_named_where_none_is_known_or_none_helps() -> None:
    known = [verdict("V100", "will-not-fit", 48)]
    assert smaller_batches({}) == ()
    assert smaller_batches({"batch_size": None, "verdicts": known}) == ()
    assert smaller_batches({"batch_size": 8, "verdicts": [verdict("T4", "will-not-fit", 0)]}) == ()
    assert smaller_batches({"batch_size": 8, "verdicts": [verdict("T4", "will-fail", 4)]}) == ()
