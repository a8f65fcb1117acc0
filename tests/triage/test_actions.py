"""What can be done about an incident, and what it says would follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.incidents import HARMFUL, Incident
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.triage import RULES, actions_for, ticket
from gpuconsole.triage.actions import MOST_ACTIONS
from tests.triage.labs import ASIDE, NOW, device, found, host, job, process

TRAIN = job("train", "GPU-a0")
SAVING = replace(TRAIN, task=replace(TRAIN.task, checkpoint_dir="ckpt"))
LOST = host(device(lost=True))


def kinds(incident: Incident, jobs: tuple[Job, ...] = ()) -> list[str]:
    return [action.kind for action in actions_for(incident, LOST, jobs)]


def test_a_lost_card_drains_its_host_and_moves_its_job() -> None:
    incident = found(LOST, jobs=(SAVING,))["gpu-lost"]
    assert kinds(incident, (SAVING,)) == [
        "drain", "preempt", "open-host", "open-job", "ticket", "snooze", "resolve",
    ]  # fmt: skip
    assert kinds(incident, (TRAIN,))[1] == "cancel"


def test_the_preview_names_who_keeps_running() -> None:
    incident = found(LOST, jobs=(TRAIN,))["gpu-lost"]
    drain = actions_for(incident, LOST, (TRAIN,))[0]
    assert drain.preview == (
        "No new job starts on a.",
        "1 running job keeps going: train.",
        "Nothing is run on the host itself.",
    )
    assert "SIGTERM" in actions_for(incident, LOST, (TRAIN,))[1].preview[0]


def test_a_drained_host_is_not_drained_again() -> None:
    incident = found(LOST)["gpu-lost"]
    drained = replace(LOST, drained="drained by ana")
    assert "drain" not in [one.kind for one in actions_for(incident, drained, ())]


def test_a_host_that_is_set_aside_quotes_its_engine_and_can_be_taken_back() -> None:
    aside = host(faults=(ASIDE,), drained="set aside until 12:50")
    incident = found(aside)["set-aside"]
    assert incident.jobs == ("ana-x", "ana-y")
    assert [(one.source, one.text) for one in incident.evidence] == [
        ("engine", "The GPU runtime failed: a, while starting x: nvml error"),
        ("remedy", "Run `nvidia-smi` on the host."),
    ]
    actions = actions_for(incident, aside, ())
    assert [one.kind for one in actions] == [
        *("undrain", "open-host", "ticket", "snooze", "resolve")
    ]
    assert "undrain" not in HARMFUL


def test_a_failed_job_may_be_tried_again() -> None:
    incident = replace(found(LOST)["gpu-lost"], jobs=(TRAIN.id,))
    over = replace(TRAIN, state=JobState.FAILED)
    assert "retry" in kinds(incident, (over,))


def test_a_host_that_left_the_inventory_cannot_be_opened_or_drained() -> None:
    incident = found(LOST)["gpu-lost"]
    assert [one.kind for one in actions_for(incident, None, ())] == ["ticket", "snooze", "resolve"]


def test_a_forgotten_process_can_be_ended_and_is_no_reason_to_drain_a_host() -> None:
    idle = host(device(processes=(process(), process(900.0, "li", "d" * 64))))
    incident = found(idle)["idle-memory"]
    actions = actions_for(incident, idle, ())
    assert [one.kind for one in actions] == [
        "end-process", "stop-container", "open-host", "ticket", "snooze", "resolve",
    ]  # fmt: skip
    assert [one.target for one in actions[:2]] == ["4711", "d" * 64]
    assert actions[0].label == "end pid 4711, wang"
    assert "642 MiB of the device become free" in actions[0].preview[1]
    assert "belongs to li" in actions[1].preview[1]
    # By now it has gone: nobody else's process is offered in its place.
    assert actions_for(incident, host(device()), ())[0].kind == "open-host"


def test_the_jobs_own_process_is_never_offered_to_be_ended() -> None:
    own, other = process(900.0, "ana", TRAIN.attempts[0].container_id), process(800.0, "li")
    crowd = host(device(processes=(own, other, other), utilization=50.0))
    incident = found(crowd, jobs=(TRAIN,))["foreign-process"]
    actions = [one for one in actions_for(incident, crowd, (TRAIN,)) if "-" in one.kind]
    assert [one.kind for one in actions] == ["end-process", "open-host", "open-job"]


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_every_incident_has_actions_that_fit_the_digits_and_say_what_follows(rule: str) -> None:
    incident = replace(found(LOST)["gpu-lost"], rule=rule, jobs=tuple(f"j{n}" for n in range(9)))
    jobs = tuple(replace(TRAIN, id=f"j{number}") for number in range(9))
    actions = actions_for(incident, LOST, jobs)
    assert 3 <= len(actions) <= MOST_ACTIONS
    assert all(action.preview and action.label for action in actions)
    assert all(action.target for action in actions if action.kind in HARMFUL)


def test_a_ticket_says_everything_in_plain_lines() -> None:
    incident = found(LOST, jobs=(TRAIN,))["gpu-lost"]
    incident = replace(incident, times_before=2, before=(NOW - 9e5,), title="GPU \x1b[31mlost")
    text = ticket(incident, replace(LOST, address="10.0.0.9"), NOW + 60)
    expected = (
        *("critical: GPU lost on a gpu 0", "for 1m00s", "GPU-a0", "10.0.0.9", "ana-train"),
        *("device: the driver no longer lists it", "seen 2 times before", "rule gpu-lost"),
    )
    assert [words for words in expected if words not in text] == []
    assert "\x1b" not in text
