"""An MCP client on real parts: it lists, submits, reads the log, and stands in the audit."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.real.rig.hosts import Lab
from tests.real.rig.lab_queue import RIGHTS, USERS, served
from tests.real.rig.sessions import COUNT, Desk, job_is, let_go, seen
from tests.real.services.test_road import TRAIN

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

pytestmark = pytest.mark.real


@contextlib.asynccontextmanager
async def client(
    command: Sequence[str], env: dict[str, str], folder: Path
) -> AsyncIterator[ClientSession]:
    # It takes seconds to import, and most shards run other files.
    from mcp import StdioServerParameters
    from mcp.client.session import ClientSession
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=env, cwd=folder)
    async with (
        stdio_client(server) as (heard, said),
        ClientSession(heard, said) as session,
    ):
        await session.initialize()
        yield session


async def asked(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await session.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    found: dict[str, Any] = json.loads(answer.content[0].text)
    return found


async def test_a_client_lists_and_submits_and_the_job_runs(docker_lab: Lab, tmp_path: Path) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path)
    script = desk.script(COUNT)
    command = desk.command("mcp", "--allow-writes")
    async with client(command, dict(os.environ), desk.folder) as lab:
        fleet = await asked(lab, "fleet")
        assert [(one["name"], one["state"]) for one in fleet["hosts"]] == [(host.name, "up")]
        listed = await asked(lab, "devices")
        assert listed["devices"][0]["host"] == host.name
        where = await asked(lab, "where_fits", memory_gib=1)
        assert where["places"][0]["host"] == host.name
        made = await asked(lab, "submit", script=str(script), force=True)
        job = made["job"]["id"]
        assert [one["id"] for one in (await asked(lab, "queue"))["jobs"]] == [job]
        # Nobody starts it as long as no console is there.
        assert made["dispatcher"] is None
        async with desk.session() as session:
            await seen(session)
            running = await job_is(session, session.job(job), "running")
            assert (await asked(lab, "job", reference=job))["host"] == host.name
            let_go(host, running)
            await session.wait(job)
            log = await asked(lab, "log", reference=job, lines=1)
        assert log["lines"][0].startswith("counted ")
        past = (await asked(lab, "history"))["jobs"]
        assert [(one["id"], one["state"]) for one in past] == [(job, "succeeded")]
        (act,) = (await asked(lab, "audit"))["acts"]
        assert (act["verb"], act["subject"]) == ("submit", job)
        assert act["from"].startswith("mcp: ")


async def test_the_labs_service_knows_what_was_done_through_a_client(
    docker_lab: Lab, tmp_path: Path
) -> None:
    head = docker_lab.add(accounts=USERS)
    head.start_engine()
    inventory = docker_lab.inventory() + RIGHTS
    with served(docker_lab, head, tmp_path, inventory, TRAIN) as service:
        theirs = service.submit("bob", "--hold")
        async with client(*service.command("ada", "mcp", "--allow-writes"), service.folder) as lab:
            made = await asked(lab, "submit", script=str(service.script), hold=True)
            answer = await lab.call_tool("cancel", {"reference": theirs})
            assert answer.is_error
            assert "belongs to bob; you are ada" in answer.content[0].text
            await asked(lab, "cancel", reference=made["job"]["id"])
        acts = [act for act in service.json("eve", "audit")["acts"] if act["user"] == "ada"]
    assert [(act["verb"], bool(act["refused"])) for act in acts] == [
        ("cancel", False), ("cancel", True), ("submit", False),
    ]  # fmt: skip
    for act in acts:
        assert act["from"].startswith("sshd")
        assert ", through mcp: " in act["from"]
