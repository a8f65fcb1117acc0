"""Users of the lab's service hear of their jobs: by their own settings, within the policy."""

from __future__ import annotations

import json

import pytest

from gpuconsole.config import AllowedSection, LabSettings, NotifySection
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.lab_service.service import LabService
from gpuconsole.yamldoc import parse
from tests.session.lab_service.conftest import LabDesk
from tests.session.messages.test_messages import Receiver, receiver
from tests.waiting import until


def settings(*ways: str) -> NotifySection:
    about = "about: [started, succeeded]"
    text = f"notify: {{ways: [{', '.join(ways)}], {about}}}"
    return parse(text, "config.yaml", LabSettings).notify


def allow(lab: LabDesk, *, webhooks: tuple[str, ...], mail: tuple[str, ...] = ()) -> LabDesk:
    """Return the desk with a service of this policy in place of its own."""
    allowed = AllowedSection(webhooks=webhooks, mail=mail, devices=8)
    lab.session.settings = lab.session.settings.model_copy(update={"allowed": allowed})
    lab.service = LabService(lab.session, lab.root / "second.sock")
    return lab


def receiver_host(one: Receiver) -> str:
    return one.url.rsplit("/", 2)[0]


async def test_the_service_tells_each_user_by_their_own_way_alone(lab: LabDesk) -> None:
    async with receiver() as adas, receiver() as bobs, receiver() as forbidden:
        allow(lab, webhooks=(receiver_host(adas), receiver_host(bobs)))
        async with lab.service, lab.console("ada") as ada, lab.console("bob") as bob:
            ada.settings = ada.settings.model_copy(
                update={
                    "notify": settings(f"{{slack: '{forbidden.url}'}}", f"{{slack: '{adas.url}'}}")
                }
            )
            bob.settings = bob.settings.model_copy(
                update={"notify": settings(f"{{webhook: '{bobs.url}'}}")}
            )
            lab.act_as("bob")
            assert await bob.send_test_message() == (f"webhook ({receiver_host(bobs)[7:]})", [])
            lab.act_as("ada")
            task = Task("train", str(lab.script), folder=".")
            job = await ada.queue.submit(task, force=True)
            await until(
                lambda: any("sends no messages to" in one for one in ada.warnings(job.id)),
                "what is of no use is said",
            )
            await until(lambda: "succeeded" in json.dumps(adas.got))
            assert "started" in json.dumps(adas.got)
            assert len(bobs.got) == 1, "the test message alone"
            assert forbidden.got == []
            acts = await ada.audit(10)
            assert ("notify", "settings") in [(act.verb, act.subject) for act in acts]
            assert "SECRET" not in str(acts)
            assert "SECRET" not in str([event for _, event in lab.session._journal.events_after(0)])


async def test_tests_are_refused_with_a_reason_and_not_too_often(lab: LabDesk) -> None:
    async with receiver() as one:
        allow(lab, webhooks=("hooks.slack.com",))
        async with lab.service, lab.console("ada") as ada:
            for way, why in (
                (f"{{slack: '{one.url}'}}", "sends no messages to http://127.0.0.1"),
                ("{mail: eve@evil.org}", "sends no mail to eve@evil.org"),
                ("{desktop: true}", "no desktop"),
            ):
                lab.service._tested.clear()
                ada.settings = ada.settings.model_copy(update={"notify": settings(way)})
                with pytest.raises(RefusedError, match=why):
                    await ada.send_test_message()
            with pytest.raises(RefusedError, match="Wait a few seconds"):
                await ada.send_test_message()
            assert one.got == []


async def test_the_service_hands_its_own_ways_to_nobody(lab: LabDesk) -> None:
    own = settings("{slack: 'https://hooks.slack.com/services/SECRET'}")
    lab.session.settings = lab.session.settings.model_copy(update={"notify": own})
    hello = await lab.client().hello()
    assert hello.settings.notify == NotifySection()


async def test_a_longer_run_than_the_labs_is_refused_by_the_service(lab: LabDesk) -> None:
    limits = parse("limits: {time_limit: 1h}", "config.yaml", LabSettings).limits
    async with lab.console("ada") as ada:
        lab.session.settings = lab.session.settings.model_copy(update={"limits": limits})
        task = Task("train", str(lab.script), time_limit_s=7200.0)
        with pytest.raises(UsageError, match="no job of this lab may run longer than 1h"):
            await ada.queue.submit(task, force=True)
