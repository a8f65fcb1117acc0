"""Dictionaries with entries as attributes: yacs, omegaconf, easydict and their like."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.mappings import Mapping, mapping_of, merge
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib import json_yaml


class AttrDict(Mapping):
    """A mapping with entries as attributes, mappings within it likewise."""

    label = "AttrDict"

    def __init__(self) -> None:
        super().__init__()
        self.attrs = self.entries

    def wrap(self, run: Run, value: Value) -> Value:
        """Turn mappings within into attribute dictionaries."""
        run.interp.tick()
        if isinstance(value, dict):
            node = type(self)()
            node.entries.update({key: self.wrap(run, item) for key, item in value.items()})
            return node
        return [self.wrap(run, item) for item in value] if type(value) is list else value

    @exposed.method("toDict", "to_dict", "dict", "todict")
    def do_toDict(self, run: Run) -> Value:  # noqa: N802 - the library's name
        """Give plain dictionaries."""
        return unwrapped(run, self)


class Node(AttrDict):
    """yacs' `CfgNode`."""

    label = "CfgNode"

    @exposed.method("merge_from_file")
    def do_merge_from_file(self, run: Run, path: Value) -> None:
        """Read a YAML file over what is there."""
        loaded = json_yaml.yaml_at(run, path)
        if isinstance(loaded, Unknown):
            run.note_unknown(loaded)
            self.attrs.update(dict.fromkeys(self.entries, loaded))
        elif isinstance(loaded, dict):
            merge(run, self, loaded)

    @exposed.method("merge_from_list")
    def do_merge_from_list(self, run: Run, words: Value) -> None:
        """Set entries by dotted names."""
        items = list(words) if isinstance(words, (list, tuple)) else []
        for name, value in zip(items[::2], items[1::2], strict=False):
            owner: Value = self
            *path, last = name.split(".")
            for step in path:
                owner = owner.entries[step]
            owner.entries[last] = json_yaml.scalar(run, value) if isinstance(value, str) else value

    @exposed.method("merge_from_other_cfg")
    def do_merge_from_other_cfg(self, run: Run, other: Value) -> None:
        """Take another's entries."""
        merge(run, self, mapping_of(other) or {})

    @exposed.method("freeze", "defrost", "set_new_allowed")
    def do_freeze(self, run: Run) -> None:
        """Forbid changes: no size changes."""

    @exposed.method("clone")
    def do_clone(self, run: Run) -> Value:
        """Copy all."""
        return self.clone(run)


def unwrapped(run: Run, value: Value) -> Value:
    """Return plain dictionaries and lists."""
    run.interp.tick()
    mapping = mapping_of(value)
    if mapping is not None:
        return {key: unwrapped(run, inner) for key, inner in mapping.items()}
    return [unwrapped(run, inner) for inner in value] if type(value) is list else value


def as_attributes(run: Run, value: Value = None, /, **more: Value) -> Value:
    """Turn plain dictionaries into attribute dictionaries, wherever they are."""
    if isinstance(value, Unknown):
        return value
    return AttrDict().wrap(run, {**(value or {}), **more})


class OmegaConf(Native):
    """omegaconf's entrance."""

    @staticmethod
    @exposed.static("load")
    def static_load(run: Run, path: Value, *_: Value) -> Value:
        """Read a YAML file."""
        loaded = json_yaml.yaml_at(run, path)
        return as_attributes(run, loaded) if isinstance(loaded, dict) else loaded

    @staticmethod
    @exposed.static("create")
    def static_create(run: Run, value: Value = None, **_: Value) -> Value:
        """Turn plain dictionaries into attribute dictionaries."""
        return as_attributes(run, value)

    @staticmethod
    @exposed.static("merge")
    def static_merge(run: Run, *parts: Value) -> Value:
        """Lay mappings over each other."""
        merged = AttrDict()
        for part in parts:
            if isinstance(part, Unknown):
                return part
            merge(run, merged, mapping_of(part) or {})
        return merged

    @staticmethod
    @exposed.static("to_container")
    def static_to_container(run: Run, value: Value, **_: Value) -> Value:
        """Give plain dictionaries."""
        return unwrapped(run, value)

    @staticmethod
    @exposed.static("from_cli")
    def static_from_cli(run: Run, *_: Value) -> Value:
        """Read `name=value` words of the job's arguments."""
        node = Node()
        for word in run.args:
            name, equals, text = word.partition("=")
            if equals:
                owner: Mapping = node
                *path, last = name.split(".")
                for step in path:
                    owner = owner.entries.setdefault(step, Node())
                owner.entries[last] = json_yaml.scalar(run, text)
        return node


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
    entries = names.get(root)
    if entries is None:
        return None
    return Namespace(root, {**entries, "config": Namespace(f"{root}.config", entries)})
