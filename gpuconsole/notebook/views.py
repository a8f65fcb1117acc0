"""What a cell shows: as HTML in a notebook, as text in a terminal, in the same words."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType

from gpuconsole.cli.output import text
from gpuconsole.cli.views import fleet, preflight
from gpuconsole.core.answer_figures import Answer, answer
from gpuconsole.core.estimate import Memory, Report
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import format_mib, iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.notebook.html import COLORS, Markup, drawn, lines, tag

_WIDTH = 100
_MARKS = {"succeeded": "green", "running": "green", "launching": "cyan", "unknown": "yellow",
          "failed": "red", "oom": "red"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class View:
    """One answer in both forms."""

    parts: tuple[RenderableType, ...]
    html: Markup

    @property
    def plain(self) -> str:
        """The answer as text without colours."""
        file = io.StringIO()
        screen = Console(
            file=file,
            width=_WIDTH,
            color_system=None,
            markup=False,
            highlight=False,
            emoji=False,
            # Rich would otherwise draw each part itself, as soon as it sees a kernel.
            force_jupyter=False,
        )
        for part in self.parts:
            screen.print(part)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())

    def bundle(self) -> dict[str, str]:
        """Return it by media type, for a front end to choose from."""
        return {"text/plain": self.plain, "text/html": self.html}


def plain_view(parts: Iterable[RenderableType]) -> View:
    """Return the view of what a command draws."""
    shown = tuple(parts)
    return View(shown, _page(*map(drawn, shown)))


def report_view(report_: Report, simulated: bool) -> View:
    """Return preflight's answer: verdict, parts, unknowns, devices, what would help."""
    estimate, answered = report_.estimate, answer(report_)
    shown = [drawn(preflight.headline(report_))]
    if basis := preflight.basis(answered):
        shown.append(drawn(text(basis)))
    shown.append(drawn(text(preflight.method(estimate), "dim")))
    shown += map(drawn, preflight.troubles(estimate))
    if answered.memory is not None:
        shown.append(_bar(answered, answered.memory))
        if report_.verdicts and not estimate.errors:
            shown.append(drawn(preflight.verdict_table(report_.verdicts)))
    if report_.suggestions and not estimate.errors:
        shown.append(drawn(text("What would help", "bold")))
        for number, proposal in enumerate(report_.suggestions, start=1):
            shown += map(drawn, preflight.suggestion(number, proposal))
    if estimate.notes:
        notes = [tag("li", note) for note in estimate.notes]
        shown.append(tag("details", tag("summary", "How it was found"), tag("ul", *notes)))
    mark = [text("SIMULATED", "bold reverse")] if simulated else []
    parts = (*mark, *preflight.report(report_))
    return View(parts, _page(*map(drawn, mark), *shown))


def job_view(job: Job, tail: Sequence[str], simulated: bool) -> View:
    """Return the state of a job that is followed, with the end of its log."""
    state = job.state.value
    mark = "SIMULATED  " if simulated else ""
    head = text(mark + fleet.job(job), f"bold {_MARKS.get(state, '')}".strip())
    facts = {
        "started": iso_utc(job.started_at),
        "ended": iso_utc(job.ended_at),
        "estimate": format_mib(job.estimate_mib) if job.estimate_mib is not None else None,
        "peak": _peak(job),
    }
    said = text("   ".join(f"{name} {value}" for name, value in facts.items() if value), "dim")
    log = (lines(tail),) if tail else ()
    return View((head, said, *map(text, tail)), _page(drawn(head), drawn(said), *log))


def _peak(job: Job) -> str | None:
    attempt = job.attempt
    return None if attempt is None or attempt.peak_mib is None else format_mib(attempt.peak_mib)


def _page(*parts: str) -> Markup:
    return tag("div", *parts, style="line-height:1.45")


def _bar(answered: Answer, memory: Memory) -> Markup:
    """Draw the parts side by side, the range behind them, and what may be used; what is above that
    is red, and named."""
    limit, beyond = answered.limit_mib, answered.beyond_mib
    scale = max(memory.high_mib, limit or 0.0, 1.0) * 1.02
    named = zip(preflight.PARTS, preflight.sizes(memory), strict=True)
    shown = [(name, size, COLORS[color]) for (_, name, color), size in named if size >= 0.05]
    pieces = [_piece(name, size, scale, color) for name, size, color in shown]
    spread = memory.high_mib - memory.total_mib
    if spread > 0:
        pieces.append(_piece("upper bound", spread, scale, "rgba(128,128,128,0.35)"))
    if limit is not None:
        at = f"left:{100 * limit / scale:.2f}%"
        look = f"position:absolute;top:0;height:100%;border-left:2px solid currentColor;{at}"
        pieces.append(tag("div", style=look, title=f"may be used: {format_mib(limit)}"))
    if beyond and limit is not None:
        look = (
            f"position:absolute;top:0;height:100%;left:{100 * limit / scale:.2f}%;"
            f"width:{100 * beyond / scale:.2f}%;background:rgba(220,50,47,0.75)"
        )
        pieces.append(tag("div", style=look, title=f"too much: {format_mib(beyond)}"))
    legend = [
        tag("span", tag("span", "■ ", style=f"color:{color}"), f"{name} {format_mib(size)}",
            style="white-space:nowrap")
        for name, size, color in shown
    ]  # fmt: skip
    if limit is not None:
        legend.append(tag("span", f"┃ may be used {format_mib(limit)}", style="white-space:nowrap"))
    if beyond:
        over = f"{preflight.BEYOND} too much {format_mib(beyond)}"
        legend.append(tag("span", over, style="white-space:nowrap;color:#dc322f"))
    look = "position:relative;display:flex;height:14px;max-width:720px;margin:6px 0;"
    bar = tag("div", *pieces, style=look + "background:rgba(128,128,128,0.12)")
    return tag("div", bar, tag("div", *legend, style="display:flex;flex-wrap:wrap;gap:0 1.2em"))


def _piece(name: str, size: float, scale: float, color: str) -> Markup:
    return tag("div", style=f"width:{100 * size / scale:.2f}%;background:{color}",
               title=f"{name}: {format_mib(size)}")  # fmt: skip
