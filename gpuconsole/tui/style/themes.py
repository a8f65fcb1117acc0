"""Themes from YAML files: those that ship, and those in the user's config folder.

A file names its colours in full; what is missing, unknown or no colour is refused by name, and
the console goes on with the theme that is built in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from textual.color import Color, ColorParseError
from textual.theme import Theme

from gpuconsole import yamldoc
from gpuconsole.core.devices.health_levels import LEVELS
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import DocumentError, TrustError

Stamp = tuple[int, int]
"""When a file was written, and its size."""


@dataclass(frozen=True, slots=True)
class ThemeFile:
    """A theme as its file says it."""

    name: str
    dark: bool
    colors: Mapping[str, str]
    heat: tuple[str, ...]
    """Nine steps, idle to full."""
    state: Mapping[str, str]

    def variables(self) -> dict[str, str]:
        """Return what the stylesheet knows beside Textual's own names."""
        colors = self.colors
        return {
            "muted": colors["muted"],
            "frame": colors["border"],
            "footer-key-foreground": colors["accent"],
            "input-selection-background": f"{colors['primary']} 35%",
            "block-cursor-text-style": "bold",
            "block-cursor-background": colors["panel"],
            "block-cursor-foreground": colors["foreground"],
            "block-cursor-blurred-background": colors["panel"],
            "border": colors["primary"],
            "border-blurred": colors["border"],
            "scrollbar": colors["border"],
            "scrollbar-background": colors["background"],
            "scrollbar-corner-color": colors["background"],
        }

    def theme(self) -> Theme:
        """Return it in Textual's terms."""
        colors = self.colors
        return Theme(
            name=self.name,
            dark=self.dark,
            primary=colors["primary"],
            secondary=colors["secondary"],
            accent=colors["accent"],
            foreground=colors["foreground"],
            background=colors["background"],
            surface=colors["surface"],
            panel=colors["panel"],
            success=colors["success"],
            warning=colors["warning"],
            error=colors["error"],
            variables=self.variables(),
        )


BUILT_IN = ThemeFile(
    name="plain",
    dark=True,
    colors={
        "primary": "#7aa2d6", "secondary": "#8f9bb3", "accent": "#e6c35c",
        "foreground": "#d5dae4", "background": "#0f131a", "surface": "#151a23",
        "panel": "#1e2531", "success": "#8fdc9f", "warning": "#e0a458", "error": "#e5707a",
        "muted": "#858fa3", "border": "#39445a",
    },
    heat=("#293042", "#313e55", "#394c68", "#405b7c", "#486b91", "#507aa7", "#578abd",
          "#5f9bd3", "#66abea"),
    state={"down": "#e5707a", "fault": "#ff8f6b", "throttled": "#e0a458", "stale": "#8f9bb3"},
)  # fmt: skip
"""What the console falls back to when no file can be read."""


def shipped_folder() -> Path:
    """Return the folder of themes: the wheel's, or the checkout's beside the package."""
    package = Path(__file__).resolve().parents[2]
    wheel = package / "data" / "themes"
    return wheel if wheel.is_dir() else package.parent / "themes"


class Wardrobe:
    """The themes of some folders, read again when a file changes on disk."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._stamps: dict[str, Stamp] = {}
        self._read: dict[Path, ThemeFile] = {}
        self.themes: dict[str, ThemeFile] = {BUILT_IN.name: BUILT_IN}

    def look(self) -> tuple[frozenset[str], list[DocumentError]]:
        """Read what is new or has changed: names of themes that are other now, and errors.

        Later folders win. A broken file keeps its previous content, and is reported once. So does
        one that is gone: an editor that replaces a file lets it vanish for a moment.
        """
        errors: list[DocumentError] = []
        fresh = False
        for name, stamp in self._files():
            if stamp == self._stamps.get(name):
                continue
            self._stamps[name] = stamp
            path = Path(name)
            try:
                self._read[path] = load(path)
                fresh = True
            except DocumentError as error:
                errors.append(error)
        return (self._sort_in() if fresh else frozenset()), errors

    def _files(self) -> Iterator[tuple[str, Stamp]]:
        for folder in self._folders:
            with suppress(OSError), os.scandir(folder) as entries:
                files = [entry for entry in entries if entry.name.endswith(".yaml")]
                yield from sorted(filter(None, map(_stamped, files)))

    def _sort_in(self) -> frozenset[str]:
        before = self.themes
        places = {folder: at for at, folder in enumerate(self._folders)}
        paths = sorted(self._read, key=lambda path: (places[path.parent], path))
        self.themes = {BUILT_IN.name: BUILT_IN}
        self.themes |= {self._read[path].name: self._read[path] for path in paths}
        return frozenset(name for name, theme in self.themes.items() if before.get(name) != theme)


def _stamped(file: os.DirEntry[str]) -> tuple[str, Stamp] | None:
    """Return a file's path, and what tells it from one that was written at another time; None when
    it cannot be asked."""
    try:
        status = file.stat()
    except OSError:
        return None
    return file.path, (status.st_mtime_ns, status.st_size)


def load(path: Path) -> ThemeFile:
    """Read one theme; DocumentError names the line and what is wrong there.

    A person's own theme must be one that others cannot change; those that come along are as much
    code as the rest of the package.
    """
    own = path.parent != shipped_folder()
    try:
        said = yamldoc.load(path, ThemeDocument, trusted=own)
    except (DocumentError, TrustError) as error:
        hint = error.hint or "Correct the file, or choose another theme with `:`."
        raise DocumentError("Theme not loaded", error.message, hint) from error
    return ThemeFile(
        name=said.name,
        dark=said.dark,
        colors=said.colors.model_dump(),
        heat=said.heat,
        state=said.state.model_dump(),
    )


def _hex(said: str) -> str:
    try:
        return Color.parse(said).hex
    except ColorParseError:
        raise ValueError("expected a colour such as #7aa2d6") from None


def _named(said: str) -> str:
    if not said.strip():
        raise ValueError("expected a name")
    return said.strip()


def _ramp(said: tuple[str, ...]) -> tuple[str, ...]:
    if len(said) != LEVELS:
        raise ValueError(
            msg("needs {n} colours, idle to full; here are {all}", n=LEVELS, all=len(said))
        )
    return said


_Hex = Annotated[str, AfterValidator(_hex)]


class Colors(yamldoc.Section):
    """What words, boxes and bars are drawn in, beside the ramp."""

    primary: _Hex
    """Titles, the screen one is on, running jobs, the border of what has the focus."""
    secondary: _Hex
    """A further part of the memory bar."""
    accent: _Hex
    """Keys, the cursor, what a search has found."""
    foreground: _Hex
    """Words and figures."""
    background: _Hex
    """Behind everything."""
    surface: _Hex
    """Behind a line into which one types."""
    panel: _Hex
    """Behind the row under the cursor, and behind toasts."""
    success: _Hex
    """Good: it fits, it succeeded, it is free."""
    warning: _Hex
    """Look here: tight, stale, out of sight; the marks of the status line."""
    error: _Hex
    """Bad: it will not fit, it failed, it is broken."""
    muted: _Hex
    """What may be overlooked: labels, notes, legends."""
    border: _Hex
    """Boxes and rules."""


class State(yamldoc.Section):
    """A device's trouble on the map; drawn in reverse, so it is the ground behind a glyph."""

    down: _Hex
    """`x`: its host does not answer."""
    fault: _Hex
    """`!`: lost, unreadable, an XID or memory errors."""
    throttled: _Hex
    """`~`: it slows itself, for heat or because its power supply asks for it."""
    stale: _Hex
    """`?`: no news of late, or not connected yet."""


class ThemeDocument(yamldoc.Section):
    """A theme's file."""

    name: Annotated[yamldoc.Text, AfterValidator(_named)]
    """What `theme:` in the settings and the palette call it."""
    dark: bool
    """Whether words are light on dark."""
    colors: Colors
    """What words, boxes and bars are drawn in."""
    heat: Annotated[tuple[_Hex, ...], AfterValidator(_ramp)]
    """Nine colours of the map, idle to full. Their lightness should rise, or fall on a light
    ground, so that they can be distinguished without their hue."""
    state: State
    """What trouble is drawn in."""
