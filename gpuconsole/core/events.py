"""Rare facts, reported once: a job ended, a host was lost, another console took over."""

from __future__ import annotations

from typing import Literal

from gpuconsole.core import wording
from gpuconsole.core.jobs import STOPPED_FOR_GOOD, JobState
from gpuconsole.core.services import BACKING_OFF, DRAINING, HEALTHS
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import Message, joined, msg, recalled, sentences

_STATES = frozenset(
    (
        *(state.value for state in JobState),
        *STOPPED_FOR_GOOD.values(),
        *(*HEALTHS, BACKING_OFF, DRAINING),
    )
)
Severity = Literal["information", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Event:
    """A rare fact, reported once. `kind`: job, host, dispatcher, error."""

    kind: str
    subject: str
    message: str
    at: float
    severity: Severity = "information"
    what: str = ""
    """What happened to a job: its new state, `time-limit`, `idle`, `rule` or `time-warning`; else
    ""."""


def worded(event: Event, job: str = "") -> str:
    """Return an event's message with its name separated from the words around it, so that the words
    can be translated.

    The journal and the lab's socket carry plain English; what an event is about says which part of
    it is a name. `job` is the name of its job. A text made in another way comes back as it is.
    """
    message = recalled(event.message)
    if not isinstance(message, Message):
        message = _parted(event, job or event.subject)
    return message if message == event.message else event.message


def _parted(event: Event, named: str) -> str:
    if event.kind == "incident":
        named = event.message.partition(": ")[0]
    rest = event.message.removeprefix(named)
    if rest.startswith(": "):
        return joined(": ", (wording.name(named), _outcome(rest[2:])))
    sentence, stop, more = rest.partition(". ")
    if not named or not sentence.startswith(" ") or "{" in sentence:
        return event.message
    return sentences(msg("{host}" + sentence + stop.strip(), host=named), more)


def _outcome(words: str) -> str:
    """Return what became of a job: its new state, and why."""
    state, stop, cause = words.partition(". ")
    if not stop or state not in _STATES:
        return words
    return msg("{state_word}. {cause_text}", state_word=state, cause_text=cause)
