"""Events: the name in one is distinguished from the words around it."""

import pytest

from gpuconsole.core.events import Event, worded
from gpuconsole.core.wording import Message
from gpuconsole.language import CHINESE, language


def reported(kind: str, subject: str, message: str, job: str = "") -> str:
    event = Event(kind, subject, message, 1.0)
    found = worded(event, job)
    assert found == message, "English stays as it is"
    return language(CHINESE).say(found)


@pytest.mark.parametrize(
    ("kind", "subject", "message", "job", "chinese"),
    [
        ("job", "a1", "bert: failed. Exit code 2.", "bert", "bert: 失败。退出码 2。"),
        ("job", "a1", "free: succeeded", "free", "free: 成功"),
        ("job", "a1", "v1. final: oom", "v1. final", "v1. final: 显存不足"),
        ("host", "free", "free is down.", "", "free 离线。"),
        ("host", "n3", "n3 takes jobs again", "", "n3 恢复接作业"),
        ("incident", "n3", "n3 gpu 0: GPU lost", "", "n3 gpu 0: GPU 丢失"),
        ("host", "n3", "n3 is on fire.", "", "n3 is on fire."),
        ("host", "", "3 hosts are up.", "", "3 台主机恢复在线。"),
        ("host", "n3", "n3 is down. {host} {n}", "", "n3 离线。{host} {n}"),
        ("host", "n3", "n3 is {host} down. x", "", "n3 is {host} down. x"),
        ("job", "a1", "bert", "bert", "bert"),
    ],
)
def test_what_was_written_elsewhere_is_said_but_its_names(
    kind: str, subject: str, message: str, job: str, chinese: str
) -> None:
    assert reported(kind, subject, message, job) == chinese


def test_a_message_made_here_is_found_again() -> None:
    made = Message("{host} is up.", {"host": "made-here"})
    assert worded(Event("host", "other", str(made), 1.0)) is made
