"""The address that Prometheus scrapes: who may read, and that many scrapes cost one."""

from __future__ import annotations

import asyncio
import gzip
import os
import shlex
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="needs the extra `metrics`")
parser = pytest.importorskip("prometheus_client.parser", reason="needs the extra `metrics`")

from gpuconsole.cli.entry import main  # noqa: E402
from gpuconsole.core.fleet import FleetSnapshot  # noqa: E402
from gpuconsole.errors import UsageError  # noqa: E402
from gpuconsole.session.metrics.console import prediction_facts  # noqa: E402
from gpuconsole.session.metrics.model import Picture  # noqa: E402
from gpuconsole.session.metrics.queue import Tally  # noqa: E402
from gpuconsole.simulated_lab import SimulatedHosts  # noqa: E402
from gpuconsole.web.auth import Bearer, issued  # noqa: E402
from gpuconsole.web.metrics import Address, address_of, exposed  # noqa: E402

NOW = 1_800_000_000.0
TOKEN = "a-token-of-24-characters"
HERE = Address("127.0.0.1", 0)


def picture_of(snapshot: FleetSnapshot) -> Picture:
    return Picture(NOW, snapshot, Tally("weighted").facts((), NOW), prediction_facts(()))


class Pictures:
    """Stands for a session's metrics: one picture until another is put there."""

    def __init__(self, hosts: int = 3) -> None:
        self.now = picture_of(SimulatedHosts(hosts, clock=lambda: NOW).snapshot())
        self.taken = 0

    def picture(self) -> Picture:
        self.taken += 1
        return self.now


@asynccontextmanager
async def serving(
    pictures: Pictures, token: str = "", **headers: str
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    guard = Bearer(None, "T", {"T": token}) if token else None
    async with (
        exposed(pictures, HERE, guard) as address,  # type: ignore[arg-type]
        aiohttp.ClientSession(headers=headers, auto_decompress=False) as client,
    ):
        yield client, address.url


async def test_what_is_served_is_read_back_by_the_official_parser() -> None:
    pictures = Pictures()
    async with serving(pictures) as (client, url):
        answer = await client.get(url)
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = await answer.text()
    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    for host in pictures.now.snapshot.hosts:
        for device in host.devices:
            at = (("device", str(device.index)), ("host", host.name))
            used = read["gpuconsole_device_memory_used_bytes", at]
            assert used == pytest.approx((device.memory_used_mib or 0) * 2**20)
    assert read["gpuconsole_queue_wait_seconds_bucket", (("le", "+Inf"),)] == 0.0
    assert read["gpuconsole_attempts_ended_total", (("end", "oom"),)] == 0.0


async def test_hostile_words_stay_inside_their_label() -> None:
    pictures = Pictures(1)
    host = pictures.now.snapshot.hosts[0]
    foul = replace(host.devices[0], model='x"} 1\nevil_metric{a="b"} 7\n# HELP \\', uuid='\\"\n')
    hosts = (replace(host, devices=(foul, *host.devices[1:])),)
    pictures.now = picture_of(FleetSnapshot(1, NOW, hosts))
    async with serving(pictures) as (client, url):
        text = await (await client.get(url)).text()
    names = [family.name for family in parser.text_string_to_metric_families(text)]
    assert all(name.startswith("gpuconsole_") for name in names)


async def test_the_newer_format_is_spoken_to_those_who_ask_for_it() -> None:
    openmetrics = "application/openmetrics-text; version=1.0.0"
    async with serving(Pictures(), Accept=openmetrics) as (client, url):
        answer = await client.get(url)
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert (await answer.text()).rstrip().endswith("# EOF")


async def test_many_scrapes_at_once_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuconsole.web import metrics

    written = 0
    families = metrics.families

    def counted(picture: Picture) -> object:
        nonlocal written
        written += 1
        return families(picture)

    monkeypatch.setattr(metrics, "families", counted)
    pictures = Pictures()
    async with serving(pictures) as (client, url):

        async def scrape() -> bytes:
            return bytes(await (await client.get(url)).read())

        texts = await asyncio.gather(*(scrape() for _ in range(40)))
        assert len(set(texts)) == 1
        assert written == 1
        pictures.now = replace(pictures.now, at=NOW + 1.0)
        assert await scrape() != texts[0]
        assert written == 2


async def test_large_answers_are_compressed_for_those_who_can_read_that() -> None:
    plain, packed = {"Accept-Encoding": "identity"}, {"Accept-Encoding": "gzip"}
    async with serving(Pictures(80)) as (client, url):
        whole = await (await client.get(url, headers=plain)).read()
        answer = await client.get(url, headers=packed)
        assert answer.headers["Content-Encoding"] == "gzip"
        small = await answer.read()
        assert len(small) < len(whole) / 5
        assert gzip.decompress(small) == whole


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        ("Bearer \udcff\udcfe", 401),
        (f"Basic {TOKEN}", 401),
        ("", 401),
    ],
)
async def test_with_a_token_only_who_bears_it_may_read(header: str, status: int) -> None:
    async with serving(Pictures(), TOKEN) as (_, url):
        # By hand: a client would refuse to send some of these.
        address = Address(*_parts(url))
        reader, writer = await asyncio.open_connection(address.host, address.port)
        line = f"Authorization: {header}\r\n" if header else ""
        request = f"GET /metrics HTTP/1.1\r\nHost: elsewhere:1\r\n{line}Connection: close\r\n\r\n"
        writer.write(request.encode(errors="surrogateescape"))
        answer = (await reader.read()).decode(errors="replace")
        writer.close()
        assert answer.startswith(f"HTTP/1.1 {status} "), answer[:200]
        assert ("gpuconsole_host_up" in answer) is (status == 200)


async def test_without_a_token_only_names_of_loopback_are_answered() -> None:
    async with serving(Pictures()) as (client, url):
        assert (await client.get(url)).status == 200
        answer = await client.get(url, headers={"Host": "lab.example.org"})
        assert answer.status == 403
        assert "gpuconsole_host_up" not in await answer.text()
        for name in ("localhost:1", "[::1]:1", "127.0.0.1", "127.0.0.1:9765"):
            assert (await client.get(url, headers={"Host": name})).status == 200
        for name in ("127.0.0.5", "evil.org@127.0.0.1", "127.0.0.1.evil.org", "localhost.evil.org",
                     "10.0.0.1", "[", ""):  # fmt: skip
            assert (await client.get(url, headers={"Host": name})).status in (400, 403)
        assert (await client.get(url.replace("/metrics", "/"))).status == 200
        assert (await client.post(url)).status == 405
        assert (await client.get(f"{url}/more")).status == 404


async def test_a_port_that_is_taken_is_told() -> None:
    async with serving(Pictures()) as (_, url):
        taken = Address(*_parts(url))
        with pytest.raises(UsageError, match="Cannot serve there"):
            async with exposed(Pictures(), taken, None):  # type: ignore[arg-type]
                pass


def _parts(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    return host, int(port)


# --- what is refused before anything starts -----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "loopback"),
    [
        ("127.0.0.1:9765", "127.0.0.1", True),
        ("127.8.0.1:0", "127.8.0.1", True),
        ("localhost:1", "localhost", True),
        ("[::1]:80", "::1", True),
        ("0.0.0.0:80", "0.0.0.0", False),
        ("[::]:80", "::", False),
        ("10.0.0.7:80", "10.0.0.7", False),
        ("gpu-bastion:80", "gpu-bastion", False),
        ("localhost.evil.org:80", "localhost.evil.org", False),
    ],
)
def test_addresses(text: str, host: str, loopback: bool) -> None:
    address = address_of(text)
    assert address.host == host
    assert address.is_loopback is loopback
    assert text in address.url


@pytest.mark.parametrize(
    "text", ["9765", ":9765", "127.0.0.1", "127.0.0.1:", "a:b", "a:65536", "::1:80", "[a]:80", ""]
)
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        address_of(text)


def test_a_token_comes_from_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    assert Bearer(path, "T", {}).token() == TOKEN
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(UsageError, match="may be read by other"):
            Bearer(path, "T", {}).token()
    with pytest.raises(UsageError, match="No such file"):
        Bearer(tmp_path / "none", "T", {}).token()


def test_another_address_of_loopback_is_answered_where_it_was_chosen() -> None:
    chosen = address_of("127.8.0.1:9765")
    assert chosen.is_named("127.8.0.1:9765")
    assert chosen.is_named("127.8.0.1")
    for other in ("127.8.0.2:9765", "evil.org@127.8.0.1:9765", "127.8.0.1:x", "x:127.8.0.1", ""):
        assert not chosen.is_named(other)
    assert address_of("[::1]:80").is_named("[::1]:8080")


def test_a_token_s_file_is_read_again_so_that_it_can_be_rotated_and_revoked(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    bearer = Bearer(path, "T", {})
    assert bearer.bears(f"Bearer {TOKEN}")
    path.write_text(TOKEN[::-1])
    assert not bearer.bears(f"Bearer {TOKEN}")
    assert bearer.bears(f"bearer  {TOKEN[::-1]}")
    path.chmod(0o644)
    assert not bearer.bears(f"Bearer {TOKEN[::-1]}")
    path.unlink()
    assert not bearer.bears(f"Bearer {TOKEN[::-1]}")
    assert not bearer.bears("Bearer ")


def test_a_token_expires_when_its_file_is_old(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    written = path.stat().st_mtime
    day, passed = written + 20.0, 0.0
    bearer = Bearer(path, "T", {}, age_s=60.0, clock=lambda: day, elapsed=lambda: passed)
    assert bearer.bears(f"Bearer {TOKEN}")
    # The time of day is set back; the token ends all the same.
    day, passed = written - 3600.0, 39.0
    assert bearer.bears(f"Bearer {TOKEN}")
    passed = 40.0
    assert not bearer.bears(f"Bearer {TOKEN}")
    with pytest.raises(UsageError, match="expired"):
        bearer.token()
    os.utime(path, (written - 3600.0, written - 3600.0))
    assert bearer.bears(f"Bearer {TOKEN}"), "it was written again"


def test_the_clock_of_tokens_is_not_the_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    monkeypatch.setattr(time, "clock_gettime", lambda which: passed)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    bearer = Bearer(None, "T", {"T": TOKEN}, age_s=60.0)
    with issued(tmp_path / "web", 60.0) as guard:
        passed = 59.0
        assert bearer.bears(f"Bearer {TOKEN}")
        assert not guard.ended
        passed = 60.0
        assert not bearer.bears(f"Bearer {TOKEN}")
        assert guard.ended


def test_a_variable_s_token_expires_after_the_start() -> None:
    now = 100.0
    bearer = Bearer(None, "T", {"T": TOKEN}, age_s=60.0, elapsed=lambda: now)
    now = 159.0
    assert bearer.bears(f"Bearer {TOKEN}")
    now = 160.0
    assert not bearer.bears(f"Bearer {TOKEN}")


@pytest.mark.parametrize("token", ["short", "", " " * 40, "ключ" * 8, "a b\tc" * 8 + "\x07"])
def test_a_token_that_cannot_be_used_is_refused(tmp_path: Path, token: str) -> None:
    path = tmp_path / "token"
    path.write_text(token)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="Token cannot be used"):
        Bearer(path, "T", {}).token()


def test_a_token_comes_from_a_variable() -> None:
    assert Bearer(None, "T", {}).token() == ""
    assert Bearer(None, "T", {"T": TOKEN}).token() == TOKEN
    with pytest.raises(UsageError, match=r"\$T"):
        Bearer(None, "T", {"T": "short"}).token()


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["metrics", "--listen", "0.0.0.0:0"], "A token is needed"),
        (["metrics", "--demo", "--listen", "[::]:0"], "A token is needed"),
        (["dispatch", "--metrics", "0.0.0.0:0"], "A token is needed"),
        (["metrics", "--listen", "nowhere"], "HOST:PORT"),
        (["dispatch", "--token-file", "somewhere"], "Add --metrics"),
        (["metrics", "--token-file", "/nowhere/token"], "No such file"),
    ],
)
def test_the_commands_refuse_before_they_start(
    words: list[str],
    reported: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GPUCONSOLE_METRICS_TOKEN", raising=False)
    assert main(words) == 2
    assert reported in capsys.readouterr().err


def test_without_its_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpuconsole.cli import metrics_server

    monkeypatch.setattr(metrics_server, "find_spec", lambda name: None)
    assert main(["metrics", "--demo"]) == 2
    command = shlex.split(capsys.readouterr().err.partition("Run: ")[2].replace("\n", " "))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert "prometheus-client>=0.21" in command


def test_a_wrong_token_takes_as_long_as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared = []
    real = hmac.compare_digest

    def seen(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", seen)
    guard = Bearer(None, "T", {"T": TOKEN})
    assert guard.bears(f"Bearer {TOKEN}")
    assert not guard.bears("Bearer nonsense")
    assert len(compared) == 2, "each is compared as a whole, in constant time"
