import copy

import yaml


class AttrDict(dict):
    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key)

    def __setattr__(self, key, value):
        self[key] = value


def _to_attr(node):
    if isinstance(node, dict):
        return AttrDict({k: _to_attr(v) for k, v in node.items()})
    if isinstance(node, list):
        return [_to_attr(v) for v in node]
    return node


def override(cfg, options):
    for opt in options or []:
        key, value = opt.split("=", 1)
        node = cfg
        parts = key.split(".")
        for p in parts[:-1]:
            node = node[p]
        node[parts[-1]] = yaml.safe_load(value)
    return cfg


def get_config(path, overrides=None):
    with open(path, "r", encoding="utf-8") as f:
        raw = yaml.safe_load(f)
    return override(_to_attr(copy.deepcopy(raw)), overrides)
