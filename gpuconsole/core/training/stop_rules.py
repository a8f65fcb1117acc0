"""Rules that end a job by what its log reports: `stop_if: loss is nan`.

    loss is nan | loss is not finite
    loss > 10 [after 100 steps | after 3 epochs]          also < >= <=
    no better val_loss for 5 epochs | for 200 steps       also lower, higher

A rule looks at reports alone (`core.training.log`): a line that is no report never breaks one, and
neither does a count that the log does not give.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Literal

from gpuconsole.core.training.curves import is_higher_better
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

Unit = Literal["steps", "epochs"]
LONGEST_RULE = 120
MOST_RULES = 8
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_TOKEN = re.compile(r"[<>]=?|[^\s<>]+")
_NAME = re.compile(r"[A-Za-z][\w.@-]{0,31}")
_FORMS = "Write: loss is nan, loss > 10 after 100 steps, or no better val_loss for 5 epochs."


class RuleError(ValueError):
    """A text is no rule. `column` counts its letters from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"{message} at column {column}. {_FORMS}")
        self.column = column


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `text` is how it was written, with single spaces."""

    text: str
    metric: str
    kind: Literal["nan", "not-finite", "compare", "no-better"]
    compare: str = ""
    value: float = 0.0
    higher: bool = False
    """For `no-better`: whether more is better."""
    count: float = 0.0
    """After so many, or for so many of `unit`."""
    unit: Unit = "steps"


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that was broken, and by what: a sentence."""

    rule: Rule
    cause: str


class _Words:
    """The words of a rule, one after another, with where each begins."""

    def __init__(self, text: str) -> None:
        self._found = list(_TOKEN.finditer(text))
        self._end = len(text.rstrip()) + 1
        self._at = 0

    @property
    def next(self) -> str:
        return self._found[self._at][0] if self._at < len(self._found) else ""

    @property
    def column(self) -> int:
        at = self._at
        return self._found[at].start() + 1 if at < len(self._found) else self._end

    def take(self) -> str:
        word = self.next
        self._at += 1
        return word

    def expect(self, *words: str) -> str:
        if self.next.lower() not in words:
            raise RuleError(f"expected {' or '.join(f'`{word}`' for word in words)}", self.column)
        return self.take().lower()

    def metric(self) -> str:
        if not _NAME.fullmatch(self.next):
            raise RuleError("expected the name of a metric", self.column)
        return self.take().lower()

    def number(self, *, positive: bool = False) -> float:
        try:
            number = float(self.next)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or (positive and number <= 0):
            what = "a number above 0" if positive else "a number"
            raise RuleError(msg("expected {what}", what=what), self.column)
        self.take()
        return number

    def count(self) -> tuple[float, Unit]:
        number = self.number(positive=True)
        word = self.expect("steps", "epochs", "step", "epoch")
        return number, "epochs" if word.startswith("epoch") else "steps"

    def end(self) -> None:
        if self.next:
            raise RuleError("expected nothing more", self.column)


def parse_rule(text: str) -> Rule:
    """Return the rule of a text. RuleError says what is wrong where."""
    if len(text) > LONGEST_RULE:
        raise RuleError("the rule is too long", LONGEST_RULE)
    words = _Words(text)
    written = " ".join(text.split())
    if words.next.lower() == "no":
        return _no_better(words, written)
    metric = words.metric()
    if words.next in _COMPARE:
        compare, value = words.take(), words.number()
        count, unit = 0.0, "steps"
        if words.next.lower() == "after":
            words.take()
            count, unit = words.count()
        words.end()
        return Rule(written, metric, "compare", compare, value, count=count, unit=unit)  # type: ignore[arg-type]
    if words.next.lower() != "is":
        raise RuleError("expected `is`, <, >, <= or >=", words.column)
    words.take()
    if words.expect("nan", "not") == "not":
        words.expect("finite")
        words.end()
        return Rule(written, metric, "not-finite")
    words.end()
    return Rule(written, metric, "nan")


def _no_better(words: _Words, written: str) -> Rule:
    words.take()
    way = words.expect("better", "lower", "higher")
    column = words.column
    metric = words.metric()
    higher = is_higher_better(metric) if way == "better" else way == "higher"
    if higher is None:
        raise RuleError(
            msg(
                "whether more or less of {metric} is better is not known: say `lower` or `higher`",
                metric=metric,
            ),
            column,
        )
    words.expect("for")
    count, unit = words.count()
    words.end()
    return Rule(written, metric, "no-better", higher=higher, count=count, unit=unit)


class Watch:
    """Holds reports against one rule, one after another."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._best: tuple[float, float] | None = None
        """The best value, and the place in the rule's unit where it was reported."""
        self._first: float | None = None

    def take(
        self, values: Mapping[str, float], step: float | None, epoch: float | None
    ) -> Broken | None:
        """Take in a report at a step of the run and in an epoch, where the log counts them; return
        how it breaks the rule."""
        rule = self.rule
        place = step if rule.unit == "steps" else epoch
        if place is not None and self._first is None:
            self._first = place
        value = values.get(rule.metric)
        if value is None:
            return None
        where = _where(step, epoch)
        said = f"{rule.metric} was {value:.6g}{where}"
        if rule.kind == "nan":
            return self._broken(said) if math.isnan(value) else None
        if rule.kind == "not-finite":
            return None if math.isfinite(value) else self._broken(said)
        if rule.kind == "compare":
            due = not rule.count or self._passed(place, rule.count)
            return self._broken(said) if due and _COMPARE[rule.compare](value, rule.value) else None
        return self._no_better(value, place, where)

    def _passed(self, place: float | None, count: float) -> bool:
        """Tell whether so many are over since the first that was counted."""
        if place is None or self._first is None:
            return False
        # A log may count from 0 or from 1, and report each hundredth step.
        return place - min(self._first, 1.0) >= count

    def _no_better(self, value: float, place: float | None, where: str) -> Broken | None:
        if place is None:
            return None
        best, higher = self._best, self.rule.higher
        if math.isfinite(value) and (
            best is None or (value > best[0] if higher else value < best[0])
        ):
            self._best = (value, place)
            return None
        if best is None or place - best[1] < self.rule.count:
            return None
        unit = "epoch" if self.rule.unit == "epochs" else "step"
        return self._broken(
            f"{self.rule.metric} was {value:.6g}{where}, and at best {best[0]:.6g} at {unit}"
            f" {best[1]:g}"
        )

    def _broken(self, said: str) -> Broken:
        return Broken(self.rule, f"Stopped by the rule `{self.rule.text}`: {said}.")


def _where(step: float | None, epoch: float | None) -> str:
    if step is not None:
        return f" at step {step:g}"
    return f" in epoch {epoch:g}" if epoch is not None else ""
