"""The keys as users chose them: the registry with `keys:` of the settings, as bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from textual.binding import Binding, BindingType
from textual.keys import Keys, _character_to_key

from gpuconsole.core.wording import msg
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.keymap.registry import KEYS, in_area

TOGETHER = (
    ("app", "go", "time", "fleet", "map"),
    ("app", "go", "time", "host", "map"),
    ("app", "go", "time", "device", "table"),
    ("app", "go", "time", "queue", "table"),
    ("app", "go", "time", "usage", "table"),
    ("app", "go", "time", "job", "log"),
    ("app", "go", "time", "triage", "table"),
    ("app", "submit", "form"),
)
"""Areas with keys that are active at the same time."""
_NAMED = frozenset(
    {key.value for key in Keys}
    | {_character_to_key(chr(code)) for code in range(0x21, 0x7F)}
    | {"space", "plus", "minus"}
)
_MODIFIERS = ("ctrl+", "alt+", "shift+", "super+", "meta+")


class KeyChoice:
    """The active keys. An invalid choice changes nothing and is reported in `problems`."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self.keymap: dict[str, str] = {}
        """For Textual: ids to the names of keys."""
        keys_by_id = {key.id: key for key in KEYS}
        for id_, keys in wanted.items():
            if id_ not in keys_by_id:
                self.problems.append(f"`{id_}` is no id of a key.{_nearest(id_, keys_by_id)}")
            elif (names := self._names(id_, keys)) is not None:
                self.keymap[id_] = names
        self._keys = {
            id_: replace(keys_by_id[id_], keys=names, pair="") for id_, names in self.keymap.items()
        }
        self._tell_conflicts()

    def in_area(self, *areas: str) -> Iterator[Key]:
        """Give the keys of these areas as they are now."""
        return (self._keys.get(key.id, key) for key in in_area(*areas))

    def _names(self, id_: str, keys: str) -> str | None:
        # A comma on its own is a key too.
        said = [keys] if keys == "," else [part.strip() for part in keys.split(",")]
        names = [_character_to_key(part) if len(part) == 1 else part for part in said]
        for part, name in zip(said, names, strict=True):
            if not _is_key(name):
                words = msg("`{id}: {keys}`: there is no key `{key}`.", id=id_, keys=keys, key=part)
                self.problems.append(words + _nearest(_bare(name), _NAMED))
                return None
        return ",".join(names)

    def _tell_conflicts(self) -> None:
        reported: set[frozenset[str]] = set()
        for areas in TOGETHER:
            taken: dict[str, Key] = {}
            for key in self.in_area(*areas):
                for name in key.keys.split(","):
                    other = taken.setdefault(name, key)
                    pair = frozenset((key.id, other.id))
                    mine = {key.id, other.id} & self.keymap.keys()
                    if other is not key and mine and pair not in reported:
                        reported.add(pair)
                        self.problems.append(
                            f"`{name}` is both `{other.id}` and `{key.id}`; only one of them"
                            " answers. Give the other one another key."
                        )


def _is_key(name: str) -> bool:
    bare = _bare(name)
    return name in _NAMED or bare in _NAMED or (len(bare) == 1 and bare.isprintable())


def _bare(name: str) -> str:
    for modifier in _MODIFIERS:
        name = name.removeprefix(modifier)
    return name


def _nearest(word: str, choices: Mapping[str, object] | frozenset[str]) -> str:
    nearest = get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return f" Did you mean `{nearest[0]}`?" if nearest else ""


def bindings(*areas: str) -> list[BindingType]:
    """Return the bindings of these areas; their ids make them configurable."""
    return [
        Binding(key.keys, key.action, key.label, id=key.id, tooltip=key.help, show=key.footer)
        for key in in_area(*areas)
    ]
