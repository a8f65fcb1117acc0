"""The console with a stop-watch: runs in a terminal, writes what it saw as JSON, ends.

Started by `benchmarks.fleet` in a pseudo-terminal; opens and draws as `gpuconsole` does, only notes
times. The stages of its start are noted in processor time too: a busy machine changes that little.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.cli.entry import GARBAGE_AFTER

if TYPE_CHECKING:
    from gpuconsole.session.session import Session
    from gpuconsole.tui.runtime.awaited_session import AwaitedSession

STARTED = time.time()


@dataclass
class Notes:
    """Wall-clock times of paints, and the sample times of the hosts in each."""

    first_paint: float | None = None
    full_picture: float | None = None
    stages: list[tuple[str, float, float]] = field(default_factory=list)
    """What was reached: its name, seconds since the epoch, processor time until then."""
    paints: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    cpu: list[tuple[float, float]] = field(default_factory=list)

    def reached(self, stage: str) -> float:
        """Note that a stage of the start is done; returns the time."""
        now = time.time()
        self.stages.append((stage, now, time.process_time()))
        return now


def main() -> None:
    """Run the console for a while and write the notes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--expect", type=int, required=True, help="hosts that will come up")
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--began", type=float, default=STARTED, help="when the process was made")
    options = parser.parse_args()

    notes = Notes()
    notes.reached("Python itself")
    # The order is that of `gpuconsole.cli`.
    gc.set_threshold(GARBAGE_AFTER)
    from gpuconsole.cli.opening import Opening

    with Opening() as opening:
        notes.reached("first words on the terminal")
        from gpuconsole.remote.inventory import open_inventory

        lab = open_inventory(options.inventory, {})
        opening.show([host.name for host in lab.hosts])
        notes.reached("settings, inventory: hosts named")
        from gpuconsole.cli.options import Options
        from gpuconsole.cli.sessions import awaited_session
        from gpuconsole.config import combined, load_settings

        chosen = Options(options.inventory, options.state, read_only=True)
        session = awaited_session(chosen, lab, combined(load_settings(), lab.lab))
        import textual.app  # noqa: F401

        notes.reached("Textual")
        opening.hand_over()
        _run(session, options, notes)


def _run(session: AwaitedSession, options: argparse.Namespace, notes: Notes) -> None:
    import gpuconsole.tui
    from gpuconsole.core.fleet import HostState
    from gpuconsole.tui.app import ConsoleApp

    notes.reached("screens")

    class Probe(ConsoleApp):
        CSS_PATH = Path(gpuconsole.tui.__path__[0]) / "console.tcss"

        # Textual calls the handler of each class: the console's own has its name, not this one.
        def on_ready(self) -> None:
            self.call_after_refresh(self._first)

        def _first(self) -> None:
            notes.first_paint = notes.reached("stylesheet, layout, first frame")

        def _take(self, session: Session) -> None:
            super()._take(session)
            notes.reached("SSH, hosts being connected, session, journal")

        def paint(self, *, force: bool = False) -> None:
            before = self.picture
            super().paint(force=force)
            if self.picture is before:
                return
            now = time.time()
            seen = {
                host.name: host.sampled_at
                for host in self.picture.snapshot.hosts
                if host.state is HostState.UP and host.sampled_at is not None
            }
            if notes.full_picture is None:
                if len(seen) >= options.expect:
                    notes.full_picture = notes.reached("agents, every host on screen")
                    self.set_timer(options.warm_up, self._begin_window)
                elif now - STARTED > 120:
                    self.exit()
                return
            if notes.cpu:
                notes.paints.append((now, seen))

        def _begin_window(self) -> None:
            notes.cpu.append((time.time(), time.process_time()))
            self.set_timer(options.seconds, self._end_window)

        def _end_window(self) -> None:
            notes.cpu.append((time.time(), time.process_time()))
            self.exit()

    Probe(session).run()
    options.out.write_text(
        json.dumps(
            {
                "started": options.began,
                "first_paint": notes.first_paint,
                "full_picture": notes.full_picture,
                "stages": notes.stages,
                "paints": notes.paints,
                "cpu": notes.cpu,
                "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
