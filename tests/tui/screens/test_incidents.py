"""The triage screen: what is wrong, affected, what can be done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from textual.widgets import Button, Input

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.history import Series
from gpuconsole.core.incidents import Evidence, Incident, Severity
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import JournalError
from gpuconsole.tui.app import Look
from gpuconsole.tui.runtime.notifications import notification
from gpuconsole.tui.screens.dialogs.base import ConfirmScreen
from gpuconsole.tui.screens.host import HostScreen
from gpuconsole.tui.screens.incidents import Actions, TriageScreen
from gpuconsole.tui.screens.job import JobScreen
from gpuconsole.tui.widgets.row_list import Rows
from tests.tui.console import SIZES, WIDE, Driven, opened
from tests.tui.fake import NOW, FakeHistory, FakeSession, FakeTriage, incident, job

ESCAPES = "\x1b[31mred\x1b[0m [bold]x[/] \u202egnp.exe 显存 \U0001f680"
RESNET = job("resnet", JobState.RUNNING, 3)
DOWN = incident(
    "unreachable", "v100-02", severity=Severity.CRITICAL, title="host unreachable",
    host="v100-02", uuid="", index=None, since=NOW - 90000, jobs=("ana-0003",),
    before=(NOW - 9e5, NOW - 2e6), times_before=2,
)  # fmt: skip
HOT = incident(jobs=("ana-0003",))
IDLE = incident("idle-memory", "GPU-b0", title="idle, wang holds 642 MiB", uuid="GPU-b0", index=0,
                since=NOW - 2 * 86400)  # fmt: skip
OVER = incident("clock-skew", "a100-01", title="clock +7 s off", uuid="", index=None,
                host="a100-01", since=NOW - 5000, ended_at=NOW - 4000)  # fmt: skip


class Drains:
    """What is drained, and by whom."""

    def __init__(self) -> None:
        self.drained: list[tuple[str, str, str]] = []

    async def drain(self, host: str, reason: str, by: str) -> None:
        self.drained.append((host, reason, by))


def session(*incidents: Incident, jobs: tuple[Job, ...] = (RESNET,), **more: Any) -> FakeSession:
    made = FakeSession(jobs_now=jobs, triage=FakeTriage(incidents, jobs=jobs), **more)
    made.drains = Drains()  # type: ignore[attr-defined]
    return made


def everything(**more: Any) -> FakeSession:
    return session(HOT, DOWN, IDLE, OVER, **more)


def screen(console: Driven) -> TriageScreen:
    found = console.app.screen
    assert isinstance(found, TriageScreen)
    return found


async def triage(console: Driven, *keys: str) -> None:
    await console.press("5")
    await console.until(lambda: isinstance(console.app.screen, TriageScreen))
    await console.press(*keys)


def rows(console: Driven) -> list[str]:
    return [key.partition("@")[0] for key in screen(console).query_one(Rows).keys]


async def test_the_worst_comes_first_with_evidence_and_what_to_do() -> None:
    async with opened(everything()) as console:
        async for size in console.at_sizes(SIZES):
            await triage(console)
            await console.shows("1 critical", "2 warning", "! critical", "host unreachable")
            await console.shows("~ warning", "slowed by heat", "rtx-01 gpu 1", "642 MiB")
            assert rows(console) == ["unreachable:v100-02", "heat:GPU-b1", "idle-memory:GPU-b0"]
            await console.shows("1d01h, open", "2 times, on", "high: the device says so itself",
                                "resnet (ana, running)")  # fmt: skip
            if size == WIDE:
                await console.shows("drain v100-02", "asks", "preview of 1",
                                    "No new job starts on v100-02.", "Held for 15s")  # fmt: skip
            else:
                await console.press("f6")
                await console.shows("drain v100-02", "asks", "copy as a ticket")
            assert all(len(line) == size[0] for line in console.text.splitlines())


@pytest.mark.parametrize("size", SIZES)
async def test_frame_counts_what_is_open_and_what_is_critical(size: tuple[int, int]) -> None:
    made = everything()
    async with opened(made, size) as console:
        await console.shows("5 Triage 3 open!" if size == WIDE else "5 Triage 3!", "1 CRIT")
        made.triage.now = (replace(DOWN, marked="acknowledged", marked_by="ana"), HOT)
        made.time += 1
        await console.beat()
        await console.shows("5 Triage 1 ")
        assert "CRIT" not in console.text


async def test_a_large_terminal_shows_the_host_of_the_incident() -> None:
    async with opened(FakeSession(triage=FakeTriage((incident(),))), (200, 60)) as console:
        await console.press("5")
        await console.shows("slowed by heat", "─ rtx-01 ─", "─ processes ─", "─ events ─")
        await console.pilot.resize_terminal(120, 36)
        await console.until(lambda: "─ processes ─" not in console.text, "no room for it")


@pytest.mark.parametrize("size", SIZES)
async def test_nothing_wrong_says_how_much_was_looked_at(size: tuple[int, int]) -> None:
    made = session(OVER)
    async with opened(made, size) as console:
        await triage(console)
        await console.shows("Nothing is wrong: 4 hosts, 9 devices, last look 2s ago.",
                            "v shows 1 incident resolved.")  # fmt: skip
        made.triage.looked_at = None
        made.time += 1
        await console.beat()
        await console.shows("Nothing wrong was seen yet: 4 hosts, 9 devices.")
        await console.press("x", "1", "escape", "5", "a", "z", "d", "y", "enter")
        assert made.triage.said == []


@pytest.mark.parametrize("size", SIZES)
async def test_the_footer_names_the_key_to_the_last_row(size: tuple[int, int]) -> None:
    async with opened(everything(), size) as console:
        await triage(console)
        await console.shows("a ack", "d dismiss", "end last")
        await console.press("end")
        assert (
            console.app.screen.query_one(Rows).current == screen(console).query_one(Rows).keys[-1]
        )


async def test_v_shows_what_is_resolved_and_hides_it_again() -> None:
    async with opened(everything()) as console:
        await triage(console)
        await console.shows("v shows 1 resolved")
        await console.press("v")
        await console.shows("clock +7 s off", "v hides 1")
        assert rows(console)[-1] == "clock-skew:a100-01"
        await console.press("G")
        await console.shows("It is resolved; there is nothing to do.", "16m40s, resolved")
        await console.press("a")
        await console.toast("is resolved")
        await console.press("v")
        await console.until(lambda: len(rows(console)) == 3)


async def test_acknowledge_snooze_and_no_fault_reach_the_session() -> None:
    made = everything()
    async with opened(made) as console:
        await triage(console, "a")
        await console.toast("host unreachable is acknowledged.")
        await console.press("down", "z")
        await console.toast("slowed by heat is put off for an hour.")
        await console.press("down", "d")
        await console.toast("is closed until it comes back.")
        assert made.triage.said == [
            ("acknowledge", "unreachable:v100-02"),
            ("snooze", "heat:GPU-b1", 3600.0),
            ("resolve", "idle-memory:GPU-b0"),
        ]


async def test_what_was_said_is_seen_and_can_be_taken_back() -> None:
    made = session(
        replace(DOWN, marked="acknowledged", marked_by="bo"),
        replace(HOT, marked="snoozed", marked_by="bo", until=NOW + 601),
        IDLE,
    )
    async with opened(made) as console:
        await triage(console)
        await console.shows("seen by bo", "back in 10m00s")
        assert rows(console)[0] == "idle-memory:GPU-b0", "open ones come before those put off"
        await console.press("down", "a")
        await console.until(lambda: made.triage.said == [("reopen", "unreachable:v100-02")])


async def test_marked_incidents_are_acknowledged_together() -> None:
    made = everything()
    async with opened(made) as console:
        await triage(console, "space", "space")
        await console.shows("2 marked")
        await console.press("a")
        await console.until(lambda: len(made.triage.said) == 2)
        await console.press("space", "escape")
        assert "marked" not in console.text
        assert isinstance(console.app.screen, TriageScreen)


async def test_drain_asks_naming_the_consequence_and_keeps_by_default() -> None:
    made = everything()
    async with opened(made) as console:
        await triage(console, "x", "1")
        assert isinstance(console.app.screen, ConfirmScreen)
        await console.shows("Drain v100-02?", "No new job starts on v100-02.", "No job of this")
        assert isinstance(console.app.focused, Button)
        await console.press("enter")
        assert made.drains.drained == []  # type: ignore[attr-defined]
        # Any answer ends the choosing: digits are screens again.
        await console.until(lambda: isinstance(console.app.focused, Rows))
        await console.press("x", "1", "y")
        await console.toast("v100-02 takes no new jobs.")
        assert made.drains.drained == [("v100-02", "host unreachable", "ana")]  # type: ignore[attr-defined]


async def test_digits_are_screens_until_one_chooses_what_to_do() -> None:
    made = everything()
    async with opened(made) as console:
        await triage(console, "down")
        await console.press("1")
        assert console.app.current_mode == "fleet"
        await console.press("5", "x")
        await console.until(lambda: isinstance(console.app.focused, Actions))
        await console.shows("1-9 do one", "esc list")
        await console.press("2")
        await console.shows("Cancel resnet?", "SIGTERM", "It keeps no checkpoints")
        await console.press("y")
        await console.until(lambda: made.named("cancel") == [("cancel", "ana-0003")])
        await console.until(lambda: isinstance(console.app.focused, Rows))
        assert "1-9 do one" not in console.text
        await console.press("x")
        await console.shows("esc list")
        await console.press("escape")
        await console.until(lambda: isinstance(console.app.focused, Rows))
        await console.until(lambda: "esc list" not in console.text)


async def test_a_job_with_checkpoints_is_moved_and_a_failed_one_tried_again() -> None:
    saving = replace(RESNET, task=replace(RESNET.task, checkpoint_dir="ckpt"))
    made = session(HOT, jobs=(saving,))
    async with opened(made) as console:
        await triage(console, "x", "2", "y")
        await console.until(lambda: made.named("preempt") == [("preempt", "ana-0003")])
    made = session(HOT, jobs=(replace(RESNET, state=JobState.FAILED),))
    async with opened(made) as console:
        await triage(console, "x", "2")
        await console.until(lambda: made.named("retry") == [("retry", "ana-0003")])


class Processes:
    """What is asked to end."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def signal(self, host: str, pid: int, signal: str) -> None:
        self.asked.append((host, pid, signal))

    async def stop_container(self, host: str, container: str) -> None:
        self.asked.append((host, container))


async def test_a_forgotten_process_is_ended_once_that_was_said_yes_to() -> None:
    made = session(IDLE)
    made.processes = Processes()  # type: ignore[attr-defined]
    holders = (DeviceProcess(4711, "wang", 642.0, "ipykernel"),
               DeviceProcess(5, "li", 300.0, "serve", "d" * 64))  # fmt: skip
    rtx = made.triage.hosts[1]
    first = replace(rtx.devices[0], processes=holders)
    made.triage.hosts = (replace(rtx, devices=(first, *rtx.devices[1:])),)
    async with opened(made) as console:
        await triage(console, "x", "1")
        await console.shows("End pid 4711, wang?", "642 MiB", "SIGTERM")
        await console.press("n", "x", "1", "y")
        await console.toast("SIGTERM was sent to process 4711.")
        await console.press("x", "2", "y")
        await console.until(lambda: len(made.processes.asked) == 2)  # type: ignore[attr-defined]
        assert made.processes.asked == [("rtx-01", 4711, "TERM"), ("rtx-01", "d" * 64)]  # type: ignore[attr-defined]


async def test_arrows_look_at_what_would_follow_and_enter_does_it() -> None:
    made = everything()
    async with opened(made) as console:
        await triage(console, "x", "up", "down", "down", "down", "down")
        await console.shows("preview of 5", "Out of the way for an hour")
        await console.press("enter")
        await console.until(lambda: made.triage.said == [("snooze", "unreachable:v100-02", 3600.0)])
        await console.press("x", "down", "down", "down", "enter")
        await console.until(lambda: made.triage.said[1:] == [("resolve", "unreachable:v100-02")])
        await console.press("9")
        assert isinstance(console.app.screen, TriageScreen)


async def test_from_an_incident_to_its_host_its_job_and_a_ticket() -> None:
    async with opened(everything()) as console:
        await triage(console, "down", "enter")
        await console.until(lambda: isinstance(console.app.screen, HostScreen))
        await console.shows("rtx-01 > gpu 1")
        await console.press("escape", "x", "3")
        assert isinstance(console.app.screen, HostScreen)
        await console.press("escape", "x", "5")
        assert "slowed by heat on rtx-01 gpu 1" in console.app.clipboard
        console.app.copy_to_clipboard("")
        await console.press("y")
        assert "confidence high" in console.app.clipboard
        await console.press("x", "4")
        await console.until(lambda: isinstance(console.app.screen, JobScreen))


async def test_a_click_on_an_action_does_it() -> None:
    made = everything()
    async with opened(made) as console:
        await triage(console)
        await console.shows("5 snooze")
        lines = console.text.splitlines()
        y = next(at for at, line in enumerate(lines) if "5 snooze" in line)
        await console.pilot.click(offset=(lines[y].index("snooze 1h"), y))
        await console.until(lambda: made.triage.said == [("snooze", "unreachable:v100-02", 3600.0)])


async def test_filter_narrows_and_esc_clears() -> None:
    async with opened(everything()) as console:
        await triage(console, "slash")
        await console.type("severity:warning heat")
        await console.shows("1 incident matches")
        assert rows(console) == ["heat:GPU-b1"]
        await console.type("zzz")
        await console.shows("No incidents match `severity:warning heatzzz`.")
        console.app.screen.query_one(Input).value = "job:ana|bo !host:rtx-01"
        await console.until(lambda: rows(console) == ["unreachable:v100-02"])
        await console.press("enter", "escape")
        await console.until(lambda: len(rows(console)) == 3)


async def test_read_only_takes_the_verbs_away_and_leaves_the_looking() -> None:
    made = everything(read_only=True)
    async with opened(made) as console:
        await triage(console, "a", "s", "r")
        await console.shows("read-only")
        for digit in ("1", "4", "5", "6"):
            await console.press("x", digit)
            assert isinstance(console.app.screen, TriageScreen)
        await console.toast("Read-only: drain v100-02 was not done.")
        assert made.triage.said == []
        assert made.drains.drained == []  # type: ignore[attr-defined]
        await console.press("x", "2")
        assert isinstance(console.app.screen, HostScreen)


async def test_an_error_of_the_journal_is_told() -> None:
    made = everything()
    made.triage.error = JournalError("Disk is full", "Nothing could be added.")
    async with opened(made) as console:
        await triage(console, "a")
        await console.toast("Nothing could be added.")


async def test_the_cursor_stays_on_its_incident_when_a_worse_one_comes() -> None:
    made = session(HOT, IDLE)
    async with opened(made) as console:
        await triage(console, "down")
        await console.shows("rtx-01 gpu 0")
        made.triage.now = (HOT, IDLE, DOWN)
        made.time += 1
        await console.beat()
        await console.shows("host unreachable")
        assert screen(console).query_one(Rows).current == "idle-memory:GPU-b0"


class Watched(FakeHistory):
    """A device that grew warm."""

    def device(self, uuid: str, metric: str, span_s: float) -> Series:
        times = tuple(NOW - span_s + step * span_s / 60 for step in range(60))
        values = tuple(float(40 + step) for step in range(60))
        return Series(NOW - span_s, NOW, times, values, values, values, (span_s / 60,) * 60)


@pytest.mark.parametrize("symbols", ["block", "ascii"])
async def test_the_devices_last_minutes_are_drawn_where_it_was_watched(symbols: Any) -> None:
    made = everything()
    made.history = Watched()
    async with opened(made, look=Look(symbols=symbols)) as console:
        await triage(console)
        assert "last " not in console.text.splitlines()[-6]
        await console.press("down")
        await console.shows("rtx-01 gpu 1, last 30m00s", "99 C", "peak 99 C")
        line = next(line for line in console.text.splitlines() if "temp" in line)
        assert ("▄" in line) is (symbols == "block")
        assert ("*" in line) is (symbols == "ascii")
    async with opened(everything()) as console:
        await triage(console, "down")
        await console.shows("not watched yet")


# --- hostile, plain, colourless -----------------------------------------------------------------


def hostile() -> FakeSession:
    wild = incident(
        "idle-memory", f"GPU-{ESCAPES}", title=ESCAPES, host="rtx-01", reason=ESCAPES,
        evidence=tuple(Evidence(NOW - at, ESCAPES, ESCAPES * 6) for at in range(9)),
        jobs=("ana-0003", "gone-1"), severity=Severity.INFO, marked="acknowledged",
        marked_by=ESCAPES,
    )  # fmt: skip
    unknown = replace(wild, rule="of-old", marked="", subject="x" * 400)
    bad = replace(RESNET, task=replace(RESNET.task, name=ESCAPES), user=ESCAPES)
    return session(wild, unknown, jobs=(bad,))


@pytest.mark.parametrize("size", [*SIZES, (200, 60), (60, 16)])
async def test_hostile_words_keep_their_place(size: tuple[int, int]) -> None:
    async with opened(hostile(), size) as console:
        await triage(console, "down", "x")
        await console.shows("i info")
        for keys in ((), ("escape", "up"), ("f6",), ("z",)):
            await console.press(*keys)
            text = console.text
            assert "\x1b" not in text
            assert "\u202e" not in text
        await console.shows("[bold]x[/]")


async def test_ascii_shows_no_other_drawing() -> None:
    async with opened(everything(), look=Look(symbols="ascii")) as console:
        async for _ in console.at_sizes(SIZES):
            await triage(console, "down", "x")
            await console.shows("! critical", "~ warning")
            assert console.text.isascii()


async def test_without_colour_words_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(everything()) as console:
        await triage(console)
        await console.shows("! critical", "~ warning", "5 Triage 3 open!", "1 CRIT")


async def test_another_theme_draws_everything_again() -> None:
    async with opened(everything()) as console:
        await triage(console)
        for theme in ("day", "contrast", "mono"):
            console.app.theme = theme
            await console.pilot.pause()
            await console.shows("host unreachable", "preview of 1")


# --- the bell -----------------------------------------------------------------------------------

NEWS = Event("incident", "rtx-01", "rtx-01 gpu 1: slowed by heat", NOW, "warning")


@pytest.mark.parametrize(
    ("bell", "severity", "rings"),
    [("", "error", 0), ("critical", "warning", 0), ("critical", "error", 1),
     ("warning", "warning", 1), ("warning", "information", 0), ("info", "information", 1)],
)  # fmt: skip
async def test_a_new_incident_rings_where_that_was_asked_for(
    bell: str, severity: Any, rings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = session()
    async with opened(made, look=Look(bell=bell)) as console:
        written: list[str] = []
        monkeypatch.setattr(console.app._driver, "write", written.append)
        rung: list[bool] = []
        monkeypatch.setattr(console.app, "bell", lambda: rung.append(True))
        for listener in made.listeners:
            listener(replace(NEWS, severity=severity))
        await console.toast("slowed by heat")
        assert len(rung) == rings
        assert len([each for each in written if each.startswith("\x1b]")]) == rings


def test_a_notification_cannot_be_ended_by_what_it_says() -> None:
    wild = "a\x07b\x1b\\c;d\nx"
    for environ, start in (({}, "\x1b]9;gpuconsole: "), ({"VTE_VERSION": "6003"}, "\x1b]777;"),
                           ({"TERM": "rxvt-unicode"}, "\x1b]777;notify;gpuconsole;")):  # fmt: skip
        sequence = notification("gpuconsole", wild, environ)
        assert sequence.startswith(start)
        assert sequence.count("\x07") == 1
        assert sequence.endswith("\x07")
        assert sequence.count("\x1b") == 1
        assert sequence.count(";") == (1 if start.startswith("\x1b]9") else 3)
