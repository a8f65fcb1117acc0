"""Every key of the console, once: bindings, footer, help, palette and docs/keys.md come from here.

An id is `area.verb`; the area names the screen (or widget) that carries the binding. This module
must not import Textual, so that the documentation can be made without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One thing a person can press."""

    id: str
    keys: str
    """Textual's names, separated by commas."""
    action: str
    label: str
    """What the footer says."""
    help: str
    """What the help screen and the documentation say."""
    footer: bool = False
    pair: str = ""
    """What the footer shows instead of the first key, where one entry stands for several."""
    writes: bool = False
    """Changes something outside the console; absent in read-only mode."""

    @property
    def area(self) -> str:
        """The screen or widget that carries the binding."""
        return self.id.partition(".")[0]

    @property
    def shown(self) -> str:
        """The keys as a person reads them."""
        return " ".join(_SHOWN.get(key, key) for key in self.keys.split(","))

    @property
    def short(self) -> str:
        """The first of the keys, for the footer."""
        return self.pair or _SHOWN.get(self.keys.split(",")[0], self.keys.split(",")[0])


_SHOWN = {
    "colon": ":",
    "slash": "/",
    "question_mark": "?",
    "plus": "+",
    "ampersand": "&",
    "minus": "-",
    "equals_sign": "=",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "comma": ",",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "at": "@",
    "asterisk": "*",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}

AREAS = {
    "app": "Anywhere",
    "go": "On every screen but a form",
    "time": "Looking back, on every screen but a form",
    "fleet": "Fleet",
    "map": "Moving on the map",
    "host": "Host",
    "device": "Device",
    "queue": "Queue",
    "table": "Moving in a list",
    "submit": "Submit",
    "form": "In the form",
    "triage": "Triage",
    "actions": "Choosing what to do",
    "job": "Job",
    "log": "Moving in the log",
    "filter": "While typing a filter or search",
    "dialog": "In a dialog",
    "again": "Asked how to try again",
    "palette": "In the command palette",
    "messages": "In the list of messages",
    "jump": "While letters stand at the places",
    "help": "Help",
}

KEYS: tuple[Key, ...] = (
    Key("app.palette", "ctrl+p", "app.command_palette", "command", "Find a command, host or job"),
    Key("app.jump", "ctrl+o", "app.jump", "jump", "Put a letter at every place, to go there by it"),
    Key("app.quit", "ctrl+q", "app.quit", "quit", "Leave the console; jobs run on"),
    Key("app.read_only", "f9", "app.toggle_read_only", "read-only", "Switch read-only on or off"),
    Key("go.fleet", "1", "app.go('fleet')", "fleet", "Go to the fleet"),
    Key("go.queue", "2", "app.go('queue')", "queue", "Go to the queue"),
    Key("go.job", "3", "app.go('job')", "job", "Go to the job last looked at"),
    Key("go.submit", "4", "app.go('submit')", "submit", "Go to the submit form", writes=True),
    Key("go.triage", "5", "app.go('triage')", "triage", "Go to what is wrong"),
    Key("go.command", "colon", "app.command_palette", "command", "Find a command, host or job"),
    Key("go.help", "question_mark,f1", "app.help", "help", "Show the keys of this screen"),
    Key("go.last", "backspace", "app.last", "last", "Go to the screen one was on last"),
    Key("go.expand", "ctrl+e", "app.expand", "expand",
        "Show what has the focus on the whole screen, or all again"),
    Key("go.back", "escape", "back", "back", "Go back; never leaves the console"),
    Key(
        "go.pause",
        "p",
        "app.pause",
        "pause",
        "Freeze the picture, or in the past let time pass; collecting goes on",
    ),
    Key("go.quit", "q", "app.quit", "quit", "Leave the console; jobs run on"),
    Key(
        "time.back",
        "comma",
        "app.time_step(-10)",
        "10s",
        "Look at 10 seconds before",
        footer=True,
        pair=", .",
    ),
    Key("time.forward", "full_stop", "app.time_step(10)", "10s on", "Look at 10 seconds later"),
    Key(
        "time.far_back",
        "less_than_sign",
        "app.time_step(-300)",
        "5m",
        "Look at 5 minutes before",
        footer=True,
        pair="< >",
    ),
    Key(
        "time.far_forward",
        "greater_than_sign",
        "app.time_step(300)",
        "5m on",
        "Look at 5 minutes later",
    ),
    Key(
        "time.at", "at", "app.time_at", "time", "Look at a time, such as 03:00 or -2h", footer=True
    ),
    Key("time.now", "0", "app.time_now", "now", "Back to now, or to a file's end", footer=True),
    Key(
        "time.speed",
        "asterisk",
        "app.time_speed",
        "speed",
        "Let time pass from here, or faster",
        footer=True,
    ),
    Key("fleet.open", "enter", "open", "open", "Open the host under the cursor", footer=True),
    Key("fleet.filter", "slash", "filter", "filter", "Show only what matches", footer=True),
    Key("fleet.metric", "m", "metric", "metric", "Show the next metric", footer=True),
    Key("fleet.denser", "minus", "density(-1)", "less", "Show less of each host"),
    Key(
        "fleet.looser",
        "plus,equals_sign",
        "density(1)",
        "density",
        "Show more of each host",
        footer=True,
        pair="+/-",
    ),
    Key(
        "fleet.inspector", "i", "inspector", "inspector", "Show or hide the inspector", footer=True
    ),
    Key(
        "fleet.faults",
        "f",
        "faults",
        "faults",
        "Show only hosts in trouble, or all again",
        footer=True,
    ),
    Key("fleet.where", "w", "where", "where fits", "Ask where 4x24 GiB fit now", footer=True),
    Key("fleet.group", "b", "group", "group", "Group by the next label, by model, or not"),
    Key("fleet.order", "o", "order", "sort", "Sort by name, load, free devices or trouble"),
    Key(
        "fleet.submit", "s", "app.go('submit')", "submit", "Submit a job", footer=True, writes=True
    ),
    Key("fleet.copy", "y", "copy", "copy", "Copy the host's name"),
    Key("map.up", "up,k", "move(0,-1)", "up", "One up"),
    Key("map.down", "down,j", "move(0,1)", "down", "One down"),
    Key("map.left", "left,h", "move(-1,0)", "left", "One to the left"),
    Key("map.right", "right,l", "move(1,0)", "right", "One to the right"),
    Key("map.page_up", "pageup,ctrl+u", "page(-1)", "page up", "A page up"),
    Key("map.page_down", "pagedown,ctrl+d", "page(1)", "page down", "A page down"),
    Key("map.first", "g,home", "edge(-1)", "first", "To the first"),
    Key("map.last", "G,end", "edge(1)", "last", "To the last"),
    Key("table.up", "up,k", "move(-1)", "up", "One up"),
    Key("table.down", "down,j", "move(1)", "down", "One down"),
    Key("table.page_up", "pageup,ctrl+u", "page(-1)", "page up", "A page up"),
    Key("table.page_down", "pagedown,ctrl+d", "page(1)", "page down", "A page down"),
    Key("table.first", "g,home", "edge(-1)", "first", "To the first"),
    Key("table.last", "G,end", "edge(1)", "last", "To the last"),
    Key("table.mark", "space", "mark", "mark", "Mark the row, for a verb on many"),
    Key("table.mark_all", "A", "mark_all", "mark all", "Mark all rows shown, or none"),
    Key(
        "host.previous",
        "left_square_bracket",
        "sibling(-1)",
        "previous",
        "The host before",
    ),
    Key(
        "host.next",
        "right_square_bracket",
        "sibling(1)",
        "host",
        "The host after",
        footer=True,
        pair="[ ]",
    ),
    Key("host.open", "enter", "open", "open", "Open the device under the cursor", footer=True),
    Key("host.job", "J", "job", "job", "Open the job that owns the device", footer=True),
    Key("host.pane", "f6", "pane", "pane", "Processes, topology or history", footer=True),
    Key("host.copy", "y", "copy", "copy uuid", "Copy the device's UUID", footer=True),
    Key("device.previous", "left_square_bracket", "sibling(-1)", "previous", "The device before"),
    Key(
        "device.next",
        "right_square_bracket",
        "sibling(1)",
        "device",
        "The device after",
        footer=True,
        pair="[ ]",
    ),
    Key("device.span", "t", "span", "span", "Show 5 minutes, an hour or 4 hours", footer=True),
    Key("device.metric", "m", "metric", "metric", "Give the next figure all the room", footer=True),
    Key("device.job", "J", "job", "job", "Open the job that owns the device", footer=True),
    Key(
        "device.signal",
        "K",
        "signal",
        "signal",
        "Signal the process under the cursor (asks)",
        footer=True,
        writes=True,
    ),
    Key(
        "device.stop",
        "x",
        "stop",
        "stop",
        "Stop the container of the process (asks)",
        footer=True,
        writes=True,
    ),
    Key("device.copy", "y", "copy", "copy", "Copy the device's UUID"),
    Key("queue.open", "enter", "open", "open", "Open the job", footer=True),
    Key(
        "queue.submit", "s", "app.go('submit')", "submit", "Submit a job", footer=True, writes=True
    ),
    Key("queue.cancel", "c", "cancel", "cancel", "Cancel the job (asks)", footer=True, writes=True),
    Key(
        "queue.hold",
        "H",
        "hold",
        "hold",
        "Hold the job, or let a held one go",
        footer=True,
        writes=True,
    ),
    Key(
        "queue.preempt",
        "x",
        "preempt",
        "preempt",
        "Stop the job; it goes on from its checkpoint later (asks)",
        writes=True,
    ),
    Key(
        "queue.sooner",
        "K",
        "reorder(-1)",
        "sooner",
        "Bring the job before the one above it",
        writes=True,
    ),
    Key(
        "queue.later",
        "J",
        "reorder(1)",
        "later",
        "Put the job behind the one below it",
        writes=True,
    ),
    Key("queue.sort", "o", "sort", "sort", "Show the jobs in the next order"),
    Key("queue.retry", "r", "retry", "retry", "Queue an ended job again", footer=True, writes=True),
    Key(
        "queue.priority",
        "P",
        "priority",
        "priority",
        "Change the job's priority",
        footer=True,
        writes=True,
    ),
    Key(
        "queue.why", "w", "why", "why", "Show or hide why the job stands where it does", footer=True
    ),
    Key(
        "queue.what_if",
        "i",
        "what_if",
        "what if",
        "Ask when jobs would start if a host went, devices came or a priority rose",
        footer=True,
    ),
    Key("queue.filter", "slash", "filter", "filter", "Show only what matches", footer=True),
    Key("queue.copy", "y", "copy", "copy", "Copy the job's id"),
    Key(
        "submit.send", "ctrl+j,ctrl+s", "send", "submit", "Submit the job", footer=True, writes=True
    ),
    Key(
        "submit.first",
        "f2",
        "apply(0)",
        "apply",
        "Apply the first suggestion",
        footer=True,
        pair="F2-F4",
    ),
    Key("submit.second", "f3", "apply(1)", "apply 2nd", "Apply the second suggestion"),
    Key("submit.third", "f4", "apply(2)", "apply 3rd", "Apply the third suggestion"),
    Key("submit.rerun", "f5", "rerun", "rerun", "Estimate again", footer=True),
    Key("submit.answer", "f7", "answer", "answer", "Answer what preflight asks", footer=True),
    Key(
        "submit.measure",
        "f8",
        "measure",
        "measure",
        "Measure with real Paddle in a sandbox; again to cancel",
        footer=True,
        writes=True,
    ),
    Key(
        "submit.pane",
        "f6",
        "pane",
        "pane",
        "Form, preflight or placement (narrow terminals)",
        footer=True,
    ),
    Key("submit.up", "pageup", "scroll_report(-1)", "report up", "Scroll the report up"),
    Key("submit.down", "pagedown", "scroll_report(1)", "report down", "Scroll the report down"),
    Key(
        "submit.pick", "ctrl+l", "pick", "find script", "Choose the script from a tree", footer=True
    ),
    Key("submit.recall", "ctrl+r", "recall(1)", "recall", "Fill the form as once before"),
    Key("submit.command", "f10", "app.command_palette", "command", "Find a command, host or job"),
    Key("submit.copy", "ctrl+y", "copy", "copy", "Copy the equal docker command"),
    Key("submit.help", "f1", "app.help", "help", "Show the keys of this screen"),
    Key("submit.back", "escape", "back", "back", "Go back; the draft stays", footer=True),
    Key("form.next", "down,enter", "next", "next field", "The next field"),
    Key("form.previous", "up", "previous", "previous field", "The field before; first recalls"),
    Key("triage.open", "enter", "open", "open", "Open the host, at the device", footer=True),
    Key(
        "triage.actions",
        "x",
        "actions",
        "do",
        "Choose what to do: then a number, or the arrows and enter",
        footer=True,
    ),
    Key(
        "triage.acknowledge",
        "a",
        "acknowledge",
        "seen",
        "Say that it has been seen; again, or of one put off: open it again",
        footer=True,
        writes=True,
    ),
    Key(
        "triage.snooze", "s", "snooze", "snooze", "Put it off for an hour", footer=True, writes=True
    ),
    Key(
        "triage.resolve",
        "r",
        "resolve",
        "no fault",
        "Close it until it goes and comes back",
        footer=True,
        writes=True,
    ),
    Key("triage.resolved", "z", "resolved", "over", "Show what is over, or hide it", footer=True),
    Key("triage.filter", "slash", "filter", "filter", "Show only what matches", footer=True),
    Key("triage.copy", "y", "copy", "ticket", "Copy what is known as a ticket", footer=True),
    Key("triage.pane", "f6", "pane", "pane", "Evidence or actions (narrow terminals)"),
    Key("actions.up", "up,k", "move(-1)", "up", "The action before"),
    Key("actions.down", "down,j", "move(1)", "down", "The action after"),
    Key("actions.do", "enter", "do(0)", "do", "Do the action (asks where it could do harm)"),
    *(
        Key(f"actions.{number}", str(number), f"do({number})", str(number), f"Do action {number}")
        for number in range(1, 10)
    ),
    Key("actions.leave", "escape,x", "leave", "leave", "Back to the list"),
    Key("job.follow", "f", "log('follow')", "follow", "Follow the log, or stop", footer=True),
    Key("job.search", "slash", "search", "search", "Search the log", footer=True),
    Key("job.next", "n", "log('next')", "match", "Next match", footer=True, pair="n/N"),
    Key("job.previous", "N", "log('previous')", "previous", "Previous match"),
    Key("job.only", "ampersand", "log('only')", "only", "Show only the lines that match, or all",
        footer=True),
    Key("job.wrap", "w", "log('wrap')", "wrap", "Wrap long lines, or cut them", footer=True),
    Key("job.rank", "R", "rank", "rank", "The log of the next rank; after the last all merged",
        footer=True),
    Key("job.attempt", "a", "attempt", "attempt", "The log of the attempt before", footer=True),
    Key("job.go_to", "t", "go_to", "go to", "Go to a line, a share or a time of the log"),
    Key("job.save", "S", "save", "save log", "Save the whole log to a file"),
    Key("job.fetch", "F", "fetch", "fetch", "Fetch the job's results", footer=True),
    Key("job.cancel", "c", "cancel", "cancel", "Cancel the job (asks)", footer=True, writes=True),
    Key("job.retry", "r", "retry", "retry",
        "Queue the ended job again; after running out of memory with what should fit",
        footer=True, writes=True),
    Key("job.facts", "i", "facts", "facts", "Show or hide the facts beside the log"),
    Key("job.copy_line", "y", "copy_line", "copy line", "Copy the line one stands on"),
    Key("job.copy", "Y", "copy", "copy docker", "Copy the equal docker command"),
    Key("job.facts_down", "J", "scroll_facts(3)", "facts down", "Scroll the facts down"),
    Key("job.facts_up", "K", "scroll_facts(-3)", "facts up", "Scroll the facts up"),
    Key("job.older", "left_square_bracket", "sibling(-1)", "older", "The job before"),
    Key("job.newer", "right_square_bracket", "sibling(1)", "newer", "The job after"),
    Key("log.up", "up,k", "scroll_by(-1)", "up", "One line up"),
    Key("log.down", "down,j", "scroll_by(1)", "down", "One line down"),
    Key("log.page_up", "pageup,ctrl+u", "page(-1)", "page up", "A page up"),
    Key("log.page_down", "pagedown,ctrl+d", "page(1)", "page down", "A page down"),
    Key("log.left", "left,h", "sideways(-1)", "left", "To the left, where lines are cut"),
    Key("log.right", "right,l", "sideways(1)", "right", "To the right, where lines are cut"),
    Key("log.first", "g,home", "edge(-1)", "first", "To the first line"),
    Key("log.last", "G,end", "edge(1)", "last", "To the last line, and follow"),
    Key("filter.leave", "escape", "leave", "clear", "Clear, then leave"),
    Key("dialog.yes", "y", "yes", "yes", "Do it"),
    Key("dialog.no", "n,escape", "no", "no", "Leave everything as it is"),
    Key("palette.up", "up", "move(-1)", "up", "The line before"),
    Key("palette.down", "down", "move(1)", "down", "The line after"),
    Key("palette.page_up", "pageup", "page(-1)", "page up", "A page up"),
    Key("palette.page_down", "pagedown", "page(1)", "page down", "A page down"),
    Key("palette.do", "enter", "do", "do", "Do it, or go there"),
    Key("palette.leave", "escape,ctrl+p", "leave", "leave", "Close the palette"),
    Key("jump.leave", "escape,ctrl+o", "leave", "leave", "Stay where one is"),
    Key("messages.copy", "y", "copy", "copy", "Copy all messages"),
    Key("messages.close", "escape,q", "close", "close", "Close the list"),
    Key("again.offered", "y", "answer('offered')", "yes", "Again with what is offered"),
    Key("again.same", "s", "answer('same')", "same", "Again as it was"),
    Key("again.leave", "n,escape", "answer('')", "no", "Leave it"),
    Key("help.close", "escape,q,question_mark,f1", "close", "close", "Close the help"),
)


def in_area(*areas: str) -> Iterator[Key]:
    """Give the keys of these areas, in the registry's order."""
    return (key for area in areas for key in KEYS if key.area == area)


def markdown() -> str:
    """Return the text of docs/keys.md."""
    lines = [
        "# Keys",
        "",
        "Made from `gpuconsole/tui/keys.py` by `python -m gpuconsole.tui.keys > docs/keys.md`.",
        "Keys marked * change something and are absent in read-only mode.",
        "",
        "Any key can be changed by its id in `config.yaml`, several with commas between them:",
        "`keys: {fleet.filter: ctrl+f}`. A wrong id or key is told with the nearest, and so are",
        "two things under one key.",
    ]
    for area, title in AREAS.items():
        lines += ["", f"## {title}", "", "| key | does | id |", "| --- | --- | --- |"]
        for key in in_area(area):
            mark = " *" if key.writes else ""
            shown = " ".join(f"`{part}`" for part in key.shown.split(" "))
            lines.append(f"| {shown} | {key.help}{mark} | `{key.id}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
