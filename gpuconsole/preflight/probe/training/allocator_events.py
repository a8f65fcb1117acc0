"""Every allocation and release of Paddle's allocator in this process, from its own profiler."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

MARK = "gpuconsole:"
KERNELS = (" kernel launch", " compute")
"""How the spans of kernels end in Paddle 3.x and in 2.6."""


class Recorder:
    """Records memory events; marks put the script's moments on the same time line."""

    def __init__(self, paddle: ModuleType) -> None:
        self.core = paddle.base.core
        self.count = 0
        self.tags: dict[Any, Any] = {}
        self.notes: dict[Any, Any] = {}
        self.profiler: Any = None

    def start(self) -> None:
        """Begin to record."""
        options = self.core.ProfilerOptions()
        options.trace_switch = 1
        self.profiler = self.core._Profiler.create(options, [])
        self.core.enable_memory_recorder()
        self.profiler.prepare()
        self.profiler.start()

    def mark(self, what: str, key: object = 0) -> Any:
        """Put a moment on the time line and return its number."""
        self.count += 1
        self.notes[self.count] = (what, key)
        event = self.core._RecordEvent(
            MARK + str(self.count), self.core.TracerEventType.UserDefined
        )
        event.end()
        return self.count

    def tag(self, addresses: Sequence[int], kind: str) -> None:
        """Say of what kind the blocks at some addresses are, now."""
        found = [one for one in addresses if one]
        if found:
            self.tags[self.mark("tag")] = (found, kind)

    def stop(self) -> list[tuple[object, str, object, int, int, int]]:
        """End the recording and return its time line: (time, what, name, span, address, bytes)."""
        gc.disable()
        # The nodes belong to the result: it must outlive them.
        result = self.profiler.stop()
        line = []
        for root in result.get_data().values():
            stack = [(root, "", 0)]
            while stack:
                node, kernel, span = stack.pop()
                name = node.name
                if name.startswith(MARK):
                    line.append((node.start_ns, "mark", name, 0, int(name[len(MARK) :]), 0))
                    continue
                if name.endswith(KERNELS):
                    kernel, span = name.rsplit(" ", 2 if "launch" in name else 1)[0], node.start_ns
                for one in node.mem_node:
                    what = "take" if one.increase_bytes > 0 else "give"
                    line.append(
                        (one.timestamp_ns, what, kernel, span, one.addr, abs(one.increase_bytes))
                    )
                stack.extend((child, kernel, span) for child in node.children_node)
        line.sort(key=lambda one: one[0])
        return line


class Blocks:
    """The time line as blocks that are born and die."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.sizes: list[Any] = []
        self.names: list[Any] = []
        self.kinds: list[Any] = []
        self.inside: set[Any] = set()
        self.cycles: list[Any] = []
        self.live: dict[Any, Any] = {}
        self.spans: list[Any] = []
        self.windows: list[Any] = []
        self.window = 0

    def born(
        self, size: object, name: str, span: object, address: object = None, kind: str = ""
    ) -> int:
        """A block is taken; an address that was live has been given back unseen."""
        if address in self.live:
            self.dead(address, 0)
        index = len(self.sizes)
        self.sizes.append(size)
        self.names.append(name)
        self.kinds.append(kind)
        self.spans.append(span)
        self.windows.append(self.window)
        self.events.append(index)
        if address is not None:
            self.live[address] = index
        return index

    def dead(self, address: object, span: object) -> None:
        """A block is given back."""
        index = self.live.pop(address, None)
        if index is None:
            return
        if span and self.spans[index] == span:
            self.inside.add(index)
        self.events.append(~index)
        if self.window and self.windows[index] == self.window:
            # Born and gone while samples were fetched: on a device nothing of it is seen.
            self.kinds[index] = "loader"

    def tagged(self, addresses: Sequence[int], kind: str) -> None:
        """The kind of blocks becomes known; the first word about a block stands."""
        for address in addresses:
            index = self.live.get(address)
            if index is not None and not self.kinds[index]:
                self.kinds[index] = kind


def blocks(recorder: Any, waiting: object) -> Blocks:
    """Replay the recorder's time line. `waiting` maps a loader's number to one batch's bytes."""
    made = Blocks()
    readers: dict[Any, Any] = {}
    for _, what, name, span, address, size in recorder.stop():
        if what == "take":
            made.born(size, name, span, address)
        elif what == "give":
            made.dead(address, span)
        elif address in recorder.tags:
            made.tagged(*recorder.tags[address])
        else:
            _moment(made, readers, waiting, *recorder.notes[address])
    return made


def _moment(made: Any, readers: dict[int, int], waiting: Any, what: object, key: Any) -> None:
    if what == "cycle":
        made.cycles.append(len(made.events))
    elif what == "fetch":
        made.window = key
    elif what == "fetched":
        made.window = 0
    elif what == "open":
        readers[key] = made.born(waiting.get(key, 0), "reader", 0, kind="waiting")
    elif what == "close" and key in readers:
        made.events.append(~readers.pop(key))


def as_json(made: Any) -> Any:
    """Return blocks as plain lists; names are numbered."""
    dropped = {place for place, kind in enumerate(made.kinds) if kind == "loader"}
    kept = [place for place in range(len(made.sizes)) if place not in dropped]
    number = {old: new for new, old in enumerate(kept)}
    events: list[Any] = []
    cycles: list[Any] = []
    ends = set(made.cycles)
    for place, event in enumerate(made.events):
        if place in ends:
            cycles.append(len(events))
        block = event if event >= 0 else ~event
        if block not in dropped:
            events.append(number[block] if event >= 0 else ~number[block])
    if len(made.events) in ends:
        cycles.append(len(events))
    words = sorted({made.names[one] for one in kept})
    place_of = {word: place for place, word in enumerate(words)}
    kinds = ["", "parameters", "gradients", "optimizer", "inputs", "waiting"]
    return {
        "events": events,
        "cycles": cycles,
        "sizes": [made.sizes[one] for one in kept],
        "names": words,
        "name": [place_of[made.names[one]] for one in kept],
        "kind": [kinds.index(made.kinds[one]) for one in kept],
        "inside": sorted(number[one] for one in made.inside if one in number),
    }
