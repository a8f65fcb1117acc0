"""Searches: goals, what may be tried, and what is known of trials."""

from __future__ import annotations

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.tuning import (
    Between,
    Choice,
    Goal,
    best_of,
    corners,
    read_space,
    trial_of,
    with_values,
)
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.log import Reading
from gpuconsole.errors import UsageError

MIN = Goal("val_loss", False)


def test_goals() -> None:
    assert Goal.of(" min  val_loss ") == MIN
    assert Goal.of("max acc") == Goal("acc", True)
    for wrong in ("val_loss", "least val_loss", "min", "min val loss"):
        with pytest.raises(UsageError, match="is no goal"):
            Goal.of(wrong)


def test_what_may_be_tried() -> None:
    space = read_space(["lr=1e-5..1e-1:log width=64,128", "n=1..8", "drop=0..0.5", "k=0..6..3"])
    assert space == (
        Between("--lr", 1e-5, 0.1, False, True),
        Choice("--width", ("64", "128")),
        Between("--n", 1, 8, True, False),
        Between("--drop", 0.0, 0.5, False, False),
        Choice("--k", ("0", "3", "6")),
    )
    assert read_space([one.text for one in space]) == space, "as a task keeps it"
    own = read_space(["lr=1..2"], lambda name: ("-l", "--learning-rate"))
    assert own[0].flag == "--learning-rate"


@pytest.mark.parametrize("text", ["lr=2..1", "lr=0..1:log", "lr", "lr=1..2 lr=3..4", ""])
def test_what_is_no_search_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_space([text])


def test_memory_is_asked_for_at_the_ends() -> None:
    found = corners(read_space(["lr=0.1..0.5", "width=64,128"]))
    assert found == [
        {"--lr": lr, "--width": width} for lr in ("0.1", "0.5") for width in ("64", "128")
    ]
    many = corners(read_space([f"x{number}=0..9" for number in range(8)]))
    assert len(many) == 2


def curves(*values: float, step: int = 10) -> Curves:
    made = Curves()
    for number, value in enumerate(values, start=1):
        made.take(Reading({"val_loss": value}, None, number * step))
    return made


def job(name: str, state: JobState, cause: str = "") -> Job:
    return Job(name, Task(name, trial={"--lr": "0.1"}), "ada", state, 0.0, cause=cause)


def test_what_came_of_a_trial() -> None:
    found = trial_of(job("a", JobState.SUCCEEDED), MIN, curves(3.0, 1.0, 2.0))
    assert (found.state, found.value) == ("complete", 1.0)
    assert found.reported == ((10, 3.0), (20, 1.0), (30, 2.0))
    pruned = job("a", JobState.CANCELLED, "Pruned: val_loss was 9")
    assert trial_of(pruned, MIN, curves(9.0)).state == "pruned"
    assert trial_of(job("a", JobState.CANCELLED), MIN, curves(9.0)).state == "failed"
    assert trial_of(job("a", JobState.SUCCEEDED), MIN, Curves()).state == "failed"
    assert trial_of(job("a", JobState.RUNNING), MIN, curves(9.0)).state == "running"


def test_the_best_trial() -> None:
    jobs = [job(name, JobState.SUCCEEDED) for name in "abc"]
    known = {"a": curves(3.0, 0.5), "b": curves(1.0), "c": Curves()}
    best = best_of(jobs, known, MIN)
    assert best is not None
    assert (best[0].id, best[1].value) == ("a", 0.5)
    best = best_of(jobs, known, Goal("val_loss", True))
    assert best is not None
    assert (best[0].id, best[1].value) == ("a", 3.0)
    assert best_of(jobs[2:], known, MIN) is None


def test_a_trial_is_named_by_what_it_tries() -> None:
    made = with_values(Task("t", args=("--epochs", "3", "--lr", "1")), "train", {"--lr": "0.1"})
    assert made.args == ("--epochs", "3", "--lr", "0.1")
    assert made.name == "train[lr=0.1]"
    assert made.trial == {"--lr": "0.1"}
