"""Mappings beside plain dictionaries: classes that derive from `dict`, attribute dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run import Run
from gpuconsole.preflight.interpreter.stdlib import json_yaml


class Mapping(Native):
    """An instance of a class that derives from `dict`."""

    label = "dict"

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[Value, Value] = {}

    def init(self, run: Run, items: Value = None, /, *_: Value, **more: Value) -> None:
        """Take items like `dict`."""
        self.do_update(run, items, **more)

    def wrap(self, run: Run, value: Value) -> Value:
        """Return a value as this mapping stores it."""
        return value

    @property
    def length(self) -> int:
        """Number of entries."""
        return len(self.entries)

    def set___dict__(self, value: Value) -> None:
        """Let attributes and entries be one, as `self.__dict__ = self` does."""
        if value is self:
            self.attrs = self.entries
        elif isinstance(value, dict):
            self.attrs = value

    def item(self, calls: Any, key: Value) -> Value:
        """Give an entry."""
        if isinstance(key, Unknown):
            return key
        if key in self.entries:
            return self.entries[key]
        return calls.lacking(f"there is no key {key!r}"[:200], "KeyError")

    def store(self, calls: Any, key: Value, value: Value) -> None:
        """Set an entry."""
        if not isinstance(key, Unknown):
            self.entries[key] = self.wrap(calls.run, value)

    def contains(self, key: Value) -> bool:
        """Whether there is an entry."""
        return key in self.entries

    def count(self, calls: Any) -> int:
        """Number of entries."""
        return len(self.entries)

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give the keys."""
        yield from list(self.entries)

    def do_get(self, run: Run, key: Value, default: Value = None) -> Value:
        """Give an entry or a default."""
        return key if isinstance(key, Unknown) else self.entries.get(key, default)

    def do_keys(self, run: Run) -> Value:
        """Give the keys."""
        return list(self.entries)

    def do_values(self, run: Run) -> Value:
        """Give the values."""
        return list(self.entries.values())

    def do_items(self, run: Run) -> Value:
        """Give the pairs."""
        return list(self.entries.items())

    def do_update(self, run: Run, items: Value = None, /, **more: Value) -> None:
        """Set many."""
        if isinstance(items, Unknown):
            run.note_unknown(items)
        found = mapping_of(items)
        if found is None and isinstance(items, (list, tuple)):
            found = dict(items)
        for key, value in {**(found or {}), **more}.items():
            self.entries[key] = self.wrap(run, value)

    def do_pop(self, run: Run, key: Value, *default: Value) -> Value:
        """Take an entry out."""
        if key in self.entries:
            return self.entries.pop(key)
        return default[0] if default else run.calls.lacking(f"there is no key {key!r}"[:200],
                                                            "KeyError")  # fmt: skip

    def do_setdefault(self, run: Run, key: Value, default: Value = None) -> Value:
        """Give an entry, set before where it is not there."""
        return self.entries.setdefault(key, self.wrap(run, default))

    def do_copy(self, run: Run) -> Value:
        """Copy, one level deep."""
        return self.clone(run, deep=False)

    def do_clear(self, run: Run) -> None:
        """Take all entries out."""
        self.entries.clear()

    def clone(self, run: Run, deep: bool = True) -> Mapping:
        """Copy, with all that is inside when `deep`."""
        made = type(self)()
        made.cls = self.cls
        if self.attrs is self.entries:
            made.attrs = made.entries
        copied = run.calls.copied
        for key, value in self.entries.items():
            made.entries[key] = copied(value) if deep else value
        if made.attrs is not made.entries:
            made.attrs.update(self.attrs)
        return made

    do___getitem__ = do_get
    do___init__ = do_update

    def do___setitem__(self, run: Run, key: Value, value: Value) -> None:
        """Set an entry."""
        self.store(run.calls, key, value)

    def do___contains__(self, run: Run, key: Value) -> Value:
        """Whether there is an entry."""
        return self.contains(key)


class AttrDict(Mapping):
    """A mapping whose entries are attributes, mappings within it likewise."""

    label = "AttrDict"

    def __init__(self) -> None:
        super().__init__()
        self.attrs = self.entries

    def wrap(self, run: Run, value: Value) -> Value:
        """Turn mappings within into attribute dictionaries."""
        run.calls.tick()
        if isinstance(value, dict):
            made = type(self)()
            made.entries.update({key: self.wrap(run, one) for key, one in value.items()})
            return made
        return [self.wrap(run, one) for one in value] if type(value) is list else value

    def do_toDict(self, run: Run) -> Value:  # noqa: N802 - the library's name
        """Give plain dictionaries."""
        return unwrapped(run, self)

    do_to_dict = do_dict = do_todict = do_toDict


class Node(AttrDict):
    """yacs' `CfgNode`."""

    label = "CfgNode"

    def do_merge_from_file(self, run: Run, path: Value) -> None:
        """Read a YAML file over what is there."""
        loaded = json_yaml.yaml_at(run, path)
        if isinstance(loaded, Unknown):
            run.note_unknown(loaded)
            self.attrs.update(dict.fromkeys(self.entries, loaded))
        elif isinstance(loaded, dict):
            merge(run, self, loaded)

    def do_merge_from_list(self, run: Run, words: Value) -> None:
        """Set entries by dotted names."""
        items = list(words) if isinstance(words, (list, tuple)) else []
        for name, value in zip(items[::2], items[1::2], strict=False):
            owner: Value = self
            *path, last = name.split(".")
            for one in path:
                owner = owner.entries[one]
            owner.entries[last] = json_yaml.scalar(run, value) if isinstance(value, str) else value

    def do_merge_from_other_cfg(self, run: Run, other: Value) -> None:
        """Take another's entries."""
        merge(run, self, mapping_of(other) or {})

    def do_freeze(self, run: Run) -> None:
        """Forbid changes: no size changes."""

    do_defrost = do_set_new_allowed = do_freeze

    def do_clone(self, run: Run) -> Value:
        """Copy all."""
        return self.clone(run)


class SimpleNamespace(Native):
    """`types.SimpleNamespace`."""

    label = "namespace"

    def init(self, run: Run, /, **values: Value) -> None:
        """Set the attributes."""
        self.attrs.update(values)


def merge(run: Run, target: Mapping, values: dict[Value, Value]) -> None:
    """Set entries, mappings within one by one."""
    for key, value in list(values.items()):
        run.calls.tick()
        inner = target.entries.get(key)
        found = mapping_of(value)
        if isinstance(inner, Mapping) and found is not None:
            merge(run, inner, found)
        else:
            target.entries[key] = target.wrap(run, value)


def mapping_of(value: Value) -> dict[Value, Value] | None:
    """Return the entries of anything that `**` takes, or None."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Mapping):
        return value.entries
    return None


def unwrapped(run: Run, value: Value) -> Value:
    """Return plain dictionaries and lists."""
    run.calls.tick()
    found = mapping_of(value)
    if found is not None:
        return {key: unwrapped(run, one) for key, one in found.items()}
    return [unwrapped(run, one) for one in value] if type(value) is list else value


def as_attributes(run: Run, value: Value = None, /, **more: Value) -> Value:
    """Turn plain dictionaries into attribute dictionaries, wherever they are."""
    if isinstance(value, Unknown):
        return value
    return AttrDict().wrap(run, {**(value or {}), **more})


class OmegaConf(Native):
    """omegaconf's entrance."""

    @staticmethod
    def static_load(run: Run, path: Value, *_: Value) -> Value:
        """Read a YAML file."""
        loaded = json_yaml.yaml_at(run, path)
        return as_attributes(run, loaded) if isinstance(loaded, dict) else loaded

    @staticmethod
    def static_create(run: Run, value: Value = None, **_: Value) -> Value:
        """Turn plain dictionaries into attribute dictionaries."""
        return as_attributes(run, value)

    @staticmethod
    def static_merge(run: Run, *parts: Value) -> Value:
        """Lay mappings over each other."""
        made = AttrDict()
        for one in parts:
            if isinstance(one, Unknown):
                return one
            merge(run, made, mapping_of(one) or {})
        return made

    @staticmethod
    def static_to_container(run: Run, value: Value, **_: Value) -> Value:
        """Give plain dictionaries."""
        return unwrapped(run, value)

    @staticmethod
    def static_from_cli(run: Run, *_: Value) -> Value:
        """Read `name=value` words of the job's arguments."""
        made = Node()
        for word in run.args:
            name, equals, text = word.partition("=")
            if equals:
                owner: Mapping = made
                *path, last = name.split(".")
                for one in path:
                    owner = owner.entries.setdefault(one, Node())
                owner.entries[last] = json_yaml.scalar(run, text)
        return made


def namespace_for(root: str) -> Namespace | None:
    """Return a library of attribute dictionaries, or None."""
    attributes = NativeClass(AttrDict, "AttrDict")
    change = NativeFunction(as_attributes, "munchify")
    names: dict[str, dict[str, Value]] = {
        "easydict": {"EasyDict": attributes}, "attrdict": {"AttrDict": attributes},
        "addict": {"Dict": attributes}, "box": {"Box": attributes},
        "munch": {"Munch": attributes, "munchify": change, "DefaultMunch": attributes},
        "ml_collections": {"ConfigDict": attributes},
        "yacs": {"CfgNode": NativeClass(Node, "CfgNode")},
    }  # fmt: skip
    if root == "omegaconf":
        return Namespace(root, {"OmegaConf": NativeClass(OmegaConf, "OmegaConf"),
                                "DictConfig": attributes})  # fmt: skip
    found = names.get(root)
    if found is None:
        return None
    return Namespace(root, {**found, "config": Namespace(f"{root}.config", found)})
