"""JSON as vendors' tools print it: text may stand before it, any leaf may be `N/A`, and keys and
nesting move between versions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gpuconsole.core.wording import msg
from gpuconsole.remote.vendors.model import MAX_DEVICES, VendorError


def parsed(text: str) -> object:
    """Return the first JSON object or list in the text; VendorError when there is none."""
    starts = sorted(place for place in (text.find("{"), text.find("[")) if place >= 0)
    # A bracket of a warning may stand before the document itself.
    for start in starts:
        try:
            return json.JSONDecoder().raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    raise VendorError("no JSON document" if not starts else "a JSON document that is not whole")


def records(text: str, key: str) -> list[Mapping[str, object]]:
    """Return a list of objects, one a device, at the top or under a key; VendorError if there is
    none, or it is longer than a host can have."""
    document = parsed(text)
    listed = document.get(key) if isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        raise VendorError(msg("a JSON document without a list of {key}", key=key))
    if len(listed) > MAX_DEVICES:
        raise VendorError(f"more than {MAX_DEVICES} devices")
    return [record for record in listed if isinstance(record, Mapping)]


def leaf(document: object, *path: str) -> str | None:
    """Return the value at a path as text with its unit, or None.

    A leaf is text, a number, or `{"value": 12, "unit": "W"}`; keys are matched without blanks at
    their ends.
    """
    value_here = document
    for step in path:
        if not isinstance(value_here, Mapping):
            return None
        value_here = next(
            (value for key, value in value_here.items() if str(key).strip() == step), None
        )
    if isinstance(value_here, Mapping):
        value, unit = value_here.get("value"), value_here.get("unit")
        value_here = f"{value} {unit}".strip() if _plain(value) and isinstance(unit, str) else value
    return str(value_here) if _plain(value_here) else None


def _plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
