"""The file of trained weights: what was learned, on what, and what the replay said of it.

One JSON document, small enough to read: sums of named features, so that every decision stays a sum
of named terms.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import Field

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.placement.engine.features import ORDER_FEATURES, PLACE_FEATURES
from gpuconsole.placement.learned.gate import Verdict
from gpuconsole.placement.model import Learned
from gpuconsole.yamldoc import Document, Section, Text, parse_document, read_text

SHIPPED = Path(__file__).parents[2] / "data" / "rl-weights.json"
"""Weights that come along: where the search of a lab begins, and what the simulator plays where the
lab has none of its own. Real jobs are placed by weights that the lab's own past has confirmed."""
FILE_NAME = "weights.json"
"""In the state folder; former ones stay beside it."""
LARGER = 2
"""A lab may have so many times the devices of the one that weights were trained on: a larger one
queues less, and other things count in it."""
_DIGITS = 4
"""Enough for a weight, and no number needs an exponent."""


class TrainedSection(Section):
    """On what the weights were trained."""

    at: Text
    """When, ISO 8601 in UTC."""
    trace: Text
    """The jobs: a trace's name, or the journal."""
    jobs: int = Field(ge=0)
    """How many the trace has."""
    lab: Text
    """The lab's name."""
    models: list[Text] = Field(min_length=1)
    """The models of device that the lab had."""
    devices: int = Field(ge=1)
    """How many devices it had; of several labs, the largest in which replay was for them."""
    rounds: int = Field(ge=0)
    """Rounds of the search."""


class ReplaySection(Section):
    """What the replay of held-out history said; ratios are to the weighted policy."""

    plays: int = Field(ge=0)
    """Windows played."""
    mean_jct_ratio: float = Field(gt=0)
    """Geometric mean."""
    error: float = Field(ge=0)
    """Standard error of its logarithm."""
    p99_wait_ratio: float = Field(gt=0)
    """Geometric mean."""
    weighted_jct_s: float = Field(ge=0)
    """Mean completion time under `weighted`."""
    rl_based_jct_s: float = Field(ge=0)
    """Mean completion time with the weights."""


class WeightsSection(Section):
    """The whole file."""

    version: Literal[1]
    """Version of this format."""
    place: dict[str, float]
    """What a feature of a place adds to its score."""
    order: dict[str, float]
    """What a feature of a job adds to its size in the queue."""
    place_clip: float = Field(gt=0, le=100)
    """The most that training may add to a score or take from it."""
    order_clip: float = Field(gt=0, le=100)
    """The most that it may move a job in the queue, in powers of e of its area."""
    trained: TrainedSection
    """On what."""
    replay: ReplaySection
    """With what result."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where weights come from."""

    at: str
    trace: str
    jobs: int
    lab: str
    models: tuple[str, ...]
    devices: int
    rounds: int

    def sentence(self) -> str:
        """Return the sentence shown to users."""
        return msg(
            "trained on {n} jobs of {trace}, {lab}, {when}.",
            n=f"{self.jobs:,}", trace=self.trace, lab=self.lab, when=self.at[:10],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trained:
    """Trained weights with their origin and the verdict of the replay."""

    learned: Learned
    origin: Origin
    verdict: Verdict

    def usable(self, models: Collection[str]) -> tuple[Learned | None, str]:
        """Return the weights where `rl_based` may use them, else None and a sentence why not.

        `models` has the model of each device of this lab: weights know only those that they
        were trained with, and no lab that is much larger.
        """
        strange = sorted(set(models) - set(self.origin.models))
        if strange:
            return None, msg(
                "rl_based was trained on {lab}, which had no {device}, so the weighted policy"
                " ranks; run `gpuconsole learn` again.",
                lab=self.origin.lab, device=strange[0],
            )  # fmt: skip
        if len(models) > LARGER * self.origin.devices:
            return None, msg(
                "The weights of rl_based ({lab}) were judged on {n} devices at most; here are"
                " {all}, so the weighted policy ranks; run `gpuconsole learn` again.",
                lab=self.origin.lab, n=f"{self.origin.devices:,}", all=f"{len(models):,}",
            )  # fmt: skip
        if not self.verdict.passed:
            return None, self.verdict.sentence()
        return self.learned, ""


def dumped(trained: Trained) -> str:
    """Return the document as text."""
    learned, origin, verdict = trained.learned, trained.origin, trained.verdict
    section = WeightsSection(
        version=1,
        place=_rounded(learned.place),
        order=_rounded(learned.order),
        place_clip=learned.place_clip,
        order_clip=learned.order_clip,
        trained=TrainedSection(
            at=origin.at,
            trace=origin.trace,
            jobs=origin.jobs,
            lab=origin.lab,
            models=list(origin.models),
            devices=origin.devices,
            rounds=origin.rounds,
        ),
        replay=ReplaySection(
            plays=verdict.plays,
            mean_jct_ratio=round(verdict.mean_jct_ratio, _DIGITS),
            error=round(verdict.error, _DIGITS),
            p99_wait_ratio=round(verdict.p99_wait_ratio, _DIGITS),
            weighted_jct_s=round(verdict.weighted_jct_s, 1),
            rl_based_jct_s=round(verdict.rl_based_jct_s, 1),
        ),
    )
    return json.dumps(section.model_dump(), indent=2) + "\n"


def read(path: Path) -> Trained:
    """Read a file of weights; DocumentError names what is wrong and where."""
    return parse(read_text(path, trusted=False), str(path))


def parse(text: str, source: str) -> Trained:
    """Read weights from text; `source` is the name that errors give to it."""
    document = parse_document(text, source, WeightsSection)
    weights = document.value
    _check(document, "place", weights.place, PLACE_FEATURES)
    _check(document, "order", weights.order, ORDER_FEATURES)
    trained, replay = weights.trained, weights.replay
    return Trained(
        Learned(weights.place, weights.order, weights.place_clip, weights.order_clip),
        Origin(
            trained.at,
            trained.trace,
            trained.jobs,
            trained.lab,
            tuple(trained.models),
            trained.devices,
            trained.rounds,
        ),
        Verdict(
            replay.plays,
            replay.mean_jct_ratio,
            replay.error,
            replay.p99_wait_ratio,
            replay.weighted_jct_s,
            replay.rl_based_jct_s,
        ),
    )


def _rounded(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in weights.items()}


def _check(
    document: Document[WeightsSection],
    part: str,
    weights: Mapping[str, float],
    features: tuple[str, ...],
) -> None:
    for name, value in weights.items():
        if name not in features:
            near = get_close_matches(name, features, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(features)}."
            raise document.error((part, name), f"{name!r} is no feature", hint)
        if not -1e6 < value < 1e6:
            raise document.error((part, name), f"the weight of {name!r} is {value:g}")
