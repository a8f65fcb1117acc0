"""Services in the lab's queue: its service keeps them running, for their users alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.services import SERVICE, HealthCheck, Replica, Service
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.lab_service.views import public
from tests.session.lab_service.conftest import LabDesk
from tests.waiting import until

NOW = 1_800_000_000.0


def task(lab: LabDesk, **changes: object) -> Task:
    check = HealthCheck("command", command=("python", "check.py", "--word", "secret"))
    made = Service(8040, check=check, **changes)  # type: ignore[arg-type]
    return Task("ocr", str(lab.script), kind=SERVICE, service=made)


async def test_its_user_scales_it_and_others_see_that_it_is_a_service(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        lab.act_as("ada")
        (job,) = await ada.queue.serve(task(lab), hold=True, force=True)
        await ada.scale("ocr", 2)
        await until(lambda: [one.task.name for one in ada.jobs()] == ["ocr[1]", "ocr[2]"])
        assert {one.user for one in lab.session.jobs()} == {"ada"}
        assert (await ada.audit())[0].verb == "scale"
        await until(lambda: len(bob.jobs()) == 2)
        seen = bob.job(job.id).task.service
        assert seen is not None
        assert (seen.port, seen.replicas, seen.check) == (8040, 2, HealthCheck())
        with pytest.raises(UsageError, match="'ocr' is a service"):
            bob.job("ocr")
        lab.act_as("bob")
        for refused in (bob.scale("ocr", 1), bob.forward("ocr")):
            with pytest.raises(RefusedError, match="belongs to ada"):
                await refused
        with pytest.raises(RefusedError, match="belongs to ada"):
            await bob.queue.scale_all([job.id], 1)
        lab.act_as("ada")
        await ada.queue.cancel_all([one.id for one in ada.jobs()])
        await until(lambda: all(one.state is JobState.CANCELLED for one in ada.jobs()))


def test_others_are_not_told_what_a_check_said_and_in_which_container() -> None:
    running = Attempt(1, "a", ("GPU-0",), (0,), container_name="gpuconsole-1-1")
    said = Replica("gpuconsole-1-1", "healthy", NOW, said="secret", leaving_for="secret")
    job = Job("1", Task("ocr[1]", kind=SERVICE, sweep="ocr", service=Service(8040)), "ada",
              JobState.RUNNING, NOW, attempts=(running,), replica=said)  # fmt: skip
    seen = public(job)
    assert (seen.state_word, seen.is_healthy) == ("healthy", True)
    assert "secret" not in repr(seen)
    assert "gpuconsole-1-1" not in repr(seen)
    # Of a container that is there no more it says nothing.
    again = replace(running, number=2, container_name="gpuconsole-1-2")
    assert public(replace(job, attempts=(running, again))).state_word == "starting"


@pytest.mark.parametrize(
    "wrong",
    [{"replicas": 65}, {"port": 0}, {"drain_s": -1.0}, {"scaled_at": 1e12}, {"restart": "often"}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_what_no_task_file_can_say_is_refused(lab: LabDesk, wrong: dict[str, object]) -> None:
    async with lab.console("ada") as ada:
        made = task(lab)
        assert made.service is not None
        service = replace(made.service, **wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await ada.queue.serve(replace(made, service=service), hold=True, force=True)
        assert not lab.session.jobs()
