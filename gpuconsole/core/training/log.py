"""What a training script's log says of itself: how far it is, and its loss, accuracy and step time.

A line is read only where it has the form of a report: a counter (`epoch 3`, `step=20/500`, a bar)
with names and numbers, or names of metrics with numbers and nothing else. Prose with a number in it
is no report. The forms are those of plain prints, of Paddle's `Model.fit`, PaddleClas,
PaddleDetection, PaddleSeg, PaddleOCR, PaddleNLP's Trainer and tqdm; own forms are `Template`s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.lazy_pattern import lazy_pattern

LONGEST_LINE = 500
"""Characters of a line that are read."""
LONGEST_NAME = 32
STEP_TIME = "step_s"
"""The metric for seconds per step, whatever a log calls it."""
VALIDATION = "val_"
"""What the names of metrics of an evaluation begin with."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBER = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|(?:nan|inf(?:inity)?)(?![A-Za-z]))"
_WORTH = lazy_pattern(
    r"\d\s*/\s*\d|\b(?:epoch|step|iter|iteration|batch)(?![a-z])|global_step|batch_id"
    r"|loss|acc|auc|iou|f1|ppl|perplexity|precision|recall|hmean|top\d|error|score|dice|kappa",
    re.IGNORECASE,
)
_PREFIX = lazy_pattern(
    r"^\s*(?:\[?\d{2,4}[-/]\d{1,2}(?:[-/]\d{1,4})?[T ]\d{1,2}:\d\d:\d\d(?:[.,]\d+)?Z?\]?"
    r"|\[?\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\]?"
    r"|\[\s*(?:INFO|DEBUG|WARNING|TRAIN_LOG)\s*\]|(?:[\w.]+\s+)?(?:INFO|DEBUG|WARNING):?(?=[\s\[])"
    r"|[-|:](?=\s))\s*"
)
"""One part of what a logger puts before its message: a time, a name, a level."""
_SLASHED = r"(\d{1,9}(?:\.\d+)?)(?:\s*/\s*(\d{1,9}))?"
_COUNTER = lazy_pattern(
    r"(?<![A-Za-z0-9_])(global[_ ]?step|progress_or_epoch|step|iter|iteration|batch(?:_?id|_?idx)?"
    r"|epoch(?:_?id)?)['\"]?\s*(?:[=:#]\s*)?(?:\[\s*)?" + _SLASHED + r"(?![\w.]|-\d)\s*\]?",
    re.IGNORECASE,
)
_EPOCH_ALONE = lazy_pattern(r"\W*epoch\W{1,3}(\d{1,9})(?:\s*/\s*\d{1,9})?\W*$", re.IGNORECASE)
_IN_BRACKETS = lazy_pattern(r"\[\s*(\d{1,9})\s*/\s*(\d{1,9})\s*\]")
_BAR = lazy_pattern(
    r"(?:(?<=[|:\s])|^)\s*(?:\d{1,3}%\|[^|]{0,200}\|\s*)?(?<!\d)(\d{1,9})/(\d{1,9}) "
    r"\[(?=\d+:\d\d)([^\]<]*(?:<[^,\]]*)?),?\s*([^,\]]*)"
)
"""A progress bar as tqdm draws it: done, of all, times, pace."""
_HAPI_BAR = lazy_pattern(r"\[[=>.]{5,}\]")
_PACE = lazy_pattern(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s*(?:(us|ms|s)/(?:step|iter|batch|it)|(it|step|iter|batch)s?/s)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_QUALIFIER = (
    r"train(?:ing)?|val|valid(?:ation)?|eval(?:uation)?|dev|test|avg|average|mean|running|total"
)
_KNOWN = (
    r"(?:[A-Za-z0-9]+[_-])*(?:loss|acc|accu|accuracy|auc|m?iou|miou|f1|ppl|perplexity|precision"
    r"|recall|hmean|top_?\d|acc_?top\d|m?ap|ap50|error|err|score|dice|kappa|bleu|rouge|mae|mse|rmse"
    r"|psnr|ssim|wer|cer)(?![A-Za-z])[\w@.-]*|[A-Z][A-Za-z]*Loss\w*"
)
_SETTINGS = _words(
    "weight weights coef coeff scale type ratio factor func fn name alpha gamma beta"
    " threshold thresh smooth smoothing margin lambda every interval"
)
"""Parts of names that are settings although they name a metric, too."""
_PAIR = lazy_pattern(
    rf"(?<![\w.])(?:(?P<of>{_QUALIFIER})[ _/.-]+)?"
    rf"(?:(?P<name>[A-Za-z][\w./@-]*(?: rate| score)?(?:\([\w ]{{1,24}}\))?)['\"]?\s*"
    rf"(?:\bis\b|\bwas\b|\bare\b)?\s*[:=]|(?P<known>{_KNOWN})\s+)"
    rf"\s*(?:tensor|array)?[\[(]{{0,2}}\s*(?P<value>{_NUMBER})"
    r"(?P<unit>\s?(?:%|ms|s|sec|secs|seconds)(?![\w/]))?(?![\w:/]|\.\d|-\d)\s*[\])]{0,2}",
    re.IGNORECASE,
)
_AVERAGE_PRECISION = lazy_pattern(
    r"Average Precision\s+\(AP\) @\[ IoU=0\.50:0\.95 \| area=\s*all \|[^\]]{0,40}\] = "
    rf"({_NUMBER})"
)
_MAP = lazy_pattern(rf"\bmAP\([\w., ]{{1,30}}\)\s*=\s*({_NUMBER})\s*(%)?")
_ETA = lazy_pattern(
    r"\b(?:ETA|eta|remaining|elapsed)\b\s*[:=]?\s*(?:\d+ days?, )?(?:\d+:)*\d+s?(?:\.\d+)?",
    re.IGNORECASE,
)
_WORD = lazy_pattern(r"[^\W\d_][^\W_]+|\b[a-z]\b", re.IGNORECASE)
_UNITS = lazy_pattern(
    r"\b(?:samples?|images?|tokens?|examples?|imgs?|words|records)\s?/\s?(?:s|sec|second)\b"
    r"|\b\d+(?:\.\d+)?\s?(?:[KMG]i?B|s|ms|sec|secs|seconds)\b",
    re.IGNORECASE,
)
_EVALUATION = lazy_pattern(
    r"(?:^|[\[\s])(?:eval(?:uat\w+)?|val(?:id\w*)?|dev|test(?:ing)?|cur metric)(?=[\]\s:,])",
    re.IGNORECASE,
)
_BEST_BESIDE = lazy_pattern(r"\([^()]{0,40}\bbest\b[^()]{0,60}\)", re.IGNORECASE)
_BEST = lazy_pattern(r"\bbest\b", re.IGNORECASE)
_FILLERS = _words(
    "train training eval evaluation evaluate val valid validation dev test avg average mean"
    " epoch epochs step steps iter iters iteration batch batches end ended done finished"
    " complete completed result results cur current metric metrics info lr of in at the is and"
    " for per after on with total running images samples ips speed eta time cost loss acc"
    " accuracy accuracy second seconds it set"
)
_NO_METRICS = _words(
    "eta time elapsed epochs num_samples batch_size samples avg_samples images max_mem mem"
    " memory max_mem_reserved max_mem_allocated rank seed pid port id line total num"
    " best_epoch size world_size interval_runtime runtime best date day fps samples_per_second"
)
"""Names that stand beside numbers in reports and are no curve."""
_STEP_TIMES = _words("batch_cost avg_batch_cost step_time batch_time time_per_step")
_STEP_RATES = _words("interval_steps_per_second steps_per_second")
_RATES = frozenset(("lr", "ips", STEP_TIME))
"""Names that alone make no report: settings are printed so, too."""
_WORDS_WITH_COUNTER = 2
"""Words of no meaning here that a line with a counter may have; one without has none."""
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class Progress(NamedTuple):
    """Steps done of so many, and where the log tells, within which epoch of how many."""

    word: str
    at: int
    end: int
    epoch: int = 0
    epochs: int = 0

    @property
    def done(self) -> float:
        """The share of all, 0 to 1; with epochs that of all of them."""
        share = self.at / self.end
        return min(1.0, (self.epoch - 1 + share) / self.epochs) if self.epoch else share

    @property
    def left(self) -> int:
        """Steps to come, in all epochs."""
        return self.end - self.at + (self.epochs - self.epoch) * self.end


class Count(NamedTuple):
    """One counter of a line: `word` is epoch or what the line calls its steps."""

    word: str
    at: float
    of: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line reports. `values` are by metric; of an evaluation they begin with `val_`."""

    values: Mapping[str, float]
    epoch: float | None = None
    step: int | None = None
    """The step as the line counts it: of the run, or within the epoch."""
    steps: int | None = None
    """Of how many, where the line tells."""


class Template:
    """An own form of lines: text with `{name}` for a number and `*` for anything.

    `{epoch}`, `{step}` and `{steps}` are counters, other names are metrics. White space matches any
    white space. A line is searched once from left to right, without going back.
    """

    def __init__(self, text: str) -> None:
        """ValueError says what is wrong with a text that is no template."""
        names = re.findall(r"\{([^{}]*)\}", text)
        wrong = [name for name in names if not re.fullmatch(r"[A-Za-z][\w.@-]{0,31}", name)]
        if wrong:
            raise ValueError(f"`{{{wrong[0][:40]}}}` is no name of a metric")
        if not set(names) - {"epoch", "step", "steps"}:
            raise ValueError("it names no metric: write `loss={loss}`")
        if len(names) != len(set(names)):
            raise ValueError("it names a metric twice")
        if re.search(r"[{}]", re.sub(r"\{[^{}]*\}", "", text)) or len(text) > LONGEST_LINE:
            raise ValueError("expected text with `{name}` for numbers")
        self.text = text
        self._parts = [_compiled(part) for part in text.split("*") if part.strip()]

    def read(self, line: str) -> Reading | None:
        """Return what a line reports in this form; None when it has another."""
        at = 0
        values: dict[str, float] = {}
        for names, pattern in self._parts:
            match = pattern.search(line, at)
            if match is None:
                return None
            at = match.end()
            values |= dict(zip(names, map(float, match.groups()), strict=True))
        step, steps = values.pop("step", None), values.pop("steps", None)
        epoch = values.pop("epoch", None)
        return Reading(
            {name.lower(): value for name, value in values.items()},
            epoch, _whole(step), _whole(steps),
        )  # fmt: skip


def _compiled(part: str) -> tuple[tuple[str, ...], re.Pattern[str]]:
    words: list[str] = []
    names: list[str] = []
    for text, name in re.findall(r"([^{}]+)|\{([^{}]*)\}", part):
        if name:
            names.append(name)
            words.append(f"({_NUMBER})")
        else:
            words.append(r"\s+".join(re.escape(word) for word in re.split(r"\s+", text)))
    return tuple(names), re.compile("".join(words), re.IGNORECASE)


def _whole(number: float | None) -> int | None:
    return int(number) if number is not None and math.isfinite(number) else None


class TrainingReader:
    """Reads lines one after another: what `Model.fit` prints of an evaluation is known to be that
    only from the line before it."""

    def __init__(self, templates: Sequence[Template] = ()) -> None:
        self._templates = templates
        self._evaluating = False
        self._epoch: float | None = None
        """What a line of an epoch alone said last."""

    def read(self, line: str) -> Reading | None:
        """Return what a clean line reports; None for one that is no report."""
        line = " ".join(line[:LONGEST_LINE].split())
        for template in self._templates:
            if (own := template.read(line)) is not None:
                return own
        if line.startswith("Eval begin"):
            self._evaluating = True
            return None
        if line.startswith(("Eval samples", "Epoch ", "Predict begin")):
            self._evaluating = False
        if (begins := _EPOCH_ALONE.match(line)) is not None:
            self._epoch = float(begins[1])
            return Reading({}, self._epoch)
        if _WORTH.search(line) is None:
            return None
        reading = _read(line)
        if reading is not None and reading.epoch is None:
            reading = replace(reading, epoch=self._epoch)
        if reading is None or not self._evaluating:
            return reading
        # The figures of a part of an evaluation are none yet.
        return _as_evaluation(reading) if reading.step == reading.steps else None


def _as_evaluation(reading: Reading) -> Reading:
    values = {
        name if name == STEP_TIME or name.startswith(VALIDATION) else VALIDATION + name: value
        for name, value in reading.values.items()
        if name != STEP_TIME
    }
    return Reading(values, reading.epoch)


def _read(line: str) -> Reading | None:
    special = _special(line)
    if special is not None:
        return special
    while (cut := _PREFIX.match(line)) is not None and cut.end():
        line = line[cut.end() :]
    line = _BEST_BESIDE.sub(" ", line)
    if _BEST.search(line):
        # The best so far is no reading of now.
        return None
    counts, rest = _counted(line)
    values, rest = _values(rest, bool(_EVALUATION.search(line)))
    if not values or not (counts or set(values) - _RATES):
        return None
    unknown = [word for word in _WORD.findall(rest) if word.lower() not in _FILLERS]
    if len(unknown) > (_WORDS_WITH_COUNTER if counts else 0):
        return None
    if not counts and not all(_is_known(name) for name in values):
        return None
    epoch = next((count.at for count in counts if count.word == "epoch"), None)
    step = _step(counts)
    return Reading(
        values, epoch, None if step is None else int(step.at), None if step is None else step.of
    )


def _special(line: str) -> Reading | None:
    """Return what the summaries of PaddleDetection say of an evaluation."""
    if (match := _AVERAGE_PRECISION.search(line)) is not None:
        return Reading({VALIDATION + "ap": float(match[1])})
    if (percent := _MAP.search(line)) is not None:
        return Reading({VALIDATION + "map": float(percent[1]) / (100.0 if percent[2] else 1.0)})
    return None


def _is_known(name: str) -> bool:
    bare = name.removeprefix(VALIDATION).removeprefix("test_")
    if not _SETTINGS.isdisjoint(bare.split("_")):
        return False
    return name in _RATES or re.fullmatch(_KNOWN, bare, re.IGNORECASE) is not None


def _counted(line: str) -> tuple[list[Count], str]:
    """Return the counters of a line, and the line without them."""
    counts: list[Count] = []
    bar = _BAR.search(line)
    if bar is not None:
        counts.append(Count("step", float(bar[1]), int(bar[2])))
        # The pace and what a script has tqdm write after it are read on.
        line = f"{line[: bar.start()]} {bar[4]} {line[bar.end() :]}"
    line = _HAPI_BAR.sub(" ", line)
    for match in _COUNTER.finditer(line):
        word = match[1].lower().replace(" ", "_")
        word = "epoch" if "epoch" in word else word
        of = int(match[3]) if match[3] else None
        counts.append(Count(word, float(match[2]), of))
    line = _COUNTER.sub(" ", line)
    if counts and _step(counts) is None and (alone := _IN_BRACKETS.search(line)) is not None:
        counts.append(Count("step", float(alone[1]), int(alone[2])))
        line = _IN_BRACKETS.sub(" ", line)
    return counts, line


def _step(counts: Sequence[Count]) -> Count | None:
    """Return the counter of steps of a line: that of the whole run before others."""
    steps = [count for count in counts if count.word != "epoch" and count.at == int(count.at)]
    return min(steps, key=lambda count: not count.word.startswith("global"), default=None)


def _values(line: str, evaluation: bool) -> tuple[dict[str, float], str]:
    """Return the metrics of a line and their values, and the line without them."""
    values: dict[str, float] = {}
    line = _ETA.sub(" ", line)
    if (pace := _PACE.search(line)) is not None:
        number = float(pace[1])
        if pace[2]:
            values[STEP_TIME] = number * _SECONDS[pace[2].lower()]
        elif number:
            values[STEP_TIME] = 1.0 / number
        before = line[: pace.start()]
        # `speed: 3 step/s` is its name.
        line = re.sub(r"[A-Za-z_]+\s*[:=]\s*$", " ", before) + " " + line[pace.end() :]
    for match in _PAIR.finditer(line):
        name = _named(match, evaluation)
        if not name:
            continue
        value = float(match["value"])
        if name == STEP_TIME and (match["unit"] or "").strip() == "ms":
            value /= 1e3
        if name in _STEP_RATES:
            name, value = STEP_TIME, 1.0 / value if value else math.nan
        values.setdefault(name, value)
    return values, _UNITS.sub(" ", _PAIR.sub(" ", line))


def _named(match: re.Match[str], evaluation: bool) -> str:
    """Return the metric that a pair is of; "" for one that is no curve."""
    written = (match["name"] or match["known"]).lower()
    written = re.sub(r"\(.*\)", "", written).strip().replace(" ", "_").replace("-", "_")
    of = (match["of"] or "").lower()
    of = "val" if of.startswith(("eval", "val", "dev")) else of
    for long in ("validation_", "valid_", "eval_", "dev_"):
        if written.startswith(long):
            written, of = written.removeprefix(long), "val"
    if written.startswith("val_"):
        written, of = written.removeprefix("val_"), "val"
    elif written.startswith("train_"):
        written, of = written.removeprefix("train_"), "train"
    if written in _NO_METRICS or written.endswith(("_runtime", "_id")):
        return ""
    if written in ("learning_rate", "lr"):
        return "lr"
    if written in _STEP_TIMES:
        return STEP_TIME
    if written in _STEP_RATES:
        return "" if of == "val" or evaluation else written
    if written == "interval_samples_per_second":
        written = "ips"
    if of.startswith("test"):
        return f"test_{written}"[:LONGEST_NAME]
    is_evaluation = of == "val" or (evaluation and not of.startswith("train"))
    return (VALIDATION + written if is_evaluation else written)[:LONGEST_NAME]


def progress(lines: Sequence[str]) -> Progress | None:
    """Find the newest `step=3/500` (or epoch, iter, batch, or a progress bar) among log lines."""
    epoch: Progress | None = None
    step: Progress | None = None
    for line in reversed(lines):
        for counter in reversed(_finite(" ".join(line[:LONGEST_LINE].split()))):
            if counter.word == "epoch":
                epoch = epoch or counter
            else:
                step = step or counter
        if step is not None and epoch is not None:
            break
    if step is None or epoch is None or not epoch.at:
        return step or epoch
    return step._replace(epoch=epoch.at, epochs=epoch.end)


def _finite(line: str) -> list[Progress]:
    """Return the counters of a line that tell of how many."""
    if "/" not in line:
        return []
    counts, _ = _counted(line)
    counters = [Progress(count.word, int(count.at), count.of) for count in counts if count.of]
    return [counter for counter in counters if counter.at <= counter.end]
