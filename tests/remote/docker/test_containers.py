"""What engines say of containers and of commands in them: read, bounded, and taken apart."""

from __future__ import annotations

from typing import Any, cast

import docker
import pytest

from gpuconsole.core.engines.host_containers import MOST
from gpuconsole.core.engines.processes import Said
from gpuconsole.errors import RefusedError
from gpuconsole.remote.docker.containers import _is_framed, _list, record
from gpuconsole.remote.docker_exec import _Frames


class Client:
    """Answers with what a test sets."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def containers(self, all: bool) -> Any:
        self.asked.append(all)
        return self.answer

    def inspect_container(self, container: str) -> Any:
        return self.answer


def client(answer: Any) -> docker.APIClient:
    return cast("docker.APIClient", Client(answer))


def test_hostile_texts_are_cleaned_and_cut() -> None:
    found = record(
        {
            "Id": "ab" * 32,
            "Names": ["/other/link", "/web\x1b[2J\x07"],
            "Image": "x" * 10_000,
            "State": "Running",
            "Status": "Up\r3 hours",
            "Command": "sh -c '\x1b]0;title\x07ls'",
            "Created": 1_700_000_000,
        },
        "h",
    )
    assert (found.name, found.state, found.status) == ("web", "running", "3 hours")
    assert found.command == "sh -c 'ls'"
    assert len(found.image) == 200
    assert found.key == "h:web"


def test_what_an_engine_leaves_out_is_not_made_up() -> None:
    found = record({"Id": "ab" * 32, "Names": None, "Created": "long ago"}, "h")
    assert (found.name, found.image, found.created_at) == ("", "", None)
    assert found.key == f"h:{'ab' * 6}"


def test_leases_are_no_containers_and_of_very_many_the_newest_are_listed() -> None:
    lease = {
        "Id": "ff" * 32,
        "Names": ["/gpuconsole-lease-GPU-1"],
        "Labels": {"gpuconsole.lease": "GPU-1"},
    }
    many = [lease, *({"Id": f"{n:064x}", "Names": [f"/c{n}"]} for n in range(MOST + 7))]
    found = _list(client(many), "h", stopped=True)
    assert (len(found.containers), found.left_out) == (MOST, 7)
    assert found.containers[0].name == "c0"


def test_output_of_a_terminal_is_not_framed_and_a_driver_that_keeps_nothing_is_refused() -> None:
    assert _is_framed(client({"Config": {"Tty": False}}), "c", "h")
    assert not _is_framed(client({"Config": {"Tty": True}}), "c", "h")
    none = {"Name": "/web", "HostConfig": {"LogConfig": {"Type": "none"}}}
    with pytest.raises(RefusedError, match="log driver is `none`"):
        _is_framed(client(none), "c", "h")


def test_frames_are_taken_apart_wherever_they_are_cut() -> None:
    def frame(stream: int, data: bytes) -> bytes:
        return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data

    whole = frame(1, b"out") + frame(2, b"wrong") + frame(1, b"") + frame(1, b"more")
    for cut in range(len(whole)):
        frames = _Frames()
        pieces = [*frames.feed(whole[:cut]), *frames.feed(whole[cut:])]
        assert b"".join(piece.data for piece in pieces if not piece.error) == b"outmore"
        assert b"".join(piece.data for piece in pieces if piece.error) == b"wrong"
    # A header that claims four gigabytes takes no memory.
    (piece,) = _Frames().feed(b"\x01\0\0\0\xff\xff\xff\xffabc")
    assert piece == Said(b"abc")
