"""One thing a person can press, and how its name is written.

Must not import Textual, so that the documentation can be made without it.
"""

from __future__ import annotations

from gpuconsole.core.util.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One thing a person can press."""

    id: str
    keys: str
    """Textual's names, separated by commas."""
    action: str
    label: str
    """What the footer says."""
    help: str
    """What the help screen and the documentation say."""
    footer: bool = False
    pair: str = ""
    """What the footer shows instead of the first key, where one entry represents several."""
    writes: bool = False
    """Changes something outside the console; absent in read-only mode."""
    verb: str = ""
    """What its letter means on every screen, where the label says more than that."""

    @property
    def does(self) -> str:
        """The one verb of its letter."""
        return self.verb or self.label

    @property
    def letters(self) -> list[str]:
        """Those of its keys that are a letter."""
        return [key for key in self.keys.split(",") if len(key) == 1 and key.isalpha()]

    @property
    def area(self) -> str:
        """The screen or widget that carries the binding."""
        return self.id.partition(".")[0]

    @property
    def shown(self) -> str:
        """The keys as a person reads them."""
        return " ".join(_SHOWN.get(key, key) for key in self.keys.split(","))

    @property
    def short(self) -> str:
        """The first of the keys, for the footer."""
        return self.pair or _SHOWN.get(self.keys.split(",")[0], self.keys.split(",")[0])


_SHOWN = {
    "colon": ":",
    "slash": "/",
    "question_mark": "?",
    "plus": "+",
    "ampersand": "&",
    "minus": "-",
    "equals_sign": "=",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "comma": ",",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "at": "@",
    "asterisk": "*",
    "exclamation_mark": "!",
    "number_sign": "#",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "shift+up": "shift+↑",
    "shift+down": "shift+↓",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}
