"""One widget on the whole body of a screen, and back; only classes change, so all state stays."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

EXPANDED, WHOLE, ASIDE = "-expanded", "-whole", "-aside"


def toggle(screen: Screen[Any]) -> bool:
    """Expand what has the focus, or bring back all; False when nothing there can be expanded."""
    if screen.has_class(EXPANDED):
        screen.remove_class(EXPANDED)
        screen.query(f".{ASIDE}, .{WHOLE}").remove_class(ASIDE, WHOLE)
        return True
    body = screen.query_one("#body")
    node = screen.focused
    if node is None or body not in node.ancestors:
        return False
    screen.add_class(EXPANDED)
    while node is not body and isinstance(node.parent, Widget):
        for sibling in node.parent.children:
            # The line into which one types a filter stays within reach.
            if sibling is not node and not sibling.query(Input):
                sibling.add_class(ASIDE)
        node.add_class(WHOLE)
        node = node.parent
    return True
