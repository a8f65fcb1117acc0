"""The lab's service and what no console of ours would send: it answers in words, and lives on."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gzip
import io
import json
import os
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gpuconsole.core.containers import PruneResult
from gpuconsole.core.images import parse_reference
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.remote.transfer import packed_project as unpacking
from gpuconsole.remote.transfer.packed_project import require_bounded
from gpuconsole.session.lab_service import measuring
from gpuconsole.session.lab_service.http.rates import AT_ONCE, PER_SECOND, Rates
from gpuconsole.session.lab_service.protocol import (
    ANSWER,
    FILES,
    MEASUREMENT,
    OPERATION,
    REFUSAL,
    REQUEST,
    SUBMISSION,
    Measurement,
    Operation,
    Request,
    Submission,
    Wanted,
)
from tests.session.lab_service.conftest import LabDesk, packed_project
from tests.waiting import until

ROUNDS = 2000 if os.environ.get("GPUCONSOLE_EXAMPLES") == "many" else 120
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, -1e308, 1e400, "", "\x00", "\x1b[2J", "a" * 70_000,
    "../../etc/passwd", "\ud800", [], {}, [[]], {"": ""}, ["x"] * 300, [None], {"a": {"b": [1]}},
)  # fmt: skip
NESTED = b"[" * 100_000


def _documents(rng: random.Random, document: Any) -> Iterator[bytes]:
    """Give a document with some of its values replaced, and texts that are cut off."""
    for _ in range(ROUNDS):
        broken = json.loads(json.dumps(document))
        for _ in range(rng.randint(1, 3)):
            _break(rng, broken)
        text = json.dumps(broken).encode()
        yield text[: rng.randrange(len(text))] if rng.random() < 0.1 else text
    yield NESTED
    yield b""
    yield b"\xff\xfe"


def _break(rng: random.Random, document: Any) -> None:
    at, inner = document, document
    while isinstance(inner, (dict, list)) and inner:
        at = inner
        key: Any = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        inner = at[key]
        if rng.random() < 0.3:
            break
    if at is not document or isinstance(at, (dict, list)):
        at[key] = copy.deepcopy(rng.choice(ODD))


async def _lives(lab: LabDesk) -> bool:
    lab.act_as("ada")
    hello = await lab.client().hello()
    return hello.user == "ada"


def _http(lab: LabDesk) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(lab.service.path)))


async def test_broken_acts_are_refused_in_words(lab: LabDesk) -> None:
    rng = random.Random(1)
    whole = json.loads(REQUEST.dump_json(Request("cancel", ("a", "b"), "h", 3, "t", {"A": "b"})))
    async with _http(lab) as http:
        for number, text in enumerate(_documents(rng, whole)):
            # Many accounts: one would have to wait.
            lab.act_as(f"u{number}")
            async with http.post("http://lab/v1/act", data=text) as response:
                body = await response.read()
                assert response.status in (200, 400, 409), (response.status, text[:300], body)
                (ANSWER if response.status == 200 else REFUSAL).validate_json(body)
    assert await _lives(lab)


async def test_broken_submissions_are_refused_in_words(lab: LabDesk) -> None:
    rng = random.Random(2)
    task = Task("x", "train.py", args=("a",), labels={"k": "v"}, env={"A": "b"})
    wanted = Wanted(task, 100.0, {"flags": ["x"], "memory": {"optimizer_mib": 1.0}})
    project = packed_project()
    whole = json.loads(SUBMISSION.dump_json(Submission((wanted,), False, {"T": "v"}, ("n",))))
    async with _http(lab) as http:
        for number, text in enumerate(_documents(rng, whole)):
            lab.act_as(f"u{number}")
            form = aiohttp.FormData()
            form.add_field("submission", io.BytesIO(text), content_type="application/json")
            bundle = b"no archive" if number % 4 == 0 else project
            form.add_field("bundle", io.BytesIO(bundle), content_type="application/gzip")
            async with http.post("http://lab/v1/submit", data=form) as response:
                body = await response.read()
                assert response.status in (200, 400, 409), (response.status, text[:300], body)
                (ANSWER if response.status == 200 else REFUSAL).validate_json(body)
    assert await _lives(lab)
    # What was taken can be planned with, and shown.
    jobs = lab.session._journal.jobs()
    assert jobs
    reasons = lab.session.explain(jobs)
    assert not [job for job in jobs if job.id not in reasons]
    async with lab.console("cat") as console:
        await until(lambda: {job.id for job in console.jobs()} == {job.id for job in jobs})


async def test_broken_operations_are_refused_in_words(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    done: list[str] = []

    async def prune(user: str = "") -> dict[str, PruneResult]:
        done.append(user)
        return {}

    async def fetch(fetches: Any, reported: Any) -> tuple[Any, ...]:
        for one in fetches:
            assert lab.session.snapshot().host(one.host) is not None
            parse_reference(one.image)
        return ()

    monkeypatch.setattr(lab.session, "_prune_of", prune)
    monkeypatch.setattr(lab.session.images, "fetch", fetch)
    host = lab.session.snapshot().hosts[0].name
    wholes = [
        json.loads(OPERATION.dump_json(Operation(verb, "a/b:1", host, ((host, "a/b:1"),), host, 1)))
        for verb in ("pull", "copy", "calibrate", "prune")
    ]
    answered = 0
    async with _http(lab) as http:
        for number, text in enumerate(_documents(rng, wholes[0])):
            if number % 4 and text.startswith(b"{"):
                with contextlib.suppress(ValueError):
                    text = json.dumps({**wholes[number % 4], **json.loads(text)}).encode()
            lab.act_as(f"u{number}")
            async with http.post("http://lab/v1/operation", data=text) as response:
                body = await response.read()
                assert response.status in (200, 400, 409), (response.status, text[:300], body)
                if response.status != 200:
                    REFUSAL.validate_json(body)
                else:
                    answered += b"document" in body
    assert answered
    assert all(user.startswith("u") for user in done)
    assert not lab.service._operations._running.total()
    assert await _lives(lab)


async def test_broken_measurements_are_refused_in_words(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(6)
    lab.session.simulated = False

    async def measure(context: Any, host: Any, *words: Any) -> bytes:
        return b"{}"

    monkeypatch.setattr(measuring, "measure_on_host", measure)
    monkeypatch.setattr(measuring, "measure_on_device", measure)
    host = next(one for one in lab.session.snapshot().hosts if one.devices)
    image = lab.session._context.default_image(host.name)
    uuid = next(one.uuid for one in host.devices if not one.processes)
    mounts = (Mount("/data/x", "/data"),)
    whole = json.loads(
        MEASUREMENT.dump_json(Measurement(host.name, image, mounts, {"a": 1}, True, uuid))
    )
    project, answered = packed_project(), 0
    async with _http(lab) as http:
        for number, text in enumerate(_documents(rng, whole)):
            lab.act_as(f"u{number}")
            form = aiohttp.FormData()
            form.add_field("measurement", io.BytesIO(text), content_type="application/json")
            form.add_field("bundle", io.BytesIO(project), content_type="application/gzip")
            async with http.post("http://lab/v1/measure", data=form) as response:
                body = await response.read()
                assert response.status in (200, 400, 409), (response.status, text[:300], body)
                if response.status != 200:
                    REFUSAL.validate_json(body)
                else:
                    answered += b"document" in body
    assert answered
    assert not lab.service._measuring._running.total()
    assert not lab.service._measuring._turns._running
    assert await _lives(lab)


async def test_broken_questions_are_refused_in_words(lab: LabDesk) -> None:
    rng = random.Random(3)
    names = ("job", "attempt", "rank", "offset", "wait", "host", "what", "limit", "image")
    known = lab.session.snapshot().hosts[0].name
    words = (
        "", "0", "-1", "9" * 400, "x", "../..", "\x1b[2J", "\N{SNOWMAN}", "1e9", "%00", known,
    )  # fmt: skip
    async with _http(lab) as http:
        for number in range(ROUNDS):
            lab.act_as(f"u{number}")
            query = {name: rng.choice(words) for name in rng.sample(names, 4)}
            route = rng.choice(
                ("log", "results", "files", "audit", "watch", "x", "../v1/act", "image", "images",
                 "digest")
            )  # fmt: skip
            async with http.get(f"http://lab/v1/{route}", params=query) as response:
                body = await response.read()
                assert response.status in (200, 400, 409), (response.status, route, query, body)
                if response.status != 200:
                    REFUSAL.validate_json(body)
                elif route == "files":
                    FILES.validate_json(body)
    assert await _lives(lab)


async def test_bytes_that_are_no_request_end_their_connection_alone(lab: LabDesk) -> None:
    rng = random.Random(4)
    request = b"POST /v1/act HTTP/1.1\r\nHost: lab\r\nContent-Length: 30\r\n\r\n{}"
    for number in range(ROUNDS):
        lab.act_as(f"u{number}")
        reader, writer = await asyncio.open_unix_connection(str(lab.service.path))
        broken = bytearray(request)
        for _ in range(rng.randint(1, 6)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        writer.write(rng.randbytes(300) if number % 3 == 0 else bytes(broken))
        writer.write_eof()
        await reader.read(4096)
        writer.close()
    assert await _lives(lab)


async def test_who_asks_without_end_is_told_to_wait_and_nobody_else(lab: LabDesk) -> None:
    refused = []
    async with _http(lab) as http:
        lab.act_as("bob")
        for _ in range(int(AT_ONCE) * 3):
            async with http.get("http://lab/v1/audit") as response:
                if response.status != 200:
                    refused.append(REFUSAL.validate_json(await response.read()))
                    break
    (refusal,) = refused
    assert (refusal.kind, refusal.title) == ("refused", "Too many requests")
    assert await _lives(lab)


def test_an_account_may_ask_again_after_a_while() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    for _ in range(int(AT_ONCE)):
        rates.take(1)
    with pytest.raises(RefusedError):
        rates.take(1)
    rates.take(2)
    now[0] = 1.0
    for _ in range(int(PER_SECOND)):
        rates.take(1)
    with pytest.raises(RefusedError):
        rates.take(1)


def _tar(entries: Callable[[tarfile.TarFile], None]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        entries(tar)
    return out.getvalue()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry


def _large(tar: tarfile.TarFile) -> None:
    tar.addfile(_entry("zeros", 40 << 20), io.BytesIO(bytes(40 << 20)))


FEW_FILES = 500
"""As many as a project may have here; to pack as many as it really may takes many seconds."""


def _many(tar: tarfile.TarFile) -> None:
    for number in range(FEW_FILES + 1):
        tar.addfile(_entry(str(number), 0))


def _small(tar: tarfile.TarFile) -> None:
    tar.addfile(_entry("train.py", 4), io.BytesIO(b"pass"))


def _claiming() -> bytes:
    """Return an archive with a first header that says that a name of 8 GiB follows."""
    entry = _entry("name", 8 << 30)
    entry.type = tarfile.GNUTYPE_LONGNAME
    return entry.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)


def _two() -> bytes:
    """Return an archive that is cut off, and a large one behind it."""
    return gzip.compress(_tar(_small)[:1024]) + gzip.compress(_tar(_large))


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (lambda: gzip.compress(_tar(_large)), "30 MiB unpacked"),
        (lambda: gzip.compress(_tar(_many)), f"{FEW_FILES} files"),
        (lambda: gzip.compress(_claiming()), "cannot be read"),
        (_two, "cannot be read"),
        (lambda: gzip.compress(_tar(_small))[:-20], "cannot be read"),
        (lambda: _tar(_small), "cannot be read"),
        (lambda: b"", "cannot be read"),
    ],
    ids=["large", "many", "claims", "two", "cut", "not-packed", "empty"],
)
def test_a_project_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, packed: Callable[[], bytes], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "FILE_LIMIT", FEW_FILES)
    bundle = tmp_path / "bundle"
    bundle.write_bytes(packed())
    with pytest.raises(UsageError) as caught:
        require_bounded(bundle, 30.0)
    assert said in f"{caught.value.title} {caught.value.message}"


def test_a_project_as_consoles_pack_it_passes(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.write_bytes(gzip.compress(_tar(_small)))
    require_bounded(bundle, 1.0)
