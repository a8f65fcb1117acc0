"""The app: palette, themes, events, opening and closing the session, the import cost."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.events import Key
from textual.widgets import Input

from gpuconsole.core.devices.health_levels import LEVELS
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import JobState
from gpuconsole.errors import DocumentError, JournalError
from gpuconsole.tui import app as app_module
from gpuconsole.tui.app import ConsoleApp, Look
from gpuconsole.tui.palette.screen import Palette
from gpuconsole.tui.render.frame import status_line
from gpuconsole.tui.screens.host import HostScreen
from gpuconsole.tui.snapshot import Gallery
from gpuconsole.tui.style.themes import BUILT_IN, Wardrobe, load, shipped_folder
from tests.tui.console import SIZES, Driven, opened
from tests.tui.fake import NOW, FakeSession, job

JOBS = (job("resnet", JobState.RUNNING, 1), job("[b]evil[/b]", JobState.QUEUED, 2, attempts=()))


async def test_a_large_fleet_is_summed_up_a_few_hosts_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app_module, "LARGE_FLEET", 3)
    monkeypatch.setattr(app_module, "AT_ONCE", 1)
    looked: list[list[str]] = []
    look_ahead = Gallery.look_ahead

    def noted(gallery: Gallery, hosts: Sequence[Host], first: int = 0) -> None:
        looked.append([host.name for host in hosts])
        look_ahead(gallery, hosts, first)
        asyncio.get_running_loop().call_soon(looked.append, ["others"])

    monkeypatch.setattr(Gallery, "look_ahead", noted)
    session = FakeSession()
    async with opened(session) as console:
        host = session.hosts_now[0]
        session.change(replace(host, devices=host.devices[:1]))
        await console.until(lambda: console.app.picture.of_host(host).devices == 1)
        assert {name for names in looked[::2] for name in names} == {
            one.name for one in session.hosts_now
        }
        assert all(len(names) == 1 for names in looked)
        assert looked[1::2] == [["others"]] * (len(looked) // 2), "between any two of them"
        console.app.paused = True
        await console.beats(1)
        before = len(looked)
        session.change(host)
        await console.beats(4)
        assert len(looked) == before, "nothing is summed up for a picture that does not change"


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_two_keys_open_the_palette(key: str) -> None:
    async with opened(FakeSession(jobs_now=JOBS)) as console:
        await console.press(key)
        await console.until(lambda: isinstance(console.app.screen, Palette))
        await console.shows("Show the next metric", "Go to the queue")


async def test_the_palette_has_no_writing_commands_in_read_only() -> None:
    async with opened(FakeSession(jobs_now=JOBS, read_only=True)) as console:
        await console.press("2", "colon")
        await console.shows("Open the job")
        assert "Cancel the job" not in console.text


async def test_events_become_toasts_but_ordinary_steps_do_not() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        tell = session.listeners[0]
        tell(Event("job", "ana-0001", "resnet: running", NOW))
        tell(Event("host", "v100-02", "[b]lost[/b]", NOW, "warning"))
        await console.shows("v100-02: [b]lost[/b]")
        assert "resnet: running" not in console.text
        session.jobs_now = (replace(JOBS[0], state=JobState.OOM), JOBS[1])
        tell(Event("job", "ana-0001", "resnet: out of memory", NOW, "error"))
        await console.shows("resnet: out of memory")


async def test_events_of_one_moment_are_painted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        forced: list[bool] = []
        paint = console.app.paint

        def counting(*, force: bool = False) -> None:
            forced.extend([True] * force)
            paint(force=force)

        monkeypatch.setattr(console.app, "paint", counting)
        for _ in range(50):
            session.listeners[0](Event("job", "ana-0001", "resnet: running", NOW))
        await console.until(lambda: forced)
        await console.pilot.pause()
        assert forced == [True]


async def test_the_session_is_opened_after_the_first_paint() -> None:
    session = FakeSession()
    app = ConsoleApp(session)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await Driven(app, pilot).until(lambda: app.opened, "the session is open")
        assert session.calls[0] == ("enter",)


async def test_a_session_that_cannot_open_ends_the_console_with_its_message() -> None:
    class Broken(FakeSession):
        async def __aenter__(self) -> FakeSession:
            raise JournalError("State folder", "/state [x] is full.", "Make room.")

    app = ConsoleApp(Broken())  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await Driven(app, pilot).until(lambda: app.return_code is not None, "the end")
    assert app.return_code == 2


async def test_quit() -> None:
    for key in ("q", "ctrl+q"):
        app = ConsoleApp(FakeSession(), opened=True)  # type: ignore[arg-type]
        async with app.run_test() as pilot:
            await pilot.press(key)
        assert app.return_code == 0


def test_a_lost_journal_and_a_lab_queue_that_is_away_stand_in_the_status_line() -> None:
    session = FakeSession(lost=JournalError("Journal is gone", "It was there."))
    app = ConsoleApp(session)  # type: ignore[arg-type]
    picture = Gallery().picture(session.snapshot(), session.jobs(), session.now())
    line = status_line(app.ink, picture, app.marks(), 120)
    assert " JOURNAL LOST " in [words for words, _ in line]
    session.lost, session.away = None, "head-01 does not answer"
    line = status_line(app.ink, picture, app.marks(), 120)
    assert " LAB QUEUE AWAY " in [words for words, _ in line]
    session.away = ""
    line = status_line(app.ink, picture, app.marks(), 120)
    assert not {" JOURNAL LOST ", " LAB QUEUE AWAY "} & {words for words, _ in line}


def test_a_theme_that_others_could_have_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert load(path).name == "night"
    path.chmod(0o666)
    with pytest.raises(DocumentError, match="is writable by everybody"):
        load(path)


# -- themes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", sorted(shipped_folder().glob("*.yaml")), ids=lambda path: path.stem
)
async def test_every_shipped_theme_draws_every_screen(path: Path) -> None:
    theme = load(path)
    assert theme.name == path.stem
    assert len(theme.heat) == LEVELS
    async with opened(FakeSession(jobs_now=JOBS), look=Look(theme=theme.name)) as console:
        assert console.app.theme == theme.name
        for key in ("2", "3", "4"):
            await console.press(key)
        await console.shows("submit")


@pytest.mark.parametrize(
    "path", sorted(shipped_folder().glob("*.yaml")), ids=lambda path: path.stem
)
def test_ramps_change_lightness_in_one_direction(path: Path) -> None:
    from textual.color import Color

    theme = load(path)
    light = [Color.parse(color).brightness for color in theme.heat]
    assert light == sorted(light, reverse=not theme.dark)
    assert len(set(light)) == LEVELS


GOOD = (shipped_folder() / "night.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: [", "bad.yaml:2:1: not valid YAML"),
        ("- 1\n", "bad.yaml:1:1: expected keys and values, found a list"),
        (GOOD.replace("dark: true", "dark: maybe"), "bad.yaml:3:7: `dark`: expected true or false"),
        (GOOD.replace("#7aa2d6", "bluish"), "bad.yaml:5:12: `colors.primary`: expected a colour"),
        (GOOD.replace("primary:", "prymary:"), "bad.yaml:5:3: `prymary` is not a known key; did"),
        (GOOD.replace("  stale: ", "  stele: "), "bad.yaml:22:3: `stele` is not a known key; did"),
        (GOOD.replace('"#293042", ', ""), "`heat`: needs 9 colours, idle to full; here are 8"),
        (GOOD.replace('"#293042"', "deep"), "`heat[0]`: expected a colour such as #7aa2d6"),
        (GOOD.replace("name: night", "name: ' '"), "`name`: expected a name"),
        (GOOD.replace("dark: true\n", ""), "`dark` is missing"),
    ],
)
def test_a_bad_theme_is_refused_by_name(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load(path)
    assert problem in caught.value.message
    assert str(path) in caught.value.message
    wardrobe = Wardrobe([tmp_path])
    changed, errors = wardrobe.look()
    assert not changed
    assert list(wardrobe.themes) == [BUILT_IN.name]
    assert len(errors) == 1


async def test_a_bad_theme_is_told_and_the_console_opens(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: [", encoding="utf-8")
    look = Look(theme="mine", theme_folders=(tmp_path,))
    async with opened(FakeSession(), look=look) as console:
        await console.toast("There is no theme `mine`")
        await console.shows("Theme not loaded", "mine.yaml:2:1")
        assert console.app.theme == BUILT_IN.name


def test_opening_the_package_does_not_import_textual() -> None:
    code = (
        "import sys; import gpuconsole.tui, gpuconsole.tui.keymap.registry; "
        "import gpuconsole.tui.task_form; "
        "sys.exit('textual' in sys.modules or 'rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- fast fingers ---------------------------------------------------------------------------

FAST = ("1", "2", "3", "4", "escape", "enter", "question_mark", "colon", "f6", "i", "w", "slash",
        "p", "left_square_bracket")  # fmt: skip
CHARACTERS = {"question_mark": "?", "colon": ":", "slash": "/"}


@pytest.mark.parametrize("seed", range(6))
async def test_keys_may_come_faster_than_screens(seed: int) -> None:
    chosen = random.Random(seed)
    session = FakeSession(jobs_now=JOBS, lines=tuple(f"line {at}" for at in range(50)))
    async with opened(session, chosen.choice(SIZES)) as console:
        for _ in range(40):
            key = chosen.choice(FAST)
            letter = CHARACTERS.get(key, key if len(key) == 1 else None)
            console.app.post_message(Key(key, letter))
            if chosen.random() < 0.5:
                session.change()
                console.app.paint(force=True)
            if chosen.random() < 0.5:
                await asyncio.sleep(0)
        await console.press("escape", "escape", "escape")
        assert console.app.picture.snapshot.revision == session.revision


async def test_the_palette_may_be_left_before_it_stands_and_twice() -> None:
    async with opened(FakeSession()) as console:
        for key in ("colon", "escape", "escape", "colon", "enter", "enter"):
            console.app.post_message(Key(key, CHARACTERS.get(key)))
        await console.press("escape", "escape")
        await console.until(lambda: not isinstance(console.app.screen, Palette))


async def test_news_after_the_console_has_closed_is_no_trouble() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        tell = session.listeners[0]
        await console.press("4")
    session.change()
    tell(Event("host", "v100-02", "lost", NOW, "warning"))


async def hammer(console: Driven, keys: str) -> None:
    """Type without waiting for anything, as a paste or a slow line does."""
    for letter in keys:
        name = {"/": "slash", ":": "colon", "-": "minus"}.get(letter, letter)
        console.app.post_message(Key(name, letter))
    await console.pilot.pause()


@pytest.mark.parametrize(("mode", "opens", "field"), [
    ("2", "/", "#filter-input"), ("3", "/", "#filter-input"), ("1", "w", ".ask-input"),
    ("2", ":", "#palette-input"),
])  # fmt: skip
async def test_what_is_typed_at_once_goes_into_the_field(mode: str, opens: str, field: str) -> None:
    async with opened(FakeSession()) as console:
        await console.press(mode)
        await hammer(console, opens + "host-wic")

        def typed() -> bool:
            found = console.app.screen.query(field)
            return bool(found) and found.first(Input).value == "host-wic"

        await console.until(typed, "all letters in the field")


async def test_a_key_before_a_screen_has_its_widgets_does_nothing() -> None:
    async with opened(FakeSession()) as console:
        late = HostScreen("a100-01")
        assert late.check_action("open", ()) is False
        await console.app.push_screen(late)
        await console.until(lambda: late.ready)
        assert late.check_action("open", ()) is True


async def test_an_error_is_shown_for_longer() -> None:
    async with opened(FakeSession()) as console:
        for severity in ("error", "warning"):
            console.app._event(Event("host", "", f"a {severity}", NOW, severity))  # type: ignore[arg-type]
        console.app.tell_error(DocumentError("Invalid file", "mine.yaml:2:1"))

        def shown() -> dict[str, float]:
            return {toast.message: toast.timeout for toast in console.app._notifications}

        # One at a time; what is less replaces no error.
        await console.until(lambda: shown() == {"mine.yaml:2:1": 8})
        console.app.clear_notifications()
        console.app._event(Event("host", "", "a warning", NOW, "warning"))
        await console.until(lambda: shown() == {"a warning": 4})
