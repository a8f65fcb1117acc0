"""Names in a Kubernetes cluster: of objects, of labels, of vendors' devices."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

RESOURCES: Mapping[str, str] = {
    "gpu": "nvidia.com/gpu",
    "npu": "huawei.com/Ascend910",
    "xpu": "kunlunxin.com/xpu",
    "dcu": "hygon.com/dcu",
    "mlu": "cambricon.com/mlu",
    "gcu": "enflame.com/gcu",
    "iluvatar_gpu": "iluvatar.com/gpu",
    "metax_gpu": "metax-tech.com/gpu",
    "musa": "mthreads.com/gpu",
}
"""What the vendors' device plugins call a device by default, by back end. AMD's cards share a back
end with Hygon's; their plugin says `amd.com/gpu`."""
TYPE_LABELS: Mapping[str, str] = {
    "nvidia.com/gpu": "nvidia.com/gpu.product",
    "amd.com/gpu": "amd.com/gpu.product-name",
}
"""Where NVIDIA's GPU feature discovery and AMD's node labeller write the model."""
MEMORY_LABELS: Mapping[str, str] = {"nvidia.com/gpu": "nvidia.com/gpu.memory"}
"""Where GPU feature discovery writes the memory of a device, MiB. AMD's labeller writes `192G`,
which no comparison reads."""
LONGEST_NAME = 52
"""A pod's name has `-<number>` and five letters more, and fits into 63."""

_WORD = re.compile(r"[^a-z0-9]+")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_LABEL_KEY = re.compile(rf"(?:{_DOMAIN}/)?{_LABEL}")
_LABEL_VALUE = re.compile(rf"(?:{_LABEL})?")
_NOT_A_VALUE = re.compile(r"[^A-Za-z0-9_.-]+")


def object_name(words: str, identity: str) -> str:
    """Return a name for an object: some words, and what makes it unique, which is kept whole."""
    identity = _WORD.sub("-", identity.lower()).strip("-")
    label = _WORD.sub("-", words.lower()).strip("-")
    # A service's name begins with a letter.
    label = label if label[:1].isalpha() else f"job-{label}"
    room = max(1, LONGEST_NAME - len(identity) - 1)
    return f"{label[:room].rstrip('-')}-{identity}"[:LONGEST_NAME].rstrip("-")


def label_word(text: str) -> str:
    """Return a text as the value of a label, as far as it can be one; "" where nothing is left."""
    return _NOT_A_VALUE.sub("-", text)[:63].strip("-_.")


def label_key(text: str) -> str:
    """Return the name of a label; UsageError for what cannot be one."""
    if not _LABEL_KEY.fullmatch(text):
        raise UsageError(
            "No label of a node",
            msg("{value} cannot be the name of one.", value=f"{clean(text, 100)!r}"),
            "Letters, digits and -_. at most 63, with a domain and a slash before it if you like.",
        )  # fmt: skip
    return text


def label_value(text: str) -> str:
    """Return the value of a label; UsageError for what cannot be one."""
    if not _LABEL_VALUE.fullmatch(text):
        raise UsageError(
            "No label of a node",
            msg("{value} cannot be the value of one.", value=f"{clean(text, 100)!r}"),
            "Letters, digits and -_. at most 63.",
        )  # fmt: skip
    return text


def type_values(name: str, types: Mapping[str, str]) -> tuple[str, ...]:
    """Return the label values that a device's name may mean: the one of `types`, else those that
    GPU feature discovery may have written for the models that the catalogue knows by that name.

    It writes what the driver says, with `-` for blanks; newer drivers put the maker before it.
    """
    if name in types:
        return (label_value(types[name]),)
    catalogue = Catalogue.load()
    models = [spec.model for spec in catalogue.specs if catalogue.matches(name, spec.model)]
    spelled = dict.fromkeys(
        label_word(f"{maker}{model}") for model in models or [name] for maker in ("NVIDIA ", "")
    )
    return tuple(value for value in spelled if value)
