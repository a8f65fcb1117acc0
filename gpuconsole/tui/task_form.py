"""From what is typed in the submit form to a task, and back for a suggestion. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from pydantic import ValidationError

from gpuconsole.core.estimate import Suggestion
from gpuconsole.core.jobs import Job, Mount, Task
from gpuconsole.core.submission.secrets import withheld
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.taskfile import MountSection


@dataclass(frozen=True, slots=True)
class Field:
    """One line of the form."""

    name: str
    label: str
    hint: str


FIELDS: tuple[Field, ...] = (
    Field("script", "script", "train.py (right fills, ctrl+l finds)"),
    Field("args", "arguments", "--epochs 3"),
    Field("name", "name", "the script's name"),
    Field("batch", "batch size", "as the script says"),
    Field("answers", "answers", "vocab_size=30000 (asked by preflight)"),
    Field("devices", "devices", "1, or auto"),
    Field("prefer", "prefer", "A100 RTX_3090"),
    Field("image", "image", "the host's default"),
    Field("priority", "priority", "0"),
    Field("labels", "labels", "pool=train"),
    Field("env", "environment", "NAME=value"),
    Field("mounts", "mounts", "/data:/data (of the host, to read)"),
)

_BATCH_OPTION = re.compile(r"\A(--?(?:batch[-_]?size|bs|b))(=?)(\d*)\Z")


class FormError(ValueError):
    """A field that cannot be used; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def build_task(values: Mapping[str, str], environ: Mapping[str, str]) -> Task:
    """Return the task that the form describes; a variable without a value is a secret with its
    value from `environ`, or "" if there is none."""
    script = values.get("script", "").strip()
    if not script:
        raise FormError("script", "Which script? ctrl+l finds one.")
    name = values.get("name", "").strip() or PurePath(script).stem
    devices = values.get("devices", "").strip()
    return Task(
        name=name,
        script=script,
        args=tuple(_words(values, "args")),
        image=values.get("image", "").strip(),
        env=_pairs(values, "env", bare=True),
        secrets={word: environ.get(word, "") for word in _words(values, "env") if "=" not in word},
        devices=None if devices == "auto" else _number(values, "devices", 1, least=1),
        batch_size=_number(values, "batch", None, least=1),
        priority=_number(values, "priority", 0) or 0,
        labels=_pairs(values, "labels"),
        mounts=_mounts(values),
        preferred_devices=tuple(_words(values, "prefer")),
        assumptions=_pairs(values, "answers"),
    )


def values_of(task: Task) -> dict[str, str]:
    """Return what one would type into the form for a task."""
    stem = PurePath(task.script).stem
    values = {
        "script": task.script,
        "args": shlex.join(task.args),
        "name": "" if task.name == stem else task.name,
        "batch": "" if task.batch_size is None else str(task.batch_size),
        "answers": _typed(task.assumptions),
        "devices": "auto" if task.devices is None else str(task.devices),
        "prefer": shlex.join(task.preferred_devices),
        "image": task.image,
        "priority": str(task.priority) if task.priority else "",
        "labels": _typed(task.labels),
        "env": _variables(task),
        "mounts": shlex.join(
            f"{mount.source}:{mount.target}{'' if mount.read_only else ':rw'}"
            for mount in task.mounts
        ),
    }
    # Remove characters that cannot be typed.
    return {name: clean(value) for name, value in values.items()}


def past(jobs: Iterable[Job], user: str) -> list[Job]:
    """Return the jobs of a user that were submitted from scripts, newest first; of those that were
    typed alike, and of a sweep, only the newest."""
    newest: dict[tuple[object, ...], Job] = {}
    for job in sorted(jobs, key=lambda job: -job.submitted_at):
        if job.user == user and job.task.script:
            typed = (*values_of(job.task).values(), *job.task.edits)
            alike = (job.task.sweep,) if job.task.sweep else typed
            newest.setdefault(alike, job)
    return list(newest.values())


class Recall:
    """Goes back and forth among past submissions; what was typed before is kept at the near end."""

    def __init__(self) -> None:
        self.at = 0
        """Which of them is in the form, from 1; 0 for what was typed."""
        self._draft: Mapping[str, str] = {}
        self._shown: Mapping[str, str] = {}

    def step(
        self, tasks: Sequence[Task], typed: Mapping[str, str], way: int
    ) -> Mapping[str, str] | None:
        """Return the form of the next older (`way` 1) or newer one; None beyond the ends."""
        if not self.holds(typed):
            self.at, self._draft = 0, dict(typed)
        at = self.at + way
        if not 0 <= at <= len(tasks):
            return None
        self.at = at
        self._shown = values_of(tasks[at - 1]) if at else self._draft
        return self._shown

    def holds(self, typed: Mapping[str, str]) -> bool:
        """Tell whether the form is as it was recalled."""
        return self.at > 0 and dict(typed) == dict(self._shown)


def applicable(suggestions: Iterable[Suggestion]) -> tuple[Suggestion, ...]:
    """Return the suggestions that a key can apply; the others are for the script."""
    return tuple(suggestion for suggestion in suggestions if suggestion.is_applicable)


def apply(values: Mapping[str, str], suggestion: Suggestion) -> dict[str, str] | None:
    """Return the form with a suggestion applied, or None when the script itself must change."""
    if not suggestion.is_applicable:
        return None
    changed = dict(values)
    size = suggestion.value if suggestion.kind == "batch-size" else suggestion.batch
    if size is None:
        return changed
    changed["batch"] = str(size)
    if suggestion.args is not None:
        changed["args"] = shlex.join(suggestion.args)
    elif not suggestion.edits:
        changed["args"] = _with_batch(values.get("args", ""), str(size))
    return changed


def with_question(values: Mapping[str, str], name: str) -> str:
    """Return the answers with the beginning of one more, to be typed on."""
    given = values.get("answers", "").strip()
    return f"{given} {shlex.quote(name) if ' ' in name else name}=".strip()


def _variables(task: Task) -> str:
    """Return variables as they are typed, without values that are secret."""
    hidden = withheld(task.env, task.secrets)
    plain = {name: value for name, value in task.env.items() if name not in hidden}
    return f"{_typed(plain)} {shlex.join(sorted(hidden))}".strip()


def _typed(pairs: Mapping[str, str]) -> str:
    return shlex.join(f"{name}={value}" for name, value in pairs.items())


def _with_batch(args: str, batch: str) -> str:
    """Keep a batch size among the arguments in step: the script would not follow otherwise."""
    try:
        words = shlex.split(args)
    except ValueError:
        return args
    for at, word in enumerate(words):
        match = _BATCH_OPTION.match(word)
        if match is None:
            continue
        if match.group(2):
            words[at] = f"{match.group(1)}={batch}"
        elif at + 1 < len(words) and words[at + 1].isdigit():
            words[at + 1] = batch
        else:
            continue
        return shlex.join(words)
    return args


def _words(values: Mapping[str, str], field: str) -> list[str]:
    try:
        return shlex.split(values.get(field, ""))
    except ValueError:
        raise FormError(field, "A quote is not closed.") from None


def _pairs(values: Mapping[str, str], field: str, *, bare: bool = False) -> dict[str, str]:
    """Return the pairs of a field; with `bare` a name alone is left out, else it is an error."""
    pairs: dict[str, str] = {}
    for word in _words(values, field):
        name, equals, value = word.partition("=")
        if bare and not equals:
            continue
        if not equals or not name:
            raise FormError(field, msg("`{word}` should be NAME=value.", word=word))
        pairs[name] = value
    return pairs


def _mounts(values: Mapping[str, str]) -> tuple[Mount, ...]:
    mounts = []
    for word in _words(values, "mounts"):
        try:
            mount = MountSection.model_validate(word)
        except ValidationError:
            raise FormError(
                "mounts", msg("`{word}` should be /source:/target.", word=word)
            ) from None
        mounts.append(Mount(mount.source, mount.target, mount.read_only))
    return tuple(mounts)


def _number(
    values: Mapping[str, str], field: str, default: int | None, least: int | None = None
) -> int | None:
    typed = values.get(field, "").strip()
    if not typed:
        return default
    try:
        number = int(typed)
    except ValueError:
        raise FormError(field, msg("`{word}` is no whole number.", word=typed)) from None
    if least is not None and number < least:
        raise FormError(field, msg("{n} is too small; at least {least}.", n=number, least=least))
    return number
