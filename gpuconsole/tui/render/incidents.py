"""Incidents as pieces: rows of the list, evidence, actions with what would follow, the plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from rich.style import Style

from gpuconsole.core.fleet import Host
from gpuconsole.core.history import Series, downsample
from gpuconsole.core.incidents import HARMFUL, WRITING, Action, Incident, IncidentState, Severity
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.text_cells import Align, Piece, fit, labelled, wrapped
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import Ink

NARROW = 100
"""Columns below which only the first facts of an incident fit."""
LABEL = 12
WHAT_MOST = 64
GLYPHS = {Severity.CRITICAL: "!", Severity.WARNING: "~", Severity.INFO: "i"}
SPARKS, ASCII_SPARKS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
Lines = list[list[Piece]]


@dataclass(frozen=True, slots=True)
class Row:
    """What a line of the list is made of."""

    incident: Incident
    hit: str
    """Who it hits: jobs by name, else users."""
    do: str = ""
    """The first thing that can be done."""
    recovering: bool = False
    """Whether what was wrong is gone, and is waited for to stay so."""


def columns(width: int) -> Mapping[str, int]:
    """Return the widths of the columns that fit into so many cells."""
    if width < NARROW - 4:
        fixed = {"severity": 10, "since": 6, "where": 17}
    else:
        fixed = {"severity": 10, "since": 6, "where": 20, "affected": 16, "do": 22}
    gaps = len(fixed)
    room = max(12, width - sum(fixed.values()) - gaps)
    if room > WHAT_MOST and "do" in fixed:
        # A title far from its place is hard to follow: the rest goes to names.
        spare, room = room - WHAT_MOST, WHAT_MOST
        fixed |= {"affected": 16 + spare // 2, "do": 22 + spare - spare // 2}
    names = ("severity", "since", "what", "where", "affected", "do")
    return {name: room if name == "what" else fixed[name] for name in names
            if name == "what" or name in fixed}  # fmt: skip


def heading(ink: Ink, sizes: Mapping[str, int]) -> list[Piece]:
    """Return the line above the list."""
    pieces: list[Piece] = []
    for name, size in sizes.items():
        align: Align = "right" if name == "since" else "left"
        pieces += [(fit(ink.say(name), size, align), ink.muted),
                   (" ", ink.text)]  # fmt: skip
    return pieces


def row_pieces(ink: Ink, row: Row, now: float, sizes: Mapping[str, int]) -> list[Piece]:
    """Return one incident as a line of the list."""
    incident, say = row.incident, ink.say
    state = incident.state(now)
    quiet = state is not IncidentState.OPEN or row.recovering
    body = ink.muted if quiet else ink.text
    cells: dict[str, Piece] = {
        "severity": (f"{GLYPHS[incident.severity]} {say(incident.severity.value)}",
                     ink.muted if quiet else severity_style(ink, incident.severity)),
        "since": (short_age(now - incident.since), body),
        "what": (say("recovering: ") * row.recovering + say(incident.title),
                 body if quiet else ink.strong),
        "where": (incident.where, body),
        "affected": (row.hit or "-", body),
        "do": (standing(ink, incident, now) or say(row.do), ink.muted),
    }  # fmt: skip
    if "do" not in sizes and state is not IncidentState.OPEN:
        cells["what"] = (f"({standing(ink, incident, now)}) {say(incident.title)}", body)
    pieces: list[Piece] = []
    for name, size in sizes.items():
        words, style = cells[name]
        pieces += [(fit(words, size, "right" if name == "since" else "left"), style),
                   (" ", ink.text)]  # fmt: skip
    return pieces


def severity_style(ink: Ink, severity: Severity) -> Style:
    """Return the style of a severity; its word says the same."""
    if severity is Severity.CRITICAL:
        return ink.bad + Style(bold=True, reverse=True)
    return ink.warn + Style(bold=True) if severity is Severity.WARNING else ink.accent


def short_age(seconds: float) -> str:
    """Return an age in at most five cells: `42s`, `17m`, `3h`, `2d`."""
    return next(
        (
            f"{int(max(0.0, seconds) // size)}{unit}"
            for size, unit in ((86400, "d"), (3600, "h"), (60, "m"))
            if seconds >= size
        ),
        f"{int(max(0.0, seconds))}s",
    )


def standing(ink: Ink, incident: Incident, now: float) -> str:
    """Say what became of an incident that is not open, in a few words; "" of one that is."""
    state, say = incident.state(now), ink.say
    if state is IncidentState.ACKNOWLEDGED:
        return say(msg("seen by {user}", user=clean(incident.marked_by, 20)))
    if state is IncidentState.SNOOZED:
        return say(f"back in {format_duration((incident.until or now) - now)}")
    if state is not IncidentState.RESOLVED:
        return ""
    if incident.ended_at is None:
        return say(msg("dismissed by {user}", user=clean(incident.marked_by, 20)))
    return f"{say('resolved')} {moment(incident.ended_at, now)}"


def moment(at: float, now: float) -> str:
    """Return a time of day, with the date when it is another day's."""
    then = datetime.fromtimestamp(at)
    same = then.date() == datetime.fromtimestamp(now).date()
    return then.strftime("%H:%M:%S" if same else "%m-%d %H:%M")


def counts(ink: Ink, incidents: Sequence[Incident], now: float) -> str:
    """Say how many are open of each severity."""
    open_now = [incident for incident in incidents if incident.state(now) is IncidentState.OPEN]
    words = [
        f"{number} {ink.say(severity.value)}"
        for severity in Severity
        if (number := sum(incident.severity is severity for incident in open_now))
    ]
    return "  ".join(words) or ink.say("nothing open")


def evidence_lines(
    ink: Ink, row: Row, jobs: Mapping[str, Job], rule: str, now: float, width: int, *, low: bool
) -> Lines:
    """Return what is known of an incident; the rule comes as a sentence. Where there are few lines
    (`low`) the summary comes before what was seen."""
    incident = row.incident
    seen, facts = _seen(ink, incident, now, width), _facts(ink, row, jobs, now, width)
    last = labelled(ink, "rule", f"{incident.rule}: {ink.say(rule)}", width, LABEL)
    return [*facts, [], *seen, [], *last] if low else [*seen, [], *facts, *last]


def _seen(ink: Ink, incident: Incident, now: float, width: int) -> Lines:
    lines: Lines = []
    for evidence in incident.evidence:
        when, source = moment(evidence.at, now), fit(ink.say(evidence.source), 8)
        room = max(8, width - len(when) - 11)
        for at, part in enumerate(wrapped(ink.say(evidence.text), room)):
            head = f"{when} {source} " if at == 0 else " " * (len(when) + 10)
            lines.append([(head, ink.muted), (part, ink.text)])
    return lines


def _facts(ink: Ink, row: Row, jobs: Mapping[str, Job], now: float, width: int) -> Lines:
    incident, say = row.incident, ink.say
    state = standing(ink, incident, now) or say("open")
    end = incident.ended_at if incident.ended_at is not None else now
    before = say("never here")
    if incident.times_before:
        dates = ", ".join(_day(at) for at in reversed(incident.before[:3]))
        times = "{n} times, " if incident.times_before > 1 else ""
        before = say(msg(f"{times}on {{dates}}", n=incident.times_before, dates=dates))
    facts = [
        ("for", f"{format_duration(end - incident.since)}, {state}"),
        ("seen before", before),
        ("confidence", f"{say(str(incident.confidence))}: {say(clean(incident.reason))}"),
        ("affected", _jobs_hit(ink, incident, jobs) or row.hit),
    ]
    return [
        line
        for label, words in facts
        if words
        for line in labelled(ink, label, words, width, LABEL)
    ]


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%m-%d")


def _jobs_hit(ink: Ink, incident: Incident, jobs: Mapping[str, Job]) -> str:
    words = []
    for job_id in incident.jobs[:5]:
        job = jobs.get(job_id)
        words.append(
            f"{clean(job.task.name, 40)} ({clean(job.user, 20)}, {ink.say(job.state_word)})"
            if job is not None
            else clean(job_id, 40)
        )
    rest = len(incident.jobs) - len(words)
    return ", ".join(words) + (ink.say(f" and {rest} more") if rest > 0 else "")


def who_is_hit(incident: Incident, jobs: Mapping[str, Job], host: Host | None) -> str:
    """Name the first of the jobs that are hit, or else of the users at work there; count the
    others."""
    names = [clean(jobs[job].task.name, 40) if job in jobs else job for job in incident.jobs]
    if not names and host is not None and incident.ended_at is None:
        devices = [device for device in host.devices if incident.uuid in ("", device.uuid)]
        users = (process.user for device in devices for process in device.processes)
        names = list(dict.fromkeys(clean(user, 40) for user in users if user))
    return names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "") if names else ""


def action_lines(
    ink: Ink, actions: Sequence[Action], chosen: int, width: int, *, read_only: bool, here: bool
) -> Lines:
    """Return the numbered actions, and what would follow from the chosen one. `here` while the
    list has the keys."""
    if not actions:
        return [[(ink.say("It is resolved; there is nothing to do."), ink.muted)]]
    say = ink.say
    lines: Lines = []
    for number, action in enumerate(actions, start=1):
        barred = read_only and action.kind in WRITING
        note = "read-only" if barred else "asks" if action.kind in HARMFUL else ""
        on = here and number - 1 == chosen
        style = ink.rule if barred else ink.strong if on else ink.text
        digit = ink.muted if barred else ink.key
        go = Style() if barred else Style.from_meta({"@click": f"screen.do({number})"})
        lines.append(
            [(ink.glyphs.cursor if on else " ", ink.key), (f"{number} ", digit),
             (fit(say(action.label), max(8, width - 13)), style + go),
             (fit(say(note), 10, "right"), ink.muted)]
        )  # fmt: skip
    lines += [[], [(say(f"preview of {chosen + 1}"), ink.muted)]]
    for sentence in actions[chosen].preview:
        for at, part in enumerate(wrapped(say(sentence), max(8, width - 4))):
            lines.append([("    " if at else f"  {ink.glyphs.dot} ", ink.rule), (part, ink.text)])
    return lines


@dataclass(frozen=True, slots=True)
class Curve:
    """One figure of the device's last minutes. The plot's top is `top`, or its peak."""

    label: str
    series: Series
    words: Callable[[float], str]
    """How the figure is written."""
    top: float | None = None


def plot_lines(ink: Ink, curves: Sequence[Curve], width: int) -> Lines:
    """Return a line a figure: its name, its course, its peak and its current value."""
    lines: Lines = []
    for curve in curves:
        room = max(8, width - 32)
        peak = curve.series.peak
        top = curve.top or (peak[1] if peak else 0.0)
        latest = curve.series.latest
        now = "n/a" if latest is None else curve.words(latest)
        if peak is None:
            words = ink.say("not watched yet")
            lines.append([(fit(ink.say(curve.label), 7), ink.muted), (words, ink.muted)])
            continue
        most = ink.say(f"peak {curve.words(peak[1])}")
        lines.append(
            [(fit(ink.say(curve.label), 7), ink.muted), *_spark(ink, curve.series, room, top),
             (fit(now, 9, "right"), ink.text), (fit(most, 16, "right"), ink.muted)]
        )  # fmt: skip
    return lines


def _spark(ink: Ink, series: Series, width: int, top: float) -> list[Piece]:
    glyphs = ASCII_SPARKS if ink.ascii else SPARKS
    pieces: list[Piece] = []
    for column in downsample(series, width):
        if column is None or top <= 0:
            pieces.append((" ", ink.text))
            continue
        share = max(0.0, min(1.0, column[1] / top))
        level = min(len(glyphs) - 1, int(share * len(glyphs)))
        pieces.append((glyphs[level], ink.heat[min(8, max(2, round(share * 8)))]))
    return pieces


def empty_lines(ink: Ink, picture: Picture, looked_at: float | None, over: int) -> Lines:
    """Say that nothing is wrong, how much was looked at, and when."""
    say = ink.say
    lab = say(_number(len(picture.snapshot.hosts), "host")) + ", "
    lab += say(_number(picture.totals.devices, "device"))
    if looked_at is None:
        words = say(msg("Nothing wrong was seen yet: {lab}.", lab=lab))
    else:
        ago = format_duration(max(0.0, picture.now - looked_at))
        words = say(msg("Nothing is wrong: {lab}, last look {time} ago.", lab=lab, time=ago))
    lines: Lines = [[(words, ink.text if looked_at is None else ink.good)]]
    if over:
        was = say(_number(over, "incident"))
        lines += [[], [(say(f"v shows {was} resolved."), ink.muted)]]
    return lines


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
