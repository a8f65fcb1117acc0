"""Ink: the styles, glyphs and words with which widgets draw, made once per theme and language.

Every segment gets a style from here: a segment without one breaks drawing under NO_COLOR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from rich.style import Style

from gpuconsole.core.devices.health_levels import Condition
from gpuconsole.core.jobs import JobState
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.language import Language
from gpuconsole.tui.style.themes import ThemeFile

if TYPE_CHECKING:
    from textual.widget import Widget

    from gpuconsole.tui.app import ConsoleApp

Symbols = Literal["block", "ascii"]
ENGLISH = Language()
READABLE = 7
"""The first step of the ramp in which words have enough contrast (4.5) in every shipped theme,
under the cursor too."""
FREE = 16
"""The code of an unused device, above the steps of the ramp and the kinds of trouble."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a symbol set. `heat` has one per level."""

    heat: str
    bar: str
    bar_rest: str
    half: str
    cursor: str
    left: str
    right: str
    limit: str
    beyond: str
    """Marks what is above the limit, also without colours."""
    dot: str
    free: str
    """An unused device."""
    lit: str
    """A device that answers a question."""
    conditions: Mapping[Condition, str]
    verdicts: Mapping[str, str]
    jobs: Mapping[JobState, str]


_CONDITIONS = {
    Condition.DOWN: "x",
    Condition.ASLEEP: "z",
    Condition.FAULT: "!",
    Condition.THROTTLED: "~",
    Condition.STALE: "?",
}
_JOBS = {
    JobState.HELD: "=",
    JobState.QUEUED: ".",
    JobState.LAUNCHING: "^",
    JobState.RUNNING: ">",
    JobState.UNKNOWN: "?",
    JobState.SUCCEEDED: "+",
    JobState.FAILED: "x",
    JobState.OOM: "!",
    JobState.CANCELLED: "-",
}
_JOBS_DRAWN = {
    **_JOBS,
    JobState.HELD: "‖",
    JobState.QUEUED: "○",
    JobState.LAUNCHING: "◌",
    JobState.RUNNING: "●",
    JobState.SUCCEEDED: "✓",
    JobState.FAILED: "✗",
}
BLOCK = Glyphs(
    "·░░▒▒▓▓██", "█", "─", "▌", "▸", "[", "]", "┃", "×", "•", "■", "◆", _CONDITIONS,
    {"fits": "✓", "tight": "~", "will-not-fit": "✗", "will-fail": "✗", "unknown": "?"},
    _JOBS_DRAWN,
)  # fmt: skip
ASCII = Glyphs(
    ".:-=+*#%@", "#", "-", "|", ">", "[", "]", "|", "x", "*", "o", "$", _CONDITIONS,
    {"fits": "+", "tight": "~", "will-not-fit": "x", "will-fail": "x", "unknown": "?"},
    _JOBS,
)  # fmt: skip


STEPPED = replace(BLOCK, heat="·▁▂▃▄▅▆▇█")
"""Blocks of nine heights, for terminals with too few colours for nine steps."""


def few_colors(system: str | None, *, no_color: bool) -> bool:
    """Whether a terminal of that colour system (Rich's name) shows too few for nine steps."""
    return no_color or system not in ("256", "truecolor")


class Ink:
    """Styles of one theme, and the glyphs in use."""

    def __init__(
        self,
        theme: ThemeFile,
        symbols: Symbols = "block",
        *,
        few_colors: bool = False,
        language: Language | None = None,
    ) -> None:
        colors = theme.colors
        ground = colors["background"]
        self.theme = theme
        self.ascii = symbols == "ascii"
        # Where only ASCII may be seen, English is what can be said.
        self.language = ENGLISH if language is None or self.ascii else language
        self.say = self.language.say
        self.label = self.language.label
        self.few_colors = few_colors
        """Nine colours are indistinguishable here: a step of the ramp must be visible in its
        glyph."""
        self.glyphs = ASCII if self.ascii else STEPPED if few_colors else BLOCK

        def style(name: str, *, bold: bool = False) -> Style:
            return Style(color=colors[name], bgcolor=ground, bold=bold)

        self.text = style("foreground")
        self.strong = style("foreground", bold=True)
        self.muted = style("muted")
        self.rule = style("border")
        self.below = style("border")
        """What lies below a dialog."""
        self.title = style("primary", bold=True)
        self.accent = style("accent")
        self.key = style("accent", bold=True)
        self.good = style("success")
        self.warn = style("warning")
        self.bad = style("error")
        self.chosen = Style(color=colors["foreground"], bgcolor=colors["panel"])
        self.chosen_muted = Style(color=colors["muted"], bgcolor=colors["panel"])
        self.running = style("primary")
        self.free = style("success", bold=True)
        """Makes free devices conspicuous among those in use."""
        self._shades()
        # Parts of the memory bar: neighbours differ in hue and in lightness.
        self.parts = (
            style("primary"), self.heat[4], self.accent, self.good,
            self.heat[7], self.warn, style("secondary"), self.muted,
        )  # fmt: skip
        self._words()

    def _shades(self) -> None:
        """Styles that fill the ground, and those for the use of devices and conditions of hosts."""
        theme, colors = self.theme, self.theme.colors
        ground = colors["background"]
        self.here = Style(color=ground, bgcolor=colors["primary"], bold=True)
        self.ground = Style(bgcolor=colors["panel"])
        self.mark = Style(color=ground, bgcolor=colors["warning"], bold=True)
        self.match = Style(color=ground, bgcolor=colors["accent"])
        self.heat = tuple(Style(color=color, bgcolor=ground) for color in theme.heat)
        if self.few_colors:
            # Sixteen colours would make four of nine: the glyph tells, in a colour that is read.
            self.heat = (self.muted, *(self.text,) * (len(theme.heat) - 1))
        shades = {**dict(enumerate(theme.heat)), FREE: colors["success"]}
        self.heat_pairs = {
            (left, right): Style(color=shades[left], bgcolor=shades[right])
            for left in shades
            for right in shades
        }
        # Reverse video survives every theme, 16 colours and none.
        self.conditions: dict[Condition, Style] = {
            which: Style(color=theme.state[which.value], bgcolor=ground, reverse=True, bold=True)
            for which in _CONDITIONS
            if which is not Condition.ASLEEP
        }
        # Nothing is wrong with it.
        self.conditions[Condition.ASLEEP] = self.muted

    def _words(self) -> None:
        """Styles for the words of preflight and of jobs."""
        self.verdicts = {
            "fits": self.good + Style(bold=True),
            "tight": self.warn + Style(bold=True),
            "will-not-fit": self.bad + Style(bold=True),
            "will-fail": self.bad + Style(bold=True),
            "unknown": self.muted + Style(bold=True),
        }
        self.jobs = {
            JobState.HELD: self.muted,
            JobState.QUEUED: self.text,
            JobState.LAUNCHING: self.accent,
            JobState.RUNNING: self.running,
            JobState.UNKNOWN: self.warn,
            JobState.SUCCEEDED: self.good,
            JobState.FAILED: self.bad,
            JobState.OOM: self.bad + Style(bold=True),
            JobState.CANCELLED: self.muted,
        }


def ink_of(widget: Widget) -> Ink:
    """Return the ink of the app that a widget lives in."""
    return cast("ConsoleApp", widget.app).ink
