"""Words of sessions: moments to come, limits until a moment, labels that name a host, frames."""

from __future__ import annotations

from datetime import datetime

import pytest

from gpuconsole.core.engines import terminals
from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.time_limits import time_limit
from gpuconsole.core.util.human_time import coming

NOW = datetime(2026, 3, 4, 15, 30).timestamp()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("+2h", datetime(2026, 3, 4, 17, 30)),
        ("2h30m", datetime(2026, 3, 4, 18, 0)),
        ("18:00", datetime(2026, 3, 4, 18, 0)),
        # Today's is past.
        ("9:15", datetime(2026, 3, 5, 9, 15)),
        ("15:30", datetime(2026, 3, 5, 15, 30)),
        ("2026-03-06T08:00", datetime(2026, 3, 6, 8, 0)),
    ],
)
def test_a_moment_to_come(text: str, at: datetime) -> None:
    assert coming(text, NOW) == at.timestamp()


@pytest.mark.parametrize("text", ["", "soon", "25:00", "yesterday 18:00", "2026-03-01", "-2h"])
def test_what_is_no_moment_to_come(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|past"):
        coming(text, NOW)


def test_the_shortest_limit_holds() -> None:
    task = Task("t", until=NOW + 7200.0)
    # Until a moment: known once it has started.
    assert time_limit(task, None) is None
    limit = time_limit(task, None, NOW)
    assert limit is not None
    assert limit.seconds == 7200.0
    assert "until which it was wanted, 17:30:00" in limit.words
    lab = time_limit(task, 3600.0, NOW)
    assert lab is not None
    assert (lab.seconds, lab.lab) == (3600.0, True)
    own = time_limit(Task("t", time_limit_s=600.0, until=NOW + 7200.0), 3600.0, NOW)
    assert own is not None
    assert (own.seconds, own.lab, own.until) == (600.0, False, None)
    over = time_limit(task, None, NOW + 9000.0)
    assert over is not None
    assert over.seconds == 0.0


def test_host_is_a_label_of_every_host() -> None:
    host = Host("a", HostState.UP, labels={"rack": "r1"})
    assert host.has_labels({"host": "a", "rack": "r1"}, {})
    assert not host.has_labels({"host": "b"}, {})
    # One of the inventory goes first.
    assert Host("a", HostState.UP, labels={"host": "b"}).has_labels({"host": "b"}, {})


def test_frames_come_in_pieces() -> None:
    frames, sent = terminals.Frames(), terminals.frame(b"O", b"abc") + terminals.frame(b"E", b"0")
    found = [one for at in range(len(sent)) for one in frames.feed(sent[at : at + 1])]
    assert found == [(b"O", b"abc"), (b"E", b"0")]
    with pytest.raises(ValueError, match="no terminal"):
        list(frames.feed(b"O\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"{}", b'{"idle_s": -1, "viewers": 1}', b'{"idle_s": "x", "viewers": 1}']
)
def test_what_is_no_state_is_refused(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"state|Expecting"):
        terminals.state_of(said)
