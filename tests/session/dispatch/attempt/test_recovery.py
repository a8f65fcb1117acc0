"""Every state of the journal against every state of the container."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.containers import ContainerStatus
from gpuconsole.core.jobs import Attempt
from gpuconsole.session.dispatch.attempt.recovery import Step, next_step

CHOSEN = Attempt(number=1, host="h", container_name="gpuconsole-job-1-abc", created_at=1.0)
STARTING = replace(CHOSEN, starting_at=2.0)
STARTED = replace(STARTING, started_at=3.0)
OWN = {"gpuconsole.journal": "j", "gpuconsole.nonce": "abc"}

TABLE = [
    # container, wanted: (chosen, starting, started), cancelled: (chosen, starting, started)
    (None, "launch lost lost", "discard lost lost"),
    ("created", "start start start", "discard discard discard"),
    ("created!", "finish finish finish", "discard discard discard"),
    ("running", "watch watch watch", "stop stop stop"),
    ("paused", "watch watch watch", "stop stop stop"),
    ("restarting", "watch watch watch", "stop stop stop"),
    ("exited", "finish finish finish", "finish finish finish"),
    ("dead", "finish finish finish", "finish finish finish"),
    ("removing", "wait wait wait", "wait wait wait"),
]


def container(state: str | None, labels: dict[str, str]) -> ContainerStatus | None:
    if state is None:
        return None
    error = "no such device" if state.endswith("!") else ""
    return ContainerStatus("id", CHOSEN.container_name, state.rstrip("!"), labels, error=error)


@pytest.mark.parametrize(("state", "wanted", "cancelled"), TABLE)
@pytest.mark.parametrize("cancel", [False, True])
def test_the_table(state: str | None, wanted: str, cancelled: str, cancel: bool) -> None:
    steps = (cancelled if cancel else wanted).split()
    for attempt, expected in zip((CHOSEN, STARTING, STARTED), steps, strict=True):
        step = next_step(attempt, container(state, OWN), journal="j", cancel=cancel)
        assert step is Step(expected)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"gpuconsole.journal": "j", "gpuconsole.nonce": "other"},
        {"gpuconsole.journal": "another user's", "gpuconsole.nonce": "abc"},
    ],
)
@pytest.mark.parametrize("state", ["created", "running", "exited", "removing"])
@pytest.mark.parametrize("cancel", [False, True])
def test_a_container_of_somebody_else_is_left_alone(
    labels: dict[str, str], state: str, cancel: bool
) -> None:
    assert next_step(CHOSEN, container(state, labels), journal="j", cancel=cancel) is Step.FOREIGN
