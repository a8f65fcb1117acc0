"""Small libraries that do what missing ones do: settings that are dictionaries with attributes,
and how far two texts lie apart."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO


class Settings(dict):  # type: ignore[type-arg] # not generic in Python 3.8
    """A dictionary with its keys as attributes too; dictionaries inside of it are of its kind."""

    def __init__(self, given: Mapping[str, object] | None = None, **further: object) -> None:
        super().__init__()
        self.update(given, **further)

    def update(  # type: ignore[override]
        self, given: Mapping[str, object] | None = None, **further: object
    ) -> None:
        """Take over what another dictionary holds."""
        for key, value in {**dict(given or {}), **further}.items():
            self[key] = value

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, self._taken(value))

    def _taken(self, value: object) -> object:
        if type(value) is list:
            return [self._taken(item) for item in value]
        if type(value) is tuple:
            return tuple(self._taken(item) for item in value)
        return type(self)(value) if type(value) is dict else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    __setattr__ = __setitem__
    __delattr__ = dict.__delitem__

    def copy(self) -> Settings:
        """Return a copy of the outermost dictionary."""
        return type(self)(self)

    def to_dict(self) -> dict[str, object]:
        """Return a plain dictionary of plain dictionaries."""
        return {key: _plain(value) for key, value in self.items()}

    toDict = to_dict  # noqa: N815 - the libraries' own name


class Growing(Settings):
    """Settings in which a key that is asked for and missing is an empty dictionary."""

    def __missing__(self, key: str) -> object:
        self[key] = type(self)()
        return self[key]


class Node(Settings):
    """Settings that are merged from files and from the command line, as those of yacs."""

    def __init__(
        self,
        given: Mapping[str, object] | None = None,
        key_list: object = None,
        new_allowed: bool = False,
    ) -> None:
        super().__init__(given)

    def clone(self) -> Node:
        """Return a deep copy."""
        return copy.deepcopy(self)

    def freeze(self) -> None:
        """Nothing: what writes to frozen settings is the script's own fault."""

    defrost = freeze

    def is_frozen(self) -> bool:
        """Tell that they can be written to."""
        return False

    def set_new_allowed(self, allowed: object) -> None:
        """Nothing: new keys are always taken."""

    def merge_from_file(self, path: str) -> None:
        """Merge settings in a file of YAML."""
        with open(path, encoding="utf-8") as file:
            self.merge_from_other_cfg(self.load_cfg(file))

    @classmethod
    def load_cfg(cls, file_or_text: TextIO | str) -> Node:
        """Return settings in YAML."""
        import yaml

        return cls(yaml.safe_load(file_or_text))

    def merge_from_other_cfg(self, other: Node) -> None:
        """Merge other settings."""
        for key, value in other.items():
            if isinstance(value, dict) and isinstance(self.get(key), Node):
                self[key].merge_from_other_cfg(value)
            else:
                self[key] = _like(self.get(key), _decoded(value))

    def merge_from_list(self, pairs: Sequence[str]) -> None:
        """Merge names, parted by dots, and their values."""
        for name, value in zip(pairs[::2], pairs[1::2]):
            *parents, last = name.split(".")
            node = self
            for parent in parents:
                node = node[parent]
            node[last] = _like(node.get(last), _decoded(value))

    def dump(self, **how: Any) -> str | None:
        """Return the settings in YAML."""
        import yaml

        text: str | None = yaml.safe_dump(self.to_dict(), **how)
        return text


def _plain(value: object) -> object:
    if isinstance(value, Settings):
        return value.to_dict()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _decoded(value: object) -> object:
    """Return what a word means as Python writes values."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _like(old: object, value: object) -> object:
    """Return a list as the tuple that it replaces, and a tuple as the list."""
    if isinstance(old, (list, tuple)) and isinstance(value, (list, tuple)):
        return type(old)(value)
    return value


def distance(first: Sequence[object], other: Sequence[object], *_: object, **__: object) -> int:
    """Return how many items have to be put in, left out or replaced to make one sequence of another
    (Wagner and Fischer, 1974)."""
    before = list(range(len(other) + 1))
    for place, item in enumerate(first, 1):
        row = [place]
        for column, wanted in enumerate(other, 1):
            left = min(before[column], row[-1]) + 1
            row.append(min(left, before[column - 1] + (item != wanted)))
        before = row
    return before[-1]


def share(first: str, other: str, *_: object, **__: object) -> float:
    """Return the distance as a share of the longer sequence, 0 for two empty ones."""
    return distance(first, other) / max(len(first), len(other), 1)


class Levenshtein:
    """The distance as `rapidfuzz` names it."""

    distance = staticmethod(distance)
    normalized_distance = staticmethod(share)


LIBRARIES: dict[str, dict[str, object]] = {
    "yacs": {},
    "yacs.config": {"CfgNode": Node},
    "easydict": {"EasyDict": Settings},
    "attrdict": {"AttrDict": Settings},
    "addict": {"Dict": Growing},
    "munch": {"Munch": Settings, "munchify": Settings},
    "ml_collections": {"ConfigDict": Settings},
    "ml_collections.config_dict": {"ConfigDict": Settings},
    "editdistance": {"eval": distance, "distance": distance},
    "Levenshtein": {"distance": distance},
    "rapidfuzz": {},
    "rapidfuzz.distance": {"Levenshtein": Levenshtein},
}
"""What the modules of such libraries hold."""
