"""The engine's parts that need no engine: frames, progress, times, errors, archives."""

from __future__ import annotations

import io
import json
import re
import struct
import tarfile
from pathlib import Path

import docker
import pytest
import requests
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.containers import ContainerSpec
from gpuconsole.errors import ConsoleError, EngineError, ImageError, UnreachableError, UsageError
from gpuconsole.remote.docker.engine import _remove
from gpuconsole.remote.docker.errors import image_error, translate
from gpuconsole.remote.docker.files import rewrite
from gpuconsole.remote.docker.images import LAYER_LIMIT, LINE_LIMIT, PullProgress
from gpuconsole.remote.docker.leases import held, lease_name
from gpuconsole.remote.docker.logs import Demultiplexer
from gpuconsole.remote.docker.spec import create_options
from gpuconsole.remote.docker.status import container_status, engine_info, engine_time, is_podman


def frame(payload: bytes, stream: int = 1) -> bytes:
    return struct.pack(">BxxxL", stream, len(payload)) + payload


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 20)))
def test_frames_come_apart_however_they_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    wire = b"".join(frame(payload, 1 + at % 2) for at, payload in enumerate(payloads))
    frames, found = Demultiplexer(), b""
    for size in cuts:
        found += b"".join(frames.feed(wire[:size]))
        wire = wire[size:]
    found += b"".join(frames.feed(wire))
    assert found == b"".join(payloads)


def test_a_frame_that_claims_gigabytes_is_passed_on_as_it_comes() -> None:
    frames = Demultiplexer()
    assert list(frames.feed(b"\1\0\0\0\xff\xff\xff\xff")) == []
    assert list(frames.feed(b"x" * 100)) == [b"x" * 100]


def event(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\r\n"


def test_progress_sums_the_layers() -> None:
    pull = PullProgress("img:1")

    def layer(name: str, done: int, total: int) -> list[str]:
        detail = {"current": done * 2**20, "total": total * 2**20}
        return list(pull.feed(event(status="Downloading", id=name, progressDetail=detail)))

    assert layer("a", 0, 100) == ["pulling img:1 0 % (0.0 MiB of 100 MiB)"]
    assert layer("b", 100, 300) == ["pulling img:1 25 % (100 MiB of 400 MiB)"]
    assert layer("b", 100, 300) == []
    assert list(pull.feed(event(status="Extracting", id="a"))) == ["unpacking img:1"]
    assert list(pull.feed(event(status="Pull complete", id="a"))) == []
    assert pull.error == ""
    assert list(pull.feed(event(error="no space left on device"))) == []
    assert pull.error == "no space left on device"


@given(st.lists(st.binary(max_size=200)))
def test_progress_survives_anything(chunks: list[bytes]) -> None:
    pull = PullProgress("img")
    for chunk in chunks:
        assert all(isinstance(line, str) for line in pull.feed(chunk))


@pytest.mark.parametrize(
    "line",
    [
        {"status": "Downloading", "progressDetail": {"current": "x", "total": None}, "id": []},
        {"status": "Downloading", "progressDetail": {"current": 1, "total": 0}, "id": "a"},
        {"status": ["Downloading"], "progressDetail": 3},
        [1, 2],
        None,
    ],
)
def test_progress_ignores_odd_events(line: object) -> None:
    assert list(PullProgress("img").feed(json.dumps(line).encode() + b"\n")) == []


def test_progress_ignores_what_no_engine_writes() -> None:
    pull = PullProgress("img")
    assert list(pull.feed(b"[" * 50_000 + b"\n")) == []
    huge = {"current": 10**400, "total": 10**400}
    assert list(pull.feed(event(status="Downloading", id="a", progressDetail=huge))) == []
    for number in range(LAYER_LIMIT + 10):
        detail = {"current": 1, "total": 2}
        list(pull.feed(event(status="Downloading", id=str(number), progressDetail=detail)))
    assert len(pull._layers) == LAYER_LIMIT


def test_an_endless_line_of_progress_is_not_kept() -> None:
    pull = PullProgress("img")
    for _ in range(100):
        list(pull.feed(b"x" * 10_000))
    assert len(pull._rest) <= LINE_LIMIT


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000.5),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000.123456),
        ("2023-11-15T06:13:20.25+08:00", 1_700_000_000.25),
    ],
)
def test_engine_times(text: str, seconds: float) -> None:
    assert engine_time(text) == pytest.approx(seconds, abs=1e-6)


def test_a_container_that_never_started_has_no_exit_code() -> None:
    zero = "0001-01-01T00:00:00Z"
    state = {"Status": "created", "ExitCode": 128, "Error": "\x1b[31mno", "OOMKilled": False}
    status = container_status(
        {
            "Id": "i",
            "Name": "/n",
            "Created": "2023-11-14T22:13:20Z",
            "State": {**state, "StartedAt": zero, "FinishedAt": zero},
            "Config": {"Labels": None},
        }
    )
    assert (status.name, status.exit_code, status.error) == ("n", None, "no")
    assert (status.started_at, status.ended_at) == (None, None)


def test_podman_and_runtimes_are_told_apart() -> None:
    podman = {"Version": "4.3", "Components": [{"Name": "Podman Engine"}]}
    assert is_podman(podman)
    assert engine_info(podman, {}, hook=False).version == "podman 4.3"
    offered = {"Runtimes": {"runc": {}}, "DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}
    assert engine_info({"Version": "29"}, offered, hook=False).gpu_runtime
    assert engine_info({}, {"Runtimes": {"runc": {}, "nvidia": {}}}, hook=False).gpu_runtime
    assert engine_info({}, {"Runtimes": {"runc": {}}}, hook=True).gpu_runtime
    assert not engine_info({}, {"Runtimes": {"runc": {}}}, hook=False).gpu_runtime


def answered(status: int, explanation: str) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError("x", response=response, explanation=explanation)


@pytest.mark.parametrize(
    ("explanation", "kind", "title"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', EngineError, "No GPU"),
        ("error running hook #0: nvidia-container-cli: device error: 9", EngineError, "The GPU"),
        ("write /x: no space left on device", EngineError, "The host's disk is full"),
        ('exec: "python": executable file not found in $PATH', ImageError, "The image lacks"),
        ("exec /bin/sh: exec format error", ImageError, "The image is for another"),
        ("bind source path does not exist: /data", EngineError, "A mounted folder is missing"),
        ('error gathering device information while adding "/dev/x"', EngineError, "A device node"),
        ("something new\x1b[2J", EngineError, "Docker refused"),
    ],
)
def test_answers_are_explained(explanation: str, kind: type[ConsoleError], title: str) -> None:
    error = translate(answered(500, explanation), "box", "starting x")
    assert type(error) is kind
    assert error.title.startswith(title)
    assert "box" in error.message
    assert "\x1b" not in error.message
    assert error.hint or title == "Docker refused"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (requests.ConnectionError("reset"), "connection broke"),
        (requests.ReadTimeout("x"), "no answer in time"),
        (requests.ConnectionError("Read timed out."), "no answer in time"),
        (urllib3.exceptions.ProtocolError("x"), "connection broke"),
        (BrokenPipeError(), "connection broke"),
    ],
)
def test_a_broken_way_is_unreachable(error: Exception, reason: str) -> None:
    found = translate(error, "box", "listing leases")
    assert isinstance(found, UnreachableError)
    assert reason in found.message


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("pull access denied for x, repository does not exist", "docker login"),
        ("manifest for x:2 not found: manifest unknown", "name and tag"),
        ("Get https://r/v2/: dial tcp: lookup r: no such host", "network and proxy"),
        ("toomanyrequests: You have reached your pull rate limit", "limits pulls"),
        ("write /var/lib/docker: no space left on device", "Free space"),
        ("odd", "docker pull"),
    ],
)
def test_an_image_that_cannot_be_had_says_what_to_do(said: str, hint: str) -> None:
    error = image_error("img:1", "box", said)
    assert error.message.startswith("img:1 on box: ")
    assert hint in error.hint


def archive(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uname = 2, 0o755, "ann"
            tar.addfile(entry, io.BytesIO(b"hi"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a/b.py"
        tar.addfile(link)
    return path


def test_code_is_moved_below_its_target_and_given_to_the_user(tmp_path: Path) -> None:
    out = io.BytesIO()
    rewrite(archive(tmp_path / "b", "a/b.py", "c"), out, "/workspace/code", "12:34")
    with tarfile.open(fileobj=out) as tar:
        found = {entry.name: entry for entry in tar}
        assert tar.extractfile("workspace/code/c").read() == b"hi"  # type: ignore[union-attr]
    assert list(found) == [
        *("workspace/code", "workspace/code/a", "workspace/code/a/b.py", "workspace/code/c"),
        "workspace/code/link",
    ]
    assert {(e.uid, e.gid, e.uname) for e in found.values()} == {(12, 34, "")}
    assert found["workspace/code/link"].linkname == "a/b.py"
    assert found["workspace/code/c"].mode == 0o755
    assert found["workspace/code/a"].isdir()


@pytest.mark.parametrize(("user", "owner"), [("", (0, 0)), ("7", (7, 7)), ("paddle", (0, 0))])
def test_a_user_without_numbers_means_root(
    tmp_path: Path, user: str, owner: tuple[int, int]
) -> None:
    out = io.BytesIO()
    rewrite(archive(tmp_path / "b", "c"), out, "/w", user)
    with tarfile.open(fileobj=out) as tar:
        assert {(entry.uid, entry.gid) for entry in tar} == {owner}


def test_input_that_may_only_be_read_is_roots_and_writable_for_none(tmp_path: Path) -> None:
    out, bundle = io.BytesIO(), tmp_path / "b"
    with tarfile.open(bundle, "w:gz") as tar:
        for name, mode in (("tool", 0o4700), ("secret", 0o600), ("open", 0o666)):
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            tar.addfile(entry)
    rewrite(bundle, out, "/", "12:34", read_only=True)
    with tarfile.open(fileobj=out) as tar:
        found = {entry.name: entry for entry in tar}
    assert {(entry.uid, entry.gid) for entry in found.values()} == {(0, 0)}
    modes = {name: oct(entry.mode) for name, entry in found.items()}
    assert modes == {".": "0o555", "tool": "0o555", "secret": "0o444", "open": "0o444"}


def test_a_cut_bundle_is_said(tmp_path: Path) -> None:
    whole = archive(tmp_path / "b", *(f"f{index}" for index in range(200)))
    whole.write_bytes(whole.read_bytes()[:-200])
    with pytest.raises(UsageError, match="packed project"):
        rewrite(whole, io.BytesIO(), "/w", "1:1")


@given(st.text(min_size=1))
def test_lease_names_are_ones_an_engine_takes(uuid: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", lease_name(uuid))


def test_the_engine_is_asked_for_no_more_than_the_spec_says() -> None:
    client = docker.APIClient(base_url="unix:///nonexistent.sock", version="1.41")
    made = ContainerSpec("n", "img", ("a",), device_uuids=("GPU-a",), memory_limit_mib=10)
    host = create_options(client, made, init=False)["host_config"]
    assert host["Memory"] == host["MemorySwap"] == 10 * 2**20
    assert host["DeviceRequests"][0]["DeviceIDs"] == ["GPU-a"]
    assert host["DeviceRequests"][0]["Count"] == 0
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert not {"Privileged", "PortBindings", "PidMode", "IpcMode", "CapAdd"} & set(host)
    client.close()


@pytest.mark.parametrize("since", ["", "soon", "nan", "inf", "-inf", "1e300", "-5"])
def test_a_lease_whose_time_is_none_still_counts(since: str) -> None:
    labels = {"gpuconsole.lease": "GPU-1", "gpuconsole.job": "j", "gpuconsole.since": since}

    class Client:
        def containers(self, **_: object) -> list[dict[str, object]]:
            name = "/" + lease_name("GPU-1")
            return [{"Id": "x", "Names": [name], "Labels": labels, "Created": 5}]

    (found,) = held(Client())
    assert (found.lease.uuid, found.lease.since) == ("GPU-1", 0.0)


class Removing:
    """A client of an engine on which a removal is under way, which ends like this."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)

    def remove_container(self, container: str, *, v: bool, force: bool) -> None:
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        if status != 204:
            response = requests.Response()
            response.status_code = status
            raise docker.errors.APIError("removal", response=response)


def test_a_removal_that_is_under_way_is_waited_for_and_its_failure_is_told() -> None:
    for ends in ((409, 404), (409, 409, 204), (404,), (204,)):
        _remove(Removing(*ends), "c")  # type: ignore[arg-type]
    for fails in ((409,), (409, 500)):
        with pytest.raises(docker.errors.APIError):
            _remove(Removing(*fails), "c", wait_s=0.3)  # type: ignore[arg-type]
