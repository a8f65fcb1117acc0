"""Themes from YAML files: those that ship, and those in the user's config folder.

A file names its colours in full; what is missing, unknown or no colour is refused by name, and
the console goes on with the theme that is built in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from textual.color import Color, ColorParseError
from textual.theme import Theme

from gpuconsole.core.levels import LEVELS
from gpuconsole.errors import DocumentError

COLORS = (
    "primary", "secondary", "accent", "foreground", "background", "surface", "panel",
    "success", "warning", "error", "muted", "border",
)  # fmt: skip
STATES = ("down", "fault", "throttled", "stale")


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
    """Read one theme; DocumentError names the file and what is wrong in it."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(path, 1, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _wrong(path, 1, "is not UTF-8 text") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "is not YAML"
        raise _wrong(path, mark.line + 1 if mark else 1, str(problem)) from error
    return _checked(path, document)


def _checked(path: Path, document: object) -> ThemeFile:
    known = ("name", "dark", "colors", "heat", "state")
    top = _mapping(path, "the file", document, known)
    name = top["name"]
    if not isinstance(name, str) or not name.strip():
        raise _wrong(path, 1, "`name` must be a word")
    if not isinstance(top["dark"], bool):
        raise _wrong(path, 1, "`dark` must be true or false")
    colors = _mapping(path, "`colors`", top["colors"], COLORS)
    state = _mapping(path, "`state`", top["state"], STATES)
    heat = top["heat"]
    if not isinstance(heat, list) or len(heat) != LEVELS:
        raise _wrong(path, 1, f"`heat` must be a list of {LEVELS} colours, idle to full")
    return ThemeFile(
        name=name.strip(),
        dark=top["dark"],
        colors={key: _color(path, f"colors.{key}", value) for key, value in colors.items()},
        heat=tuple(_color(path, f"heat[{at}]", value) for at, value in enumerate(heat)),
        state={key: _color(path, f"state.{key}", value) for key, value in state.items()},
    )


def _mapping(path: Path, where: str, value: object, keys: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _wrong(path, 1, f"{where} must be a mapping of {', '.join(keys)}")
    unknown = [str(key) for key in value if key not in keys]
    if unknown:
        raise _wrong(path, 1, f"{where} has unknown `{unknown[0]}`; known: {', '.join(keys)}")
    missing = [key for key in keys if key not in value]
    if missing:
        raise _wrong(path, 1, f"{where} lacks `{missing[0]}`")
    return value


def _color(path: Path, where: str, value: object) -> str:
    try:
        return Color.parse(str(value)).hex
    except ColorParseError as error:
        raise _wrong(path, 1, f"`{where}` is no colour: {value!r}") from error


def _wrong(path: Path, line: int, problem: str) -> DocumentError:
    return DocumentError(
        "Theme not loaded",
        f"{path}:{line}:1: {problem}.",
        "Correct the file, or choose another theme with `:`.",
    )
