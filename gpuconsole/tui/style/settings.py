"""How the console looks: what the settings say, and what is changed while it is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.style.styles import Symbols


@dataclass(frozen=True, slots=True)
class Look:
    """How the console looks and which keys it listens to."""

    site: str = ""
    theme: str = "night"
    keys: Mapping[str, str] = field(default_factory=dict)
    symbols: Symbols = "block"
    theme_folders: tuple[Path, ...] = ()
    bell: str = ""
    """The least severe incident at which the terminal rings; "" for none."""
    language: str = "en"
    """Of `gpuconsole.language.CODES`."""
    tour: Path | None = None
    """The file that tells that the tour was seen; None shows no tour."""
