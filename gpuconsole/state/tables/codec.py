"""Tasks and attempts as JSON text in the journal.

Reading is tolerant: a field that this version does not know is ignored, one that is missing takes
its default, so a journal survives both an upgrade and a field added within a schema version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from gpuconsole.core.jobs import Member, Mount, SmallerBatch, Task
from gpuconsole.core.services import HEALTHS, HealthCheck, Replica, Service
from gpuconsole.core.submission.script_edits import Edit

_TASK_TUPLES = ("args", "ship", "preferred_devices", "after", "stop_if", "space")
_TASK_FIELDS = tuple(field.name for field in fields(Task))
_EDIT_FIELDS = tuple(field.name for field in fields(Edit))
_MEMBER_FIELDS = tuple(field.name for field in fields(Member))
_SERVICE_FIELDS = tuple(field.name for field in fields(Service))
_CHECK_FIELDS = tuple(field.name for field in fields(HealthCheck))
_REPLICA_FIELDS = tuple(field.name for field in fields(Replica))


def dump_task(task: Task) -> str:
    """Return a task as one line of JSON; of its secrets the names alone."""
    document = {name: getattr(task, name) for name in _TASK_FIELDS}
    document["mounts"] = [
        {"source": mount.source, "target": mount.target, "read_only": mount.read_only}
        for mount in task.mounts
    ]
    document["edits"] = [edit.as_json() for edit in task.edits]
    document["smaller"] = [
        {
            "size": smaller.size,
            "was": smaller.was,
            "args": smaller.args,
            "estimate_mib": smaller.estimate_mib,
        }
        for smaller in task.smaller
    ]
    for name in ("env", "labels", "anti_labels", "assumptions", "trial"):
        document[name] = dict(document[name])
    document["service"] = None if task.service is None else asdict(task.service)
    document["secrets"] = dict.fromkeys(task.secrets, "")
    return json.dumps(document, separators=(",", ":"))


def load_task(text: str) -> Task:
    """Return the task of a line of JSON. ValueError when it is not one."""
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ValueError("a task in the journal is damaged")
    fields = {name: document[name] for name in _TASK_FIELDS if name in document}
    for name in _TASK_TUPLES:
        if name in fields:
            fields[name] = tuple(fields[name])
    fields["mounts"] = tuple(
        Mount(mount["source"], mount["target"], bool(mount.get("read_only", True)))
        for mount in fields.get("mounts", ())
    )
    fields["edits"] = tuple(
        Edit(**{name: edit[name] for name in _EDIT_FIELDS if name in edit})
        for edit in fields.get("edits", ())
    )
    fields["smaller"] = tuple(
        SmallerBatch(
            int(smaller["size"]),
            int(smaller["was"]),
            tuple(smaller["args"]),
            smaller.get("estimate_mib"),
        )
        for smaller in fields.get("smaller", ())
    )
    fields["service"] = _service(fields.get("service"))
    return Task(**fields)


def _service(written: Mapping[str, Any] | None) -> Service | None:
    if written is None:
        return None
    fields = {name: written[name] for name in _SERVICE_FIELDS if name in written}
    check = fields.get("check") or {}
    asked = {name: check[name] for name in _CHECK_FIELDS if name in check}
    asked["command"] = tuple(asked.get("command", ()))
    return Service(**{**fields, "check": HealthCheck(**asked)})


def dump_replica(replica: Replica | None) -> str | None:
    """Return what is known of a replica as JSON, None as None."""
    return None if replica is None else json.dumps(asdict(replica), separators=(",", ":"))


def load_replica(text: str | None) -> Replica | None:
    """Return what is known of a replica. ValueError when the text is damaged."""
    if text is None:
        return None
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("health", HEALTHS[0]) not in HEALTHS:
        raise ValueError("a replica in the journal is damaged")
    return Replica(**{name: document[name] for name in _REPLICA_FIELDS if name in document})


def dump_members(members: tuple[Member, ...]) -> str:
    """Return the other hosts of a gang as JSON."""
    document = [{name: getattr(member, name) for name in _MEMBER_FIELDS} for member in members]
    return json.dumps(document, separators=(",", ":"))


def load_members(text: str) -> tuple[Member, ...]:
    """Return the other hosts of a gang. ValueError when the text is damaged."""
    document = json.loads(text)
    if not isinstance(document, list):
        raise ValueError("an attempt in the journal is damaged")
    return tuple(_member(written) for written in document)


def _member(written: Mapping[str, Any]) -> Member:
    fields = {name: written[name] for name in _MEMBER_FIELDS if name in written}
    for name in ("device_uuids", "device_indexes"):
        fields[name] = tuple(fields[name])
    return Member(**fields)


def dump_document(document: Mapping[str, object] | None) -> str | None:
    """Return a JSON document as text, None as None."""
    return None if document is None else json.dumps(document, separators=(",", ":"))


def load_document(text: str | None) -> dict[str, object] | None:
    """Return the document of a text; anything but an object is None."""
    document = json.loads(text) if text else None
    return document if isinstance(document, dict) else None


def dump_list(items: tuple[str, ...] | tuple[int, ...]) -> str:
    """Return a flat tuple as JSON."""
    return json.dumps(items, separators=(",", ":"))


def load_list(text: str) -> tuple[Any, ...]:
    """Return a flat tuple from JSON."""
    return tuple(json.loads(text))
