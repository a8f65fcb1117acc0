"""The command palette: keys of this screen, hosts, jobs and themes, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from gpuconsole.core.text import clean
from gpuconsole.tui.keys import in_area
from gpuconsole.tui.presentation.cells import fit

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp

MOST_HITS = 60
NAME_WIDTH = 58


class ConsoleCommands(Provider):
    """Everything one can do or see, as `area: Verb`."""

    @property
    def console(self) -> ConsoleApp:
        """The app, typed."""
        return cast("ConsoleApp", self.app)

    async def discover(self) -> Hits:
        """Offer the actions before anything is typed."""
        for name, help_text, run in self.actions():
            yield DiscoveryHit(_entry(name, help_text), run, text=name)

    async def search(self, query: str) -> Hits:
        """Offer all that matches."""
        matcher = self.matcher(query)
        found = 0
        for name, help_text, run in self.everything():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, _entry(name, help_text), run, text=name)
                found += 1
            if found >= MOST_HITS:
                return

    def everything(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Give actions, jobs, hosts and themes."""
        yield from self.actions()
        console = self.console
        for job in reversed(console.picture.jobs):
            name = clean(f"job: {job.task.name}  {job.id}")
            yield name, job.state.value, partial(console.open_job, job.id)
        for host in console.picture.snapshot.hosts:
            name = clean(f"host: {host.name}")
            yield name, host.state.value, partial(self.open_host, host.name)
        for theme in sorted(console.available_themes):
            if theme in console.theme_names:
                yield f"theme: {theme}", "Change the colours", partial(self.wear, theme)

    def actions(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Give the keys of this screen and those that work anywhere."""
        from gpuconsole.tui.screens.base import ConsoleScreen

        screen = self.screen
        if not isinstance(screen, ConsoleScreen):
            return
        read_only = self.console.read_only
        for key in [*screen.keys(), *in_area("go", "time", "app")]:
            if (key.writes and read_only) or key.action == "app.command_palette":
                continue
            name = f"{key.area}: {key.help.split(';')[0]}"
            yield name, key.shown, partial(self.press, key.action)

    async def press(self, action: str) -> None:
        """Do what the key does."""
        await self.app.run_action(action, default_namespace=self.screen)

    def open_host(self, name: str) -> None:
        """Open a host's screen."""
        from gpuconsole.tui.screens.host import HostScreen

        self.app.push_screen(HostScreen(name))

    def wear(self, theme: str) -> None:
        """Change the theme."""
        self.app.theme = theme


def _entry(name: str, note: str) -> Content:
    """One line: what it does, and at the right the key or state; never markup."""
    return Content.assemble(fit(name, NAME_WIDTH), "  ", (note, "$text-muted"))
