"""Themes from YAML files: those that ship, and those in the user's config folder.

A file names its colours in full; what is missing, unknown or no colour is refused by name, and
the console goes on with the theme that is built in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from textual.color import Color, ColorParseError
from textual.theme import Theme

from gpuconsole import documents
from gpuconsole.core.levels import LEVELS
from gpuconsole.errors import DocumentError


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
        "panel": "#1e2531", "success": "#7fbf8f", "warning": "#e0a458", "error": "#e5707a",
        "muted": "#7d879b", "border": "#39445a",
    },
    heat=("#2d3d60", "#3a4f7c", "#4f5c78", "#666a76", "#807f78", "#9c9476", "#bbab6d",
          "#dcc45d", "#fde345"),
    state={"down": "#e5707a", "fault": "#ff8f6b", "throttled": "#e0a458", "stale": "#8f9bb3"},
)  # fmt: skip
"""What the console falls back to when no file can be read."""


def shipped_folder() -> Path:
    """Return the folder of themes: the wheel's, or the checkout's beside the package."""
    package = Path(__file__).resolve().parents[1]
    wheel = package / "data" / "themes"
    return wheel if wheel.is_dir() else package.parent / "themes"


def load_all(folders: Iterable[Path]) -> tuple[dict[str, ThemeFile], list[DocumentError]]:
    """Read every theme of these folders; later ones win. Errors are returned, not raised."""
    themes: dict[str, ThemeFile] = {BUILT_IN.name: BUILT_IN}
    errors: list[DocumentError] = []
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            try:
                theme = load(path)
            except DocumentError as error:
                errors.append(error)
            else:
                themes[theme.name] = theme
    return themes, errors


def load(path: Path) -> ThemeFile:
    """Read one theme; DocumentError names the line and what is wrong there."""
    try:
        said = documents.load(path, _Document)
    except DocumentError as error:
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
        raise ValueError(f"needs {LEVELS} colours, idle to full; here are {len(said)}")
    return said


_Hex = Annotated[str, AfterValidator(_hex)]


class _Colors(documents.Section):
    primary: _Hex
    secondary: _Hex
    accent: _Hex
    foreground: _Hex
    background: _Hex
    surface: _Hex
    panel: _Hex
    success: _Hex
    warning: _Hex
    error: _Hex
    muted: _Hex
    border: _Hex


class _State(documents.Section):
    down: _Hex
    fault: _Hex
    throttled: _Hex
    stale: _Hex


class _Document(documents.Section):
    name: Annotated[documents.Text, AfterValidator(_named)]
    dark: bool
    colors: _Colors
    heat: Annotated[tuple[_Hex, ...], AfterValidator(_ramp)]
    state: _State
