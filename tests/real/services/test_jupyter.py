"""JupyterLab on a leased device, through the forward: the page, its token, and a cell that runs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

import gpuconsole
from gpuconsole.core.engines.terminals import JUPYTER_PORT, JUPYTER_TOKEN
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import RefusedError
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from gpuconsole.waiting import within
from tests.real.rig.browser import CHROMIUM, Page, browser
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.image import PADDLE_IMAGE, paddle_image
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, job_is, until

LAB_IMAGE = "lab/jupyter:1"
SOURCE = Path(gpuconsole.__file__).resolve().parents[1]
"""Where the image finds gpuconsole, as if it was installed in it."""
SHIFT = 8
"""The modifier in Chromium's protocol."""


@pytest.fixture
def engine(docker_lab: Lab) -> LabDocker:
    if importlib.util.find_spec("jupyterlab") is None:
        pytest.skip("jupyterlab is not installed")
    engine = docker_lab.add().start_engine()
    share = Path(sys.prefix) / "share"
    env = {"JUPYTERLAB_DIR": f"{share}/jupyter/lab", "JUPYTER_PATH": f"{share}/jupyter"}
    paddle_image(engine, LAB_IMAGE, env=env, packages=[share, SOURCE])
    return engine


async def runs(http: aiohttp.ClientSession, base: str, token: str, code: str) -> str:
    """Run a cell in a new kernel, as the page does; return what it prints."""
    given = {"token": token}
    async with http.post(f"{base}api/kernels", params=given) as answer:
        assert answer.status == 201, await answer.text()
        kernel = (await answer.json())["id"]
    async with http.ws_connect(f"{base}api/kernels/{kernel}/channels", params=given) as socket:
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "",
                  "session": uuid.uuid4().hex, "version": "5.3"}  # fmt: skip
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        await socket.send_json(
            {"header": header, "parent_header": {}, "metadata": {}, "content": content,
             "channel": "shell", "buffers": []}
        )  # fmt: skip
        async for message in socket:
            said = json.loads(message.data)
            if said["msg_type"] == "stream":
                return str(said["content"]["text"])
    raise AssertionError("the kernel said nothing")


async def address_of(session: Session, job: Job) -> str:
    """Return where JupyterLab answers: on a busy machine it is asked for more than once."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await session.jupyter_address(job.id)
        except RefusedError:
            if time.monotonic() >= deadline:
                raise


async def test_a_cell_runs_through_the_forward_and_only_with_the_token(
    session: Session, desk: Desk, engine: LabDocker
) -> None:
    desk.script("ANSWER = 42", "known.py")
    opened = await session.jupyter(image=LAB_IMAGE, project=str(desk.project))
    job = await job_is(session, opened, JobState.RUNNING)
    address = await address_of(session, job)
    base = address.partition("lab?")[0]
    token = parse_qs(urlsplit(address).query)["token"][0]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as http:
        async with http.get(address) as page:
            assert page.status == 200
            assert "JupyterLab" in await page.text()
        async with aiohttp.ClientSession() as stranger:
            for wrong in ({}, {"token": "guess"}):
                async with stranger.get(f"{base}api/contents", params=wrong) as answer:
                    assert answer.status == 403
        code = "from known import ANSWER; print(ANSWER)"
        assert await within(PATIENCE_S, runs(http, base, token, code)) == "42\n"
    await secret(session, job, token)
    await session.cancel(job.id)
    client = engine.client()
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")
    await until(lambda: not session.forwards.open_now(), what="the forward is over")


NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": "one", "metadata": {}, "outputs": [], "execution_count": None,
         "source": "from known import ANSWER\nprint('the answer is', ANSWER * 2)"}
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}  # fmt: skip
READY = "document.body.innerText.includes('Python 3 (ipykernel) | Idle')"
"""What the status bar says once the notebook has its kernel; without one it asks for one."""
CELL = "document.querySelector('.jp-Notebook .jp-Cell .cm-content')"
OUTPUT = "document.querySelector('.jp-Notebook .jp-OutputArea-output')?.innerText"


async def holds(page: Page, expression: str, wanted: object) -> None:
    """Wait until an expression has a value in the page."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := await page.value(expression)) != wanted:
        if time.monotonic() >= deadline:
            text = await page.value("document.body.innerText")
            raise AssertionError(f"{expression} is {found!r}, not {wanted!r}: {text[-2000:]}")
        await asyncio.sleep(0.1)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
async def test_a_cell_runs_in_a_browser(session: Session, desk: Desk) -> None:
    desk.script("ANSWER = 42", "known.py")
    desk.script(json.dumps(NOTEBOOK), "book.ipynb")
    opened = await session.jupyter(image=LAB_IMAGE, project=str(desk.project))
    job = await job_is(session, opened, JobState.RUNNING)
    address = await address_of(session, job)
    async with browser() as show:
        page = await show(address.replace("/lab?", "/lab/tree/book.ipynb?"))
        await holds(page, READY, True)
        assert await page.value(f"({CELL}.focus(), {OUTPUT})") is None
        await enter(page)
        await holds(page, f"{OUTPUT}?.trim()", "the answer is 84")
    await session.cancel(job.id)


CELLS = (
    "%load_ext gpuconsole\n%gpuconsole open --demo --speed 40",
    "%%gpuconsole\nimport paddle\nnet = paddle.nn.Linear(8, 8)\nnet(paddle.rand([4, 8]))",
)
BUTTON = "document.querySelector('.jp-Notebook .jupyter-button')"

SAID = "document.querySelector('.jp-Notebook .widget-html-content')?.innerText"
"""What is shown below the button once it was pressed."""


def book(*sources: str) -> str:
    """Return a notebook of such cells."""
    (cell,) = NOTEBOOK["cells"]
    cells = [{**cell, "id": f"c{number}", "source": text} for number, text in enumerate(sources)]
    return json.dumps({**NOTEBOOK, "cells": cells})


async def enter(page: Page) -> None:
    """Run the cell of the cursor."""
    for kind in ("keyDown", "keyUp"):
        await page.call(
            "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", modifiers=SHIFT,
            windowsVirtualKeyCode=13,
        )  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
async def test_the_submit_button_is_pressed_in_a_browser_which_may_be_closed_and_come_back(
    session: Session, desk: Desk, engine: LabDocker
) -> None:
    pytest.importorskip("ipywidgets")
    desk.script(book(*CELLS), "book.ipynb")
    opened = await session.jupyter(image=LAB_IMAGE, project=str(desk.project))
    job = await job_is(session, opened, JobState.RUNNING)
    address = (await address_of(session, job)).replace("/lab?", "/lab/tree/book.ipynb?")
    async with browser() as show:
        page = await show(address)
        await holds(page, READY, True)
        await page.value(f"{CELL}.focus()")
        await enter(page)
        await holds(page, "document.body.innerText.includes('SIMULATED')", True)
        await enter(page)
        await holds(page, f"{BUTTON}?.innerText.trim()", "Submit")
        assert not await page.value(SAID)
        await page.value(f"{BUTTON}.click()")
        await holds(page, f"{BUTTON}.disabled && {SAID}.includes('queued')", True)
    # Without its browser the session runs on, and its port answers the next one.
    assert session.job(job.id).state is JobState.RUNNING
    async with browser() as show:
        page = await show(address)
        await holds(page, READY, True)
    await session.cancel(job.id)


async def secret(session: Session, job: Job, token: str) -> None:
    """The token is in no log, no command line and no list."""
    assert session.job(job.id).task.secrets == {JUPYTER_TOKEN: ""}
    assert token not in session.render(job.id)
    assert token not in "".join([line async for line in session.logs(job.id)])


async def test_an_image_without_it_says_so_and_one_that_has_it_is_offered(
    session: Session, desk: Desk
) -> None:
    opened = await session.jupyter(image=LAB_IMAGE)
    await job_is(session, opened, JobState.RUNNING)
    address = await within(PATIENCE_S, session.jupyter_address(opened.id))
    base, token = address.partition("lab?")[0], parse_qs(urlsplit(address).query)["token"][0]
    async with aiohttp.ClientSession() as http:
        # As File, Shut Down does.
        await http.post(f"{base}api/shutdown", params={"token": token})
    await job_is(session, opened, JobState.SUCCEEDED)
    job = await session.jupyter(image=PADDLE_IMAGE, env={"PATH": "/nowhere"})
    await until(lambda: session.job(job.id).state.ended)
    ended = session.job(job.id)
    assert ended.state is JobState.FAILED
    assert ended.cause == "The image has no JupyterLab."
    lines = [line async for line in session.logs(job.id)]
    assert "The image has no JupyterLab." in lines
    done = await asyncio.to_thread(
        subprocess.run, desk.command("jupyter", job.id), capture_output=True, text=True
    )
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "The image has no JupyterLab." in said
    assert f"Images of that host that have what it needs: {LAB_IMAGE}." in said


async def test_a_port_that_is_taken_is_said_and_a_free_one_named(
    session: Session, desk: Desk
) -> None:
    opened = await session.jupyter(image=LAB_IMAGE)
    await job_is(session, opened, JobState.RUNNING)
    with socket.create_server((HOME, 0)) as taken:
        number = taken.getsockname()[1]
        words = desk.command("jupyter", opened.id, "--local-port", str(number))
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 2
        said = " ".join(done.stderr.split())
        assert f"{number}" in said
        assert "already" in said
        # One that names no port gets another.
        with contextlib.closing(socket.socket()) as usual:
            usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            usual.bind((HOME, JUPYTER_PORT))
            usual.listen()
            address = await within(PATIENCE_S, session.jupyter_address(opened.id))
            assert urlsplit(address).port not in (None, JUPYTER_PORT)
    await session.cancel(opened.id)
