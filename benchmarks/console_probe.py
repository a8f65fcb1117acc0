"""The console with a stop-watch: runs in a terminal, writes what it saw as JSON, ends.

Started by `benchmarks.fleet` in a pseudo-terminal; draws as the console does, only notes times.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path

STARTED = time.time()


@dataclass
class Notes:
    """Wall-clock times of paints, and the sample times of the hosts in each."""

    first_paint: float | None = None
    full_picture: float | None = None
    paints: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    cpu: list[tuple[float, float]] = field(default_factory=list)


def main() -> None:
    """Run the console for a while and write the notes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--expect", type=int, required=True, help="hosts that will come up")
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    import gpuconsole.tui
    from gpuconsole.core.fleet import HostState
    from gpuconsole.session.factory import open_session
    from gpuconsole.tui.app import ConsoleApp

    notes = Notes()

    class Probe(ConsoleApp):
        CSS_PATH = Path(gpuconsole.tui.__path__[0]) / "console.tcss"

        def on_mount(self) -> None:
            super().on_mount()
            self.call_after_refresh(self._first)

        def _first(self) -> None:
            notes.first_paint = time.time()

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
                    notes.full_picture = now
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

    session = open_session(options.inventory, options.state, read_only=True, dispatch=False)
    Probe(session).run()
    options.out.write_text(
        json.dumps(
            {
                "started": STARTED,
                "first_paint": notes.first_paint,
                "full_picture": notes.full_picture,
                "paints": notes.paints,
                "cpu": notes.cpu,
                "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
