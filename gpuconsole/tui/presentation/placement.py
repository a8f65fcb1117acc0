"""The placement engine's decision as lines: candidates with reasons, refusals, the docker line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gpuconsole.core.jobs import Task
from gpuconsole.core.units import format_duration
from gpuconsole.placement.command import launch_command
from gpuconsole.placement.model import Candidate, Decision
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.presentation.cells import Piece, fit, wrapped

Lines = list[list[Piece]]
MOST_CANDIDATES = 3
MOST_REFUSALS = 4


def decision_lines(
    ink: Ink, task: Task, decision: Decision, docker: str, now: float, width: int
) -> Lines:
    """Return who would get the job and why, who not, and the equal command."""
    lines: Lines = []
    for number, candidate in enumerate(decision.candidates[:MOST_CANDIDATES], start=1):
        first = number == 1
        mark = ink.glyphs.cursor if first else " "
        place = f"{candidate.host} {_devices(candidate)}"
        lines.append(
            [(f"{mark} ", ink.key), (fit(place, width - 13), ink.strong if first else ink.text),
             (f"score {candidate.score:.2f}", ink.muted)]
        )  # fmt: skip
        reasons = candidate.reasons if first else candidate.reasons[:1]
        lines += _indented(ink, reasons, width)
    waiting = decision.waiting
    if waiting is not None:
        lines += [[(part, ink.warn)] for part in wrapped(waiting.reason, width)]
        if waiting.estimated_start is not None:
            wait = format_duration(waiting.estimated_start - now)
            lines.append([(f"  could start in about {wait}", ink.text)])
        lines += _indented(ink, waiting.options, width)
    if decision.rejections:
        lines += [[], [("not these", ink.title)]]
        for refused in decision.rejections[:MOST_REFUSALS]:
            who = f"{refused.host} {refused.model}".strip()
            sentence = f"{who}: {refused.reason}" if who else refused.reason
            lines += _indented(ink, (sentence,), width)
        more = len(decision.rejections) - MOST_REFUSALS
        if more > 0:
            lines.append([(f"  and {more} more", ink.muted)])
    if docker:
        lines += [[], [("the equal docker command", ink.title)]]
        lines += [[(part, ink.muted)] for part in wrapped(docker, width)]
    return lines


def docker_words(task: Task, candidate: Candidate | None) -> str:
    """Return the equal `docker run` of a draft; limits and mounts are added when it is placed."""
    devices = candidate.devices if candidate else ()
    asked = ",".join(device.uuid for device in devices)
    words = ["docker", "run", "--rm"]
    if asked and task.backend in ("gpu", "dcu"):
        words += ["--gpus", f'"device={asked}"']
    for name, value in task.env.items():
        words += ["--env", f"{name}={value}"]
    count = max(1, len(devices))
    words += [task.image or "IMAGE", *launch_command(task, count)]
    return shlex.join(words)


def _devices(candidate: Candidate) -> str:
    return "gpu " + ",".join(str(device.index) for device in candidate.devices)


def _indented(ink: Ink, sentences: Sequence[str], width: int) -> Lines:
    return [
        [("    " if at else "  " + ink.glyphs.dot + " ", ink.rule), (part, ink.text)]
        for sentence in sentences
        for at, part in enumerate(wrapped(sentence, width - 4))
    ]
