"""A tree in which a script is found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.widgets import DirectoryTree

from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.widgets.panel import name_box


class ScriptTree(DirectoryTree):
    """Folders and Python scripts; nothing hidden."""

    # Pictures are as wide as a terminal's font makes them, which is not always what it says.
    ICON_NODE = "▸ "
    ICON_NODE_EXPANDED = "▼ "
    ICON_FILE = ""

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        """Leave out what cannot be a script."""
        return [
            path
            for path in paths
            if not path.name.startswith((".", "__pycache__"))
            and (path.suffix == ".py" or path.is_dir())
        ]


class PickerScreen(Dialog[str | None]):
    """Choose a script."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = "ScriptTree"

    def compose(self) -> ComposeResult:
        """The tree of the working folder."""
        yield ScriptTree(Path.cwd(), id="picker", classes="panel")

    def on_mount(self) -> None:
        """Name the box."""
        name_box(self.query_one("#picker"), "find a script", "enter chooses  esc leaves")

    def action_yes(self) -> None:
        """Only a choice in the tree is a yes."""

    def action_no(self) -> None:
        """Leave the form as it is."""
        self.dismiss(None)

    @on(DirectoryTree.FileSelected)
    def _chosen(self, event: DirectoryTree.FileSelected) -> None:
        path = event.path
        inside = path.is_relative_to(Path.cwd())
        self.dismiss(str(path.relative_to(Path.cwd()) if inside else path))
