"""Messages to users about their jobs: what they say, in the form that each receiver takes.

Pure: what is sent, and what an answer means. The forms are those of the receivers' own pages:
Slack's incoming webhooks, Feishu's and DingTalk's custom robots, WeCom's group robots.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args
from urllib.parse import quote

from gpuconsole.core.text import clean
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass

About = Literal[
    "started",
    "succeeded",
    "failed",
    "oom",
    "cancelled",
    "time-warning",
    "time-limit",
    "idle",
    "rule",
]
"""What a user can be notified of."""
What = Literal[About, "test"]
"""What a message is about."""
Kind = Literal["slack", "feishu", "dingtalk", "wecom", "webhook"]
"""Receivers of HTTP messages."""
KINDS: tuple[Kind, ...] = get_args(Kind)

_WORDS: Mapping[str, str] = {
    "started": "started",
    "succeeded": "succeeded",
    "failed": "failed",
    "oom": "ran out of device memory",
    "cancelled": "was cancelled",
    "time-warning": "will reach its time limit",
    "time-limit": "reached its time limit",
    "idle": "was ended because it did nothing",
    "rule": "was stopped by a rule of its task",
    "test": "is a test",
}
MOST_LINES = 10
"""Jobs that one message names; the others are counted."""
MOST_BYTES = 1800
"""Of a message's text: WeCom takes 2048, the others more."""
_LONGEST_LINE = 300
_MENTIONS = str.maketrans({"<": "\uff1c", ">": "\uff1e", "@": "\uff20"})
"""What a chat could read as a mention of everybody, or as a link."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened to a job."""

    number: int
    """Of the event in the journal."""
    what: What
    at: float
    user: str
    job: str = ""
    name: str = ""
    host: str = ""
    cause: str = ""

    @property
    def line(self) -> str:
        """It as one line."""
        name = clean(self.name, 80)
        where = f" on {clean(self.host, 60)}" if self.host and self.what == "started" else ""
        head = f"{name} ({self.job}) {_WORDS[self.what]}{where}"
        return clean(f"{head}. {self.cause}".rstrip(". ") + ".", _LONGEST_LINE)

    def as_json(self) -> dict[str, str | None]:
        """Return it as a plain webhook gets it."""
        return {
            "what": self.what,
            "at": iso_utc(self.at),
            "job": self.job,
            "name": clean(self.name, 128),
            "user": clean(self.user, 128),
            "host": clean(self.host, 128) or None,
            "cause": clean(self.cause, 500) or None,
        }


@dataclass(frozen=True, slots=True)
class Message:
    """One notification to one user."""

    subject: str
    lines: tuple[str, ...]
    notices: tuple[Mapping[str, str | None], ...] = ()

    @property
    def text(self) -> str:
        """Subject and lines; bounded in bytes, as a chat takes them."""
        said = "\n".join((f"gpuconsole: {self.subject}", *self.lines))
        return said.encode()[:MOST_BYTES].decode(errors="ignore")


def message_of(notices: Sequence[Notice]) -> Message:
    """Return one message of everything that happened, oldest first; of many things a count."""
    documents = tuple(notice.as_json() for notice in notices[: 5 * MOST_LINES])
    if len(notices) == 1:
        (notice,) = notices
        name = clean(notice.name, 60)
        return Message(f"{name} {_WORDS[notice.what]}", (notice.line,), documents)
    counts = Counter(notice.what for notice in notices)
    words = ", ".join(f"{count} {_WORDS[what]}" for what, count in counts.most_common())
    lines = [notice.line for notice in notices[:MOST_LINES]]
    if len(notices) > MOST_LINES:
        lines.append(f"And {len(notices) - MOST_LINES} more.")
    return Message(f"jobs: {words}", tuple(lines), documents)


def address_of(kind: Kind, url: str, secret: str, now: float) -> str:
    """Return the address to post to: DingTalk's carries the signature of a robot with a secret."""
    if kind != "dingtalk" or not secret:
        return url
    stamp = str(round(now * 1000))
    digest = _signed(secret, f"{stamp}\n{secret}")
    joint = "&" if "?" in url else "?"
    return f"{url}{joint}timestamp={stamp}&sign={quote(digest, safe='')}"


def body_of(kind: Kind, message: Message, secret: str, now: float) -> dict[str, object]:
    """Return the JSON document that a receiver takes."""
    if kind == "webhook":
        return {"text": message.text, "notices": list(message.notices)}
    text = message.text
    if kind == "slack":
        # Slack reads these three letters; written so, none of them mentions anybody.
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": text}
    text = text.translate(_MENTIONS)
    if kind == "feishu":
        body: dict[str, object] = {"msg_type": "text", "content": {"text": text}}
        if secret:
            stamp = str(round(now))
            # Feishu signs nothing with both, where others sign both with the secret.
            body |= {"timestamp": stamp, "sign": _signed(f"{stamp}\n{secret}", "")}
        return body
    if kind == "dingtalk":
        return {"msgtype": "text", "text": {"content": text}, "at": {"isAtAll": False}}
    return {"msgtype": "text", "text": {"content": text}}


def refusal_in(kind: Kind, status: int, body: bytes) -> str:
    """Return why a receiver did not take a message, as words; "" where it did.

    Feishu, DingTalk and WeCom answer 200 to what they refuse, and say so in the body.
    """
    if not 200 <= status < 300:
        return f"it answered {status}"
    if kind in ("slack", "webhook"):
        return ""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return "it answered with no JSON"
    if not isinstance(said, dict):
        return "it answered with no JSON object"
    code = said.get("code", said.get("StatusCode")) if kind == "feishu" else said.get("errcode")
    if code == 0:
        return ""
    why = said.get("msg") if kind == "feishu" else said.get("errmsg")
    return f"it refused: {clean(str(code), 20)} {clean(str(why or ''), 120)}".rstrip()


def _signed(key: str, text: str) -> str:
    digest = hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
