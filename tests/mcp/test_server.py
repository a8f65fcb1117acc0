"""`gpuconsole mcp` on the simulated lab, over stdio, with the official client."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp_types import Implementation

from gpuconsole.state import Journal
from tests.waiting import until

SCRIPT = """
import paddle

net = paddle.nn.Linear(64, 64)
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(3):
    loss = net(paddle.rand([8, 64])).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
WRITES = {"submit", "cancel", "hold", "release"}
COMMAND = [sys.executable, "-m", "gpuconsole", "mcp"]


@contextlib.asynccontextmanager
async def client(*words: str, folder: Path) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "gpuconsole", "mcp", *words],
        env=dict(os.environ), cwd=folder,
    )  # fmt: skip
    async with (
        stdio_client(server) as (heard, said),
        ClientSession(
            heard, said, client_info=Implementation(name="te\x1b[31mster", version="9")
        ) as session,
    ):
        await session.initialize()
        yield session


async def asked(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await session.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    found = json.loads(answer.content[0].text)
    assert answer.structured_content == found
    return found


async def queued(session: ClientSession) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await asked(session, "queue", state="all"))["jobs"]
    return found


async def refused(session: ClientSession, tool: str, **arguments: Any) -> str:
    answer = await session.call_tool(tool, arguments)
    assert answer.is_error, answer.content
    return str(answer.content[0].text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


async def test_without_leave_to_write_there_is_no_tool_that_does(folder: Path) -> None:
    for words in (("--demo",), ("--demo", "--allow-writes", "--read-only")):
        async with client(*words, folder=folder) as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert not WRITES & set(tools)
            assert all(tool.annotations.read_only_hint for tool in tools.values())
            said = await refused(session, "submit", script="train.py")
            assert "Unknown tool" in said


async def test_a_client_looks_at_everything(folder: Path) -> None:
    async with client("--demo", "--allow-writes", folder=folder) as lab:
        tools = {tool.name: tool for tool in (await lab.list_tools()).tools}
        assert set(tools) > WRITES
        assert tools["cancel"].annotations.destructive_hint
        assert all(tool.description for tool in tools.values())
        fleet = await asked(lab, "fleet")
        assert fleet["simulated"]
        name = fleet["hosts"][0]["name"]
        host = await asked(lab, "host", name=name)
        assert len(host["devices"]) == fleet["hosts"][0]["devices"]
        assert all("/" not in each["program"] or " " not in each["program"]
                   for one in host["devices"] for each in one["processes"])  # fmt: skip
        listed = await asked(lab, "devices", free_gib=1, limit=3)
        assert len(listed["devices"]) <= 3
        assert all(one["memory_free_mib"] >= 1024 for one in listed["devices"])
        jobs = await until(lambda: queued(lab), "a job of the demo")
        one = await asked(lab, "job", reference=jobs[0]["id"])
        assert one["id"] == jobs[0]["id"]
        assert (await asked(lab, "why", reference=one["id"]))["reason"]
        where = await asked(lab, "where_fits", memory_gib=8)
        assert where["fits"] is bool(where["places"])
        assert "nearest" in where
        huge = await asked(lab, "where_fits", memory_gib=900)
        assert not huge["fits"]
        assert huge["nearest"]["others"]
        assert (await asked(lab, "what_if", change=f"drain {name}"))["answer"]
        series = await asked(lab, "device_history", host=name, index=host["devices"][0]["index"])
        assert len(series["points"]) == 60
        assert "incidents" in await asked(lab, "incidents")
        assert "jobs" in await asked(lab, "history", limit=5)
        report = await asked(lab, "preflight", script="train.py")
        assert report["memory"]["total_mib"] > 0
        assert report["verdicts"]


async def test_a_client_submits_holds_releases_and_cancels_and_the_audit_says_so(
    folder: Path,
) -> None:
    async with client("--demo", "--allow-writes", folder=folder) as lab:
        made = await asked(lab, "submit", script="train.py", name="mine", hold=True)
        job = made["job"]["id"]
        assert made["job"]["state"] == "held"
        released = await asked(lab, "release", reference="mine")
        assert released["state"] != "held"
        await asked(lab, "cancel", reference=job)
        assert (await asked(lab, "job", reference=job))["state"] == "cancelled"
        assert job in [one["id"] for one in (await asked(lab, "history"))["jobs"]]
        assert "is cancelled" in await refused(lab, "hold", reference=job)
        acts = [act for act in (await asked(lab, "audit"))["acts"] if act["subject"] == job]
        assert [(act["verb"], bool(act["refused"])) for act in acts] == [
            ("hold", True), ("cancel", False), ("release", False), ("submit", False),
        ]  # fmt: skip
        assert all(act["from"].startswith("mcp: tester 9 (pid ") for act in acts)
        assert acts[-1]["detail"] == "train.py"


async def test_a_job_of_a_client_runs_and_its_log_is_read(folder: Path) -> None:
    async with client("--demo", "--allow-writes", folder=folder) as lab:
        made = await asked(lab, "submit", script="train.py", force=True)
        job = made["job"]["id"]
        read = await asked(lab, "log", reference=job, lines=5, search="no such words")
        assert read == {"job": job, "lines": []}


async def test_what_is_wrong_is_said_with_the_next_step(folder: Path) -> None:
    async with client("--demo", "--allow-writes", folder=folder) as lab:
        said = await refused(lab, "job", reference="no\x1b[31msuch")
        assert said.startswith("No such job")
        assert "\x1b" not in said
        assert "It has: " in await refused(lab, "host", name="nowhere")
        assert "is not a file here" in await refused(lab, "preflight", script="gone.py")
        assert "its devices are: 0" in await refused(
            lab, "device_history", index=4000,
            host=(await asked(lab, "fleet"))["hosts"][0]["name"],
        )  # fmt: skip
        assert await refused(lab, "what_if", change="explode")
        for tool, arguments, field in (
            ("job", {"reference": "x" * 201}, "reference"),
            ("queue", {"limit": 501}, "limit"),
            ("log", {"reference": "x", "lines": 0}, "lines"),
            ("where_fits", {"memory_gib": 0}, "memory_gib"),
            ("submit", {"script": "train.py", "args": ["a"] * 201}, "args"),
            ("host", {}, "name"),
        ):
            said = await refused(lab, tool, **arguments)
            assert said.startswith(f"Wrong arguments of {tool}:\n{field}: "), said
            assert "http" not in said


async def test_an_own_queue_is_written_to_and_read_with_no_host_in_reach(folder: Path) -> None:
    (folder / "lab.yaml").write_text(
        "version: 1\nhosts:\n  - {name: gone, address: 127.0.0.1, port: 9, user: nobody}\n"
    )
    base = ("--inventory", "lab.yaml", "--state", "state")
    async with client(*base, "--allow-writes", folder=folder) as session:
        made = await asked(session, "submit", script="train.py", force=True)
        assert "gone" in json.dumps(await asked(session, "fleet"))
    async with client(*base, folder=folder) as session:
        listed = (await asked(session, "queue"))["jobs"]
    assert [job["id"] for job in listed] == [made["job"]["id"]]
    journal = Journal(folder / "state", clock=time.time, read_only=True)
    (act,) = journal.acts(10)
    journal.close()
    assert (act.verb, act.subject, act.refused) == ("submit", made["job"]["id"], "")
    assert act.origin.startswith("mcp: tester 9 (pid ")


def test_it_ends_with_its_client_and_by_a_signal_and_wants_one(folder: Path) -> None:
    for end in ("close", "signal"):
        with subprocess.Popen(
            [*COMMAND, "--demo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=folder,
        ) as server:  # fmt: skip
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            server.stdin.flush()
            assert json.loads(server.stdout.readline())["id"] == 1
            if end == "close":
                server.stdin.close()
            else:
                server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
            assert server.stdout.read() == b""
    with open(os.devnull) as nobody:
        done = subprocess.run(
            [*COMMAND, "--demo"], stdin=nobody, capture_output=True, text=True, cwd=folder,
            timeout=60,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("No client: ")
