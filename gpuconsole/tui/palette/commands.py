"""What the command palette offers: keys of this screen and of the app, hosts, devices, jobs,
themes and settings. Sources give plain texts to search; an entry is made only for what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.human_time import clock_words, parse_moment
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.language import NAMES
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.palette.entries import Entry, Item, Run, Source
from gpuconsole.tui.palette.extension_actions import ExtensionActions

if TYPE_CHECKING:
    from gpuconsole.core.fleet import Device, DeviceProcess, Host
    from gpuconsole.core.jobs import Job
    from gpuconsole.tui.app import ConsoleApp
    from gpuconsole.tui.screens.base import ConsoleScreen
    from gpuconsole.tui.style.styles import Symbols


@dataclass(frozen=True, slots=True)
class Actions:
    """What keys do here, or anywhere."""

    group: str
    keys: tuple[Key, ...]
    console: ConsoleApp
    screen: ConsoleScreen
    shown_at_once: bool = True

    def items(self) -> Iterator[Item]:
        """Give an item a key."""
        ink = self.console.ink
        for key in self.keys:
            name = key.help.partition(";")[0]
            said = ink.say(key.help).partition("；")[0].partition(";")[0]
            # What is typed may be English all the same.
            words = (said, name, ink.label(key.label), key.label, _ALIASES.get(key.action, ""))
            text = " ".join(dict.fromkeys(words)).lower()
            run = partial(self._press, key.action)
            yield Item(key.id, text, partial(Entry, key.id, said, key.shown, run))

    async def _press(self, action: str) -> None:
        await self.console.run_action(action, default_namespace=self.screen)


_ALIASES = {
    "app.quit": "q quit exit",
    "app.go('fleet')": "fleet hosts",
    "app.go('queue')": "queue jobs sweeps curves loss",
    "app.go('triage')": "incidents wrong",
    "app.help": "keys legend docs documentation manual",
    "app.time_at": "10 min ago minutes hour history past time machine",
    "cancel": "kill stop end",
    "compare": "curves loss plot sweep",
    "signal": "kill end process",
    "stop": "kill container",
}
"""Words by which people of other consoles ask for something."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """All hosts."""

    console: ConsoleApp
    group: str = "host"
    shown_at_once: bool = False

    def items(self) -> Iterator[Item]:
        """Give an item a host."""
        for host in self.console.picture.snapshot.hosts:
            text = f"{host.name} {host.address} {' '.join(host.labels.values())}".lower()
            yield Item(f"host {host.name}", text, partial(self._entry, host))

    def _entry(self, host: Host) -> Entry:
        say = self.console.ink.say
        note = f"{say(host.state.value)}, " + say(f"{len(host.devices)} devices")
        run = partial(_open_host, self.console, host.name, "")
        return Entry(f"host {host.name}", clean(host.name), note, run)


@dataclass(frozen=True, slots=True)
class Devices:
    """All devices of all hosts."""

    console: ConsoleApp
    group: str = "device"
    shown_at_once: bool = False

    def items(self) -> Iterator[Item]:
        """Give an item a device."""
        for host in self.console.picture.snapshot.hosts:
            name = host.name.lower()
            for device in host.devices:
                text = f"{name} {device.index} {device.model.lower()} {device.uuid.lower()}"
                text += f" {self.console.picture.owner_name(device).lower()}"
                yield Item(device.uuid, text, partial(self._entry, host.name, device))

    def _entry(self, host: str, device: Device) -> Entry:
        name = clean(f"{host} {device.index} {device.model}")
        owner = self.console.picture.owner_name(device)
        run = partial(_open_host, self.console, host, device.uuid)
        return Entry(device.uuid, name, clean(owner) or self.console.ink.say("free"), run)


@dataclass(frozen=True, slots=True)
class Processes:
    """All processes on devices: what one wants to end."""

    console: ConsoleApp
    screen: ConsoleScreen
    group: str = "process"
    shown_at_once: bool = False

    def items(self) -> Iterator[Item]:
        """Give an item a process."""
        if self.console.read_only:
            return
        for host in self.console.picture.snapshot.hosts:
            for device in host.devices:
                for process in device.processes:
                    text = f"{process.user} {process.pid} {process.command} {host.name}"
                    text += " kill stop end signal process"
                    make = partial(self._entry, host.name, device, process)
                    yield Item(f"process {host.name} {process.pid}", text.lower(), make)

    def _entry(self, host: str, device: Device, process: DeviceProcess) -> Entry:
        say = self.console.ink.say
        what = clean(f"{process.user} {process.pid} {process.command}")
        name = say(f"Signal {process.pid} (asks)").partition(str(process.pid))
        run = partial(_signal, self.screen, host, process)
        note = clean(f"{host} gpu {device.index}")
        return Entry(f"process {host} {process.pid}", f"{name[0]}{what}{name[2]}", note, run)


@dataclass(frozen=True, slots=True)
class Jobs:
    """All jobs, the newest first."""

    console: ConsoleApp
    group: str = "job"
    shown_at_once: bool = False

    def items(self) -> Iterator[Item]:
        """Give an item a job."""
        for job in reversed(self.console.picture.jobs):
            text = f"{job.task.name} {job.id} {job.user} {job.state.value}".lower()
            yield Item(job.id, text, partial(self._entry, job))

    def _entry(self, job: Job) -> Entry:
        name = clean(f"{job.task.name}  {job.id}")
        note = f"{self.console.ink.say(job.state_word)} ({clean(job.user)})"
        return Entry(job.id, name, note, partial(self.console.open_job, job.id))


@dataclass(frozen=True, slots=True)
class Themes:
    """The console's own themes."""

    console: ConsoleApp
    group: str = "theme"
    shown_at_once: bool = True

    def items(self) -> Iterator[Item]:
        """Give an item a theme."""
        say = self.console.ink.say
        for name, theme in sorted(self.console.wardrobe.themes.items()):
            note = say("active" if name == self.console.theme else "")
            run = partial(setattr, self.console, "theme", name)
            ground = "dark" if theme.dark else "light"
            yield Item(
                f"theme {name}",
                f"theme {name} colours colors {ground} {say('theme')} {say(ground)}".lower(),
                partial(Entry, f"theme {name}", clean(name), note, run),
            )


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set while the console is open, until it closes."""

    console: ConsoleApp
    group: str = "setting"
    shown_at_once: bool = True

    def items(self) -> Iterator[Item]:
        """Give an item a value."""
        look, say = self.console.look, self.console.ink.say
        values: list[tuple[str, str, bool, Run]] = [
            ("Messages of this session", "messages toasts", False, self.console.show_messages),
            ("Export JSON (asks for a file)", "save file", False, self._export),
            ("The tour of five steps", "tour tutorial first", False, self._tour),
            ("Containers of every host", "containers docker ps", False, self._containers),
            ("Logs of any container", "logs docker log", False, self._containers),
            ("Run in any container", "exec docker shell", False, partial(self._containers, "exec")),
        ]
        sets: tuple[tuple[Symbols, str], ...] = (
            ("block", "Blocks and lines"), ("ascii", "Plain ASCII")
        )  # fmt: skip
        for symbols, words in sets:
            wear = partial(self.console.change_look, replace(look, symbols=symbols))
            values.append((words, f"symbols {symbols}", look.symbols == symbols, wear))
        for code, words in NAMES.items():
            speak = partial(self.console.change_look, replace(look, language=code))
            values.append((words, f"language {code}", look.language == code, speak))
        for level in ("critical", "warning", "info", ""):
            words = f"Ring at incidents: {level} and worse" if level else "Never ring"
            ring = partial(self.console.change_look, replace(look, bell=level))
            values.append((words, "bell", look.bell == level, ring))
        for words, also, now, run in values:
            key = f"setting {words}"
            said = say(words)
            text = " ".join(dict.fromkeys((said, words, also))).lower()
            note = say("active" if now else "")
            yield Item(key, text, partial(Entry, key, said, note, run))

    def _export(self) -> None:
        from gpuconsole.tui.palette.export import export

        export(self.console)

    def _containers(self, do: str = "") -> None:
        from gpuconsole.tui.screens.container.containers import ContainersScreen

        self.console.push_screen(ContainersScreen(do=do))

    def _tour(self) -> None:
        from gpuconsole.tui.screens.tour import begin

        begin(self.console)


def look_at(console: ConsoleApp, typed: str) -> Entry | None:
    """Return an entry that looks at the time that is typed, such as `10m` or `yesterday 14:00`;
    None where it is no time of the past."""
    now = console.travel.session.now()
    try:
        at = parse_moment(typed, now, now)
    except ValueError:
        return None
    if at >= now:
        return None
    words = console.ink.say(msg("Look at {when}", when=clock_words(at, now)))
    note = msg("{time} ago", time=format_duration(now - at))
    return Entry(f"time {typed}", words, console.ink.say(note), partial(console.travel.go, at))


def sources(console: ConsoleApp, screen: ConsoleScreen) -> tuple[Source, ...]:
    """Return the groups that the palette offers over a screen, in their order."""
    own = screen.keys()
    here = tuple(key for key in own if _offered(console, key))
    shared = console.keys_of("app") if screen.FORM else console.keys_of("go", "time", "app")
    if screen.FORM:
        # In a form letters type, but what they do elsewhere can be chosen here.
        shared += [replace(key, keys="") for key in console.keys_of("go")]
    actions = {key.action for key in here}
    elsewhere = [key for key in shared if key.action not in actions and _offered(console, key)]
    return (
        Actions("here", here, console, screen),
        ExtensionActions(console, screen),
        Actions("anywhere", _once(elsewhere), console, screen),
        Hosts(console),
        Devices(console),
        Processes(console, screen),
        Jobs(console),
        Themes(console),
        Settings(console),
    )  # fmt: skip


def _once(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Of several keys that do the same, the first."""
    return tuple({key.action: key for key in reversed(list(keys))}.values())[::-1]


def _offered(console: ConsoleApp, key: Key) -> bool:
    return key.action != "app.command_palette" and not (key.writes and console.read_only)


def _signal(screen: ConsoleScreen, host: str, process: DeviceProcess) -> None:
    from gpuconsole.tui.render.processes import jobs_by_container
    from gpuconsole.tui.screens.dialogs.kill_process import signal_process

    jobs = jobs_by_container(screen.picture.jobs)
    signal_process(screen, host, process, jobs.get(process.container_id))


def _open_host(console: ConsoleApp, name: str, uuid: str) -> None:
    from gpuconsole.tui.screens.host import HostScreen

    console.push_screen(HostScreen(name, uuid))


MOST_RECENT = 8


class Recent:
    """What was chosen in the palette, the last one first."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def add(self, id_: str) -> None:
        """Remember a choice."""
        self.ids = [id_, *(old for old in self.ids if old != id_)][:MOST_RECENT]
