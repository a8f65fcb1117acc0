"""When garbage is looked for."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconsole.tui.runtime import gc_scheduler
from gpuconsole.tui.runtime.gc_scheduler import Rounds, Search
from tests.waiting import until


def test_nothing_is_searched_while_somebody_types() -> None:
    rounds = Rounds.since(0.0)
    assert rounds.due(61.0, typed=60.0) is None
    assert rounds.due(64.0, typed=60.0) is Search.RECENT
    assert rounds.due(65.0, typed=60.0) is None
    assert rounds.due(124.0, typed=60.0) is Search.RECENT


def test_who_types_without_a_pause_is_held_up_at_last() -> None:
    rounds = Rounds.since(0.0)
    found = [rounds.due(float(now), typed=now - 0.1) for now in range(1, 1201)]
    assert [at + 1 for at, search in enumerate(found) if search] == [600, 1200]


def test_all_is_searched_when_nobody_was_there_for_a_minute() -> None:
    rounds = Rounds.since(0.0)
    assert rounds.due(3600.0, typed=3590.0) is Search.RECENT
    assert rounds.due(3651.0, typed=3590.0) is Search.ALL
    assert rounds.due(3652.0, typed=3590.0) is None
    assert rounds.due(3711.0, typed=3590.0) is Search.RECENT


def test_a_flood_is_searched_whoever_types() -> None:
    rounds = Rounds.since(0.0, frozen=1000)
    assert rounds.due(5.0, typed=5.0, allocated=gc_scheduler.MOST_MADE) is None
    assert rounds.due(5.0, typed=5.0, allocated=gc_scheduler.MOST_MADE + 1) is Search.RECENT


def test_when_twice_as_much_has_stayed_all_is_searched_at_the_next_rest() -> None:
    rounds = Rounds.since(0.0, frozen=1000)
    assert rounds.due(100.0, typed=50.0, frozen=2001) is Search.RECENT
    assert rounds.due(110.0, typed=50.0, frozen=2000) is None
    assert rounds.due(110.0, typed=50.0, frozen=2001) is Search.ALL


@pytest.mark.parametrize(("added", "counted"), [(1, 1), (600, 3)])
async def test_what_stays_is_counted_only_where_it_seems_to_have_doubled(
    monkeypatch: pytest.MonkeyPatch, added: int, counted: int
) -> None:
    done: list[str] = []

    def count() -> int:
        done.append("counted")
        return 1000

    def search(search: Search) -> int:
        done.append("searched")
        return added

    monkeypatch.setattr(gc, "get_freeze_count", count)
    monkeypatch.setattr(gc_scheduler, "look_through", search)
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
    for name in ("SETTLED_S", "LOOK_S", "RECENT_EVERY_S"):
        monkeypatch.setattr(gc_scheduler, name, 0.001)
    work = asyncio.ensure_future(gc_scheduler.collect(lambda: 0.0))
    await until(lambda: done.count("searched") > 4)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    at = [place for place, what in enumerate(done) if what == "searched"]
    assert done[: at[4]].count("counted") == counted, done


CHECKOUT = Path(__file__).parents[3]


def alone(text: str) -> None:
    """Run a text in a process of its own: where all tests have been collected, a search through
    all objects takes half a minute."""
    command = [sys.executable, "-c", f"{HEAD}{text}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr


HEAD = """
import asyncio, gc, weakref
from gpuconsole.tui.runtime import gc_scheduler
from gpuconsole.tui.runtime.gc_scheduler import Search

class Loop:
    def __init__(self):
        self.itself = self

"""


def test_a_search_tells_how_much_it_took_to_stay() -> None:
    alone("""
gc.disable()
gc.collect()
gc.freeze()
before = gc.get_freeze_count()
kept = [Loop() for _ in range(500)]
added = gc_scheduler.look_through(Search.RECENT)
assert added >= 500, added
assert abs(gc.get_freeze_count() - before - added) <= 50
assert kept
""")


@pytest.mark.parametrize("search", list(Search))
def test_a_search_finds_what_has_no_other_way_to_go(search: Search) -> None:
    alone(f"""
gc.disable()
gone = weakref.ref(Loop())
gc_scheduler.look_through({search})
assert gone() is None
kept = Loop()
gc_scheduler.look_through({search})
stays = weakref.ref(kept)
del kept
gc_scheduler.look_through(Search.RECENT)
assert stays() is not None, "what stayed once is not looked at again"
gc_scheduler.look_through(Search.ALL)
assert stays() is None
""")


def test_the_console_searches_by_itself_and_python_does_again_afterwards() -> None:
    alone("""
from tests.waiting import until

for name in ("SETTLED_S", "LOOK_S", "RECENT_EVERY_S"):
    setattr(gc_scheduler, name, 0.01)

async def main():
    work = asyncio.ensure_future(gc_scheduler.collect(lambda: 0.0))
    await asyncio.sleep(0)
    assert not gc.isenabled()
    await until(lambda: gc.get_freeze_count() > 0)
    gone = weakref.ref(Loop())
    await until(lambda: gone() is None)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0

asyncio.run(main())
""")
