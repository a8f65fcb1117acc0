from pathlib import Path

import yaml


class AttrDict(dict):
    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key)

    def __setattr__(self, key, value):
        self[key] = value


def to_attr(value):
    if isinstance(value, dict):
        return AttrDict({k: to_attr(v) for k, v in value.items()})
    if isinstance(value, list):
        return [to_attr(v) for v in value]
    return value


def merge(base, other):
    out = dict(base)
    for key, value in other.items():
        if key in out and isinstance(out[key], dict) and isinstance(value, dict):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def load(path):
    path = Path(path)
    with path.open() as f:
        cfg = yaml.safe_load(f)
    parent = cfg.pop("_base_", None)
    if parent:
        cfg = merge(load(path.parent / parent), cfg)
    return to_attr(cfg)
