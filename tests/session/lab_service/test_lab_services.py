"""Services in the lab's queue: its service keeps them running, for their users alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.jobs import JobState, Task
from gpuconsole.core.services import SERVICE, HealthCheck, Service
from gpuconsole.errors import RefusedError, UsageError
from tests.session.lab_service.conftest import LabDesk
from tests.waiting import until


def task(lab: LabDesk, **changes: object) -> Task:
    check = HealthCheck("command", command=("python", "check.py", "--word", "secret"))
    made = Service(8040, check=check, **changes)  # type: ignore[arg-type]
    return Task("ocr", str(lab.script), kind=SERVICE, service=made)


async def test_its_user_scales_it_and_others_see_its_replicas_alone(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        lab.act_as("ada")
        (job,) = await ada.queue.serve(task(lab), hold=True, force=True)
        await ada.scale("ocr", 2)
        await until(lambda: [one.task.name for one in ada.jobs()] == ["ocr[1]", "ocr[2]"])
        assert {one.user for one in lab.session.jobs()} == {"ada"}
        assert (await ada.audit())[0].verb == "scale"
        await until(lambda: len(bob.jobs()) == 2)
        assert bob.job(job.id).task.service is None
        assert bob.job(job.id).replica is None
        lab.act_as("bob")
        with pytest.raises(RefusedError, match="belongs to ada"):
            await bob.queue.scale_all([job.id], 1)
        lab.act_as("ada")
        await ada.queue.cancel_all([one.id for one in ada.jobs()])
        await until(lambda: all(one.state is JobState.CANCELLED for one in ada.jobs()))


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
