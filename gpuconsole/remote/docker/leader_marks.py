"""Marks on a host that record which head leads a lab's queue.

A mark is a container that never starts, under a name made of the journal's id and an epoch. Names
are unique on an engine, so each host grants an epoch to only one head, however many ask at once.

Everything here blocks; call it on a thread.
"""

from __future__ import annotations

import contextlib

import docker

from gpuconsole.core.containers import LABEL_PREFIX, LeadMark
from gpuconsole.core.text import clean
from gpuconsole.remote.docker.errors import status_of
from gpuconsole.remote.docker.marker_containers import create_empty, in_a_name

_LEAD, _EPOCH, _HEAD, _NAME = (
    LABEL_PREFIX + word for word in ("lead", "epoch", "head", "head-name")
)
_DIGITS = 9
"""Of an epoch: a label with more was not written by a head."""


def marks(client: docker.APIClient, journal: str) -> tuple[LeadMark, ...]:
    """Return the marks of a journal on this engine, by their epochs."""
    items = client.containers(all=True, filters={"label": f"{_LEAD}={journal}"})
    read = ((item.get("Names"), _read(item["Labels"])) for item in items)
    own = (
        mark
        for names, mark in read
        # A job's container has the labels of its image, whatever they say, but not this name.
        if mark is not None and f"/{_mark_name(journal, mark.epoch)}" in (names or ())
    )
    return tuple(sorted(own, key=lambda mark: mark.epoch))


def leave_mark(client: docker.APIClient, journal: str, mark: LeadMark) -> tuple[LeadMark, ...]:
    """Leave a mark unless another head has the epoch; returns all marks of the journal then.

    The same head's marks of earlier epochs are removed: they say nothing any more.
    """
    labels = {
        _LEAD: journal,
        _EPOCH: str(mark.epoch),
        _HEAD: mark.head,
        _NAME: mark.name,
    }
    try:
        create_empty(client, _mark_name(journal, mark.epoch), labels)
    except docker.errors.APIError as error:
        if status_of(error) != 409:
            raise
    old_marks = marks(client, journal)
    for old in old_marks:
        if old.head == mark.head and old.epoch < mark.epoch and mark in old_marks:
            with contextlib.suppress(docker.errors.NotFound):
                client.remove_container(_mark_name(journal, old.epoch))
    return old_marks


def _mark_name(journal: str, epoch: int) -> str:
    return f"gpuconsole-lead-{in_a_name(journal)}-{epoch}"


def _read(labels: dict[str, str]) -> LeadMark | None:
    """Read a mark; any user of the engine may have written it."""
    epoch = labels.get(_EPOCH, "")
    if not (epoch.isascii() and epoch.isdigit() and len(epoch) <= _DIGITS):
        return None
    return LeadMark(
        epoch=int(epoch),
        head=clean(labels.get(_HEAD, ""), 64),
        name=clean(labels.get(_NAME, ""), 128),
    )
