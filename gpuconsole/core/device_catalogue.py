"""The device catalogue: nominal figures of accelerators, and whether two names mean one model.

Figures are priors for ranking and for what the map shows; memory that a device reports itself
always wins. The table is `gpuconsole/data/devices.csv`, which names its sources.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources

from gpuconsole.core.util.lazy_dataclass import dataclass

_CACHED_NAMES = 4096
"""Names come from hosts, which may be hostile: the cache is bounded."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known about a model; None where no trustworthy figure is published."""

    vendor: str
    model: str
    memory_gib: float | None
    bandwidth_gb_s: float | None
    fp32_tflops: float | None
    fp16_tflops: float | None
    """Dense, accumulation in FP32."""
    interconnect: str
    """Link between devices, `NVLink3 600` (GB/s both ways); "" or `none` when there is none."""
    tdp_w: float | None
    domestic: bool
    """Made in China."""
    backend: str
    """Paddle's word; "" when Paddle has no back end for it."""
    source: str
    bf16_tflops: float | None = None
    """Dense; None also where the card has no such type."""

    @property
    def rate_tflops(self) -> float | None:
        """FP16 rate, or FP32 where there is no matrix unit; for ranking."""
        return self.fp16_tflops if self.fp16_tflops is not None else self.fp32_tflops


@dataclass(frozen=True, slots=True)
class _Row:
    pattern: re.Pattern[str]
    chips: int
    spec: Spec


class Catalogue:
    """Look models up by the name that a vendor's tool reports."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Read CSV lines; lines that start with `#` are comments."""
        table = csv.DictReader(line for line in lines if not line.startswith("#"))
        self._rows = tuple(_row(fields) for fields in table)
        self.lookup = lru_cache(maxsize=_CACHED_NAMES)(self._lookup)
        self.matches = lru_cache(maxsize=_CACHED_NAMES)(self._matches)

    @classmethod
    @cache
    def load(cls) -> Catalogue:
        """Return the catalogue that ships with the console, read once."""
        path = resources.files("gpuconsole") / "data" / "devices.csv"
        return cls(path.read_text(encoding="utf-8").splitlines())

    @property
    def specs(self) -> tuple[Spec, ...]:
        """All models, in the order of the table."""
        return tuple(row.spec for row in self._rows)

    def _lookup(
        self, model: str, memory_mib: float | None = None, backend: str = ""
    ) -> Spec | None:
        """Find a model's figures, or None.

        Of several models with one name the nearest in memory is taken. A board with over 25 % more
        memory than its model is a modified one: it keeps the rates and shows its own memory. A
        slice of a partitioned device has its share of the rates; one chip of a card of two, half.
        """
        whole, mig = _split_mig(model)
        names = _spellings(whole)
        rows = [
            row
            for row in self._rows
            if (not backend or row.spec.backend == backend)
            and any(row.pattern.search(name) for name in names)
        ]
        if not rows:
            return None
        if mig:
            return _slice(rows[0].spec, *mig)
        if memory_mib is None:
            return rows[0].spec
        gib = memory_mib / 1024
        row = min(rows, key=lambda row: abs((row.spec.memory_gib or gib) - gib))
        nominal = row.spec.memory_gib
        if row.chips > 1 and nominal is not None and gib < 0.6 * nominal:
            return _share(row.spec, 1 / row.chips, nominal / row.chips)
        if nominal is None or gib > nominal * 1.25:
            return replace(row.spec, memory_gib=round(gib, 1))
        return row.spec

    def _matches(self, wanted: str, model: str, memory_mib: float | None = None) -> bool:
        """Tell whether a name that a person wrote means a reported model.

        `RTX_3090` is `NVIDIA GeForce RTX 3090` but not the Ti; `V100-32GB` is any V100 of 32 GB.
        """
        asked, have = _words(wanted), _words(model)
        asked_gib = {gib for gib in map(_gib, asked) if gib}
        if asked_gib:
            have_gib = {gib for gib in map(_gib, have) if gib} or self._memory(model, memory_mib)
            if not any(abs(a - h) <= 0.12 * a for a in asked_gib for h in have_gib):
                return False
        core = {word for word in asked if not _gib(word)}
        if not core:
            return False
        if core <= have and all(_FORM.fullmatch(word) for word in have - core):
            return True
        spec = self.lookup(" ".join(wanted.replace("_", " ").split()), memory_mib)
        other = self.lookup(model, memory_mib)
        return spec is not None and other is not None and spec.model == other.model

    def _memory(self, model: str, memory_mib: float | None) -> set[float]:
        if memory_mib is not None:
            return {memory_mib / 1024}
        spec = self.lookup(model)
        return {spec.memory_gib} if spec is not None and spec.memory_gib else set()


def _row(fields: dict[str, str]) -> _Row:
    def number(key: str) -> float | None:
        return float(fields[key]) if fields.get(key) else None

    spec = Spec(
        vendor=fields["vendor"],
        model=fields["model"],
        memory_gib=number("memory_gib"),
        bandwidth_gb_s=number("bandwidth_gb_s"),
        fp32_tflops=number("fp32_tflops"),
        fp16_tflops=number("fp16_tflops"),
        interconnect=fields["interconnect"],
        tdp_w=number("tdp_w"),
        domestic=fields["domestic"] == "yes",
        backend=fields["backend"],
        source=fields["source"],
        bf16_tflops=number("bf16_tflops"),
    )
    return _Row(re.compile(fields["pattern"], re.IGNORECASE), int(fields["chips"]), spec)


# --- names --------------------------------------------------------------------------------------

_MAKERS = frozenset(("nvidia", "amd", "huawei", "kunlunxin", "kunlun", "hygon"))
_LINES = frozenset(("geforce", "tesla", "quadro", "radeon", "instinct", "ascend", "dcu"))
_BRANDS = _MAKERS | _LINES | {"gpu", "graphics"}
# What a person may leave out: form factor, kind and size of memory, the RTX in front of A6000.
_FORM = re.compile(r"sxm\d?|pcie?|hbm\d?e?|nvl|oam|rtx|\d+gi?b?", re.IGNORECASE)
_GLUED = re.compile(r"\b(rtx|gtx|ascend|tesla)(?=a?\d)")
_SUFFIX = re.compile(r"\b(\d{4})(ti|super|d)\b")
_PREFIX = re.compile(r"^(huawei|ascend|kunlunxin|kunlun|hygon|dcu)[\s_-]+", re.IGNORECASE)


def _spellings(model: str) -> tuple[str, ...]:
    """Return the name, and the name as the patterns expect it of each vendor's tool."""
    name = model.strip()[:200]
    bare = _PREFIX.sub("", _PREFIX.sub("", name))
    return (name, bare, f"NVIDIA {name}")


@lru_cache(maxsize=_CACHED_NAMES)
def _words(name: str) -> frozenset[str]:
    text = re.sub(r"[\s_\-/()]+", " ", name[:200].lower())
    text = _SUFFIX.sub(r"\1 \2", _GLUED.sub(r"\1 ", text))
    return frozenset(text.split()) - _BRANDS


def _gib(word: str) -> float | None:
    match = re.fullmatch(r"(\d+)gi?b?", word)
    return float(match.group(1)) if match else None


def _split_mig(model: str) -> tuple[str, tuple[int, float] | None]:
    match = re.search(r"\s*\bMIG (?:\d+c\.)?(\d+)g\.(\d+)gb", model, re.IGNORECASE)
    if match is None:
        return model, None
    return model[: match.start()], (int(match.group(1)), float(match.group(2)))


def _slice(spec: Spec, parts: int, memory_gib: float) -> Spec:
    # A30 and RTX PRO 6000 divide into four compute slices, all others into seven.
    whole = 4 if spec.model == "A30" or "RTX PRO 6000" in spec.model else 7
    return _share(spec, min(1.0, parts / whole), memory_gib)


def _share(spec: Spec, share: float, memory_gib: float) -> Spec:
    def part(figure: float | None) -> float | None:
        return None if figure is None else round(figure * share, 1)

    return replace(
        spec,
        memory_gib=memory_gib,
        bandwidth_gb_s=part(spec.bandwidth_gb_s),
        fp32_tflops=part(spec.fp32_tflops),
        fp16_tflops=part(spec.fp16_tflops),
        bf16_tflops=part(spec.bf16_tflops),
        tdp_w=part(spec.tdp_w),
    )
