"""From the registry of keys to Textual's bindings."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from gpuconsole.tui.keys import in_area


def bindings(*areas: str) -> list[BindingType]:
    """Return the bindings of these areas; their ids make them configurable."""
    return [
        Binding(key.keys, key.action, key.label, id=key.id, tooltip=key.help, show=key.footer)
        for key in in_area(*areas)
    ]
