"""What receivers are sent, what they answer, and where the lab's service may send at all."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.lab_service.messages import (
    KINDS,
    MOST_BYTES,
    Kind,
    Notice,
    address_of,
    body_of,
    message_of,
    refusal_in,
)
from gpuconsole.core.lab_service.receivers import Receiver, require_mailbox, require_receiver
from gpuconsole.errors import DocumentError, RefusedError
from gpuconsole.session.messages.webhooks import is_public
from gpuconsole.yamldoc import parse

NOW = 1_800_000_000.0


def notice(number: int = 1, **more: str) -> Notice:
    return Notice(number, "failed", NOW, "ada", "job-1", **{"name": "train", **more})  # type: ignore[arg-type]


def text_in(kind: Kind, body: dict[str, object]) -> str:
    content = body.get("content") or body.get("text")
    found = content if isinstance(content, str) else next(iter(content.values()))  # type: ignore[union-attr]
    assert isinstance(found, str), kind
    return found


def test_each_receiver_gets_its_own_form() -> None:
    message = message_of((notice(cause="Exit code 1."),))
    forms = {kind: body_of(kind, message, "", NOW) for kind in KINDS}
    said = "gpuconsole: train failed\ntrain (job-1) failed. Exit code 1."
    assert forms["slack"] == {"text": said}
    assert forms["feishu"] == {"msg_type": "text", "content": {"text": said}}
    assert forms["wecom"] == {"msgtype": "text", "text": {"content": said}}
    assert forms["dingtalk"] == {
        "msgtype": "text", "text": {"content": said}, "at": {"isAtAll": False},
    }  # fmt: skip
    assert forms["webhook"]["notices"] == [
        {
            "what": "failed", "at": "2027-01-15T08:00:00.000Z", "job": "job-1", "name": "train",
            "user": "ada", "host": None, "cause": "Exit code 1.",
        }
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_mention_nobody_and_stay_small(kind: Kind) -> None:
    evil = '\x1b[31m<!channel> <at user_id="all">all</at> @all\n\u202e' + "x" * 10_000
    message = message_of(tuple(notice(n, name=evil, cause=evil) for n in range(50)))
    text = text_in(kind, body_of(kind, message, "", NOW))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.encode()) <= MOST_BYTES * 2
    if kind != "webhook":
        assert "<!channel>" not in text
        assert "<at " not in text
    assert len(json.dumps(body_of(kind, message, "", NOW))) < 64 * 1024


def test_many_things_become_one_message_that_counts() -> None:
    message = message_of(tuple(notice(number) for number in range(25)))
    assert message.subject == "jobs: 25 failed"
    assert message.lines[-1] == "And 15 more."


def test_robots_with_a_secret_get_signed_messages() -> None:
    message = message_of((notice(),))
    url = address_of("dingtalk", "https://oapi.dingtalk.com/robot/send?access_token=t", "SEC", NOW)
    query = parse_qs(urlsplit(url).query)
    stamp = str(round(NOW * 1000))
    signed = hmac.new(b"SEC", f"{stamp}\nSEC".encode(), hashlib.sha256).digest()
    assert query == {
        "access_token": ["t"], "timestamp": [stamp],
        "sign": [base64.b64encode(signed).decode()],
    }  # fmt: skip
    body = body_of("feishu", message, "SEC", NOW)
    signed = hmac.new(f"{NOW:.0f}\nSEC".encode(), b"", hashlib.sha256).digest()
    assert body["sign"] == base64.b64encode(signed).decode()
    assert body["timestamp"] == f"{NOW:.0f}"


@pytest.mark.parametrize(
    ("kind", "status", "body", "why"),
    [
        ("slack", 200, b"ok", ""),
        ("slack", 404, b"no_service", "it answered 404"),
        ("webhook", 204, b"", ""),
        ("dingtalk", 200, b'{"errcode":0,"errmsg":"ok"}', ""),
        ("dingtalk", 200, b'{"errcode":310000,"errmsg":"sign not match"}', "it refused: 310000"),
        ("wecom", 200, b'{"errcode":93000,"errmsg":"invalid webhook url"}', "it refused: 93000"),
        ("feishu", 200, b'{"code":0,"msg":"success"}', ""),
        ("feishu", 200, b'{"StatusCode":0}', ""),
        ("feishu", 200, b'{"code":19024,"msg":"Key Words Not Found"}', "it refused: 19024 Key"),
        ("feishu", 200, b"<html>", "no JSON"),
        ("wecom", 200, b"[]", "no JSON object"),
    ],
)
def test_a_refusal_that_comes_as_200_is_seen(
    kind: Kind, status: int, body: bytes, why: str
) -> None:
    found = refusal_in(kind, status, body)
    assert (why in found) if why else found == ""


def test_the_labs_service_contacts_only_whom_the_lab_names() -> None:
    allowed = ("hooks.slack.com", "*.example.org", "https://chat.lab:8443", "http://10.0.0.5:8065")
    assert require_receiver("https://hooks.slack.com/services/T/B/x", allowed)
    assert require_receiver("https://HOOKS.slack.com./x", allowed)
    assert require_receiver("http://10.0.0.5:8065/hooks/1", allowed)
    assert require_receiver("https://chat.lab:8443/x", allowed)
    assert not require_receiver("https://a.example.org/x", allowed), "by a pattern"
    for url in (
        "http://hooks.slack.com/x",
        "https://hooks.slack.com:22/x",
        "https://hooks.slack.com@evil.org/x",
        "https://evil.org/hooks.slack.com",
        "https://hooks.slack.com.evil.org/",
        "https://example.org/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.5/",
        "ftp://hooks.slack.com/",
        "https://chat.lab/",
        "https://[::1]/",
        "https://",
    ):
        with pytest.raises(RefusedError):
            require_receiver(url, allowed)
    with pytest.raises(RefusedError, match="no mail to"):
        require_mailbox("eve@evil.org", ("*@lab.example",))
    require_mailbox("Ada@Lab.example", ("*@lab.example",))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{slack: https://a.b/c, mail: a@b.c}", "expected one of"),
        ("{}", "expected one of"),
        ("{slack: https://a.b/c, secret: x}", "is for feishu and dingtalk"),
        ("{mail: '-oQ/tmp/x@evil.org'}", "mail"),
        ("{mail: 'a b@c'}", "mail"),
        ("{webhook: file:///etc/passwd}", "http"),
    ],
)
def test_settings_name_one_receiver_each_and_no_option_of_a_program(text: str, why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        parse(f"notify: {{ways: [{text}]}}", "config.yaml", LabSettings)


def test_addresses_are_not_part_of_what_settings_print() -> None:
    text = "notify: {ways: [{slack: 'https://hooks.slack.com/services/SECRET'}]}"
    assert "SECRET" not in repr(parse(text, "config.yaml", LabSettings))


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "10.0.0.1",
        "[::1]",
        "[64:ff9b::a00:1]",
        "017700000001",
    ],
)
def test_a_pattern_lets_no_form_of_an_address_through(host: str) -> None:
    assert not Receiver.of(f"https://{host}/hook").is_name


@pytest.mark.parametrize(
    "host", ["\uff11\uff10.0.0.1", "10\u30020\u30020\u30021", "\u246027.0.0.1"]
)
def test_letters_that_become_an_address_on_their_way_are_refused(host: str) -> None:
    with pytest.raises(RefusedError):
        require_receiver(f"https://{host}/hook", ["*"])


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "::127.0.0.1",
     "64:ff9b::a00:1", "2002:a00:1::", "fec0::1", "224.0.0.1", "ff0e::1"],
)  # fmt: skip
def test_an_address_within_an_address_counts(address: str) -> None:
    assert not is_public(address)
    assert is_public("1.1.1.1")
    assert is_public("2606:4700:4700::1111")
    assert is_public("64:ff9b::101:101")
