"""Every allocation and release of Paddle's allocator in this process, from its own profiler."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from paddle.base.core import _Profiler

    from ..documents import Run

MARK = "gpuconsole:"
KERNELS = (" kernel launch", " compute")
"""How the spans of kernels end in Paddle 3.x and in 2.6."""


class Recorder:
    """Records memory events; marks put the script's moments on the same time line."""

    def __init__(self, paddle: ModuleType) -> None:
        self.core = paddle.base.core
        self.count = 0
        self.tags: dict[int, tuple[list[int], str]] = {}
        self.notes: dict[int, tuple[str, int]] = {}
        self.profiler: _Profiler = None

    def start(self) -> None:
        """Begin to record."""
        options = self.core.ProfilerOptions()
        options.trace_switch = 1
        self.profiler = self.core._Profiler.create(options, [])
        self.core.enable_memory_recorder()
        self.profiler.prepare()
        self.profiler.start()

    def mark(self, what: str, key: int = 0) -> int:
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
        known_addresses = [address for address in addresses if address]
        if known_addresses:
            self.tags[self.mark("tag")] = (known_addresses, kind)

    def stop(self) -> list[tuple[int, str, str, int, int, int]]:
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
                for event in node.mem_node:
                    what = "take" if event.increase_bytes > 0 else "give"
                    line.append(
                        (
                            event.timestamp_ns,
                            what,
                            kernel,
                            span,
                            event.addr,
                            abs(event.increase_bytes),
                        )
                    )
                stack.extend((child, kernel, span) for child in node.children_node)
        line.sort(key=lambda event: event[0])
        return line


class Blocks:
    """The time line as blocks that are born and die."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.sizes: list[int] = []
        self.names: list[str] = []
        self.kinds: list[str] = []
        self.inside: set[int] = set()
        self.cycles: list[int] = []
        self.live: dict[int, int] = {}
        self.spans: list[int] = []
        self.windows: list[int] = []
        self.window = 0

    def born(
        self, size: int, name: str, span: int, address: int | None = None, kind: str = ""
    ) -> int:
        """A block is taken; an address that was live has been given back unseen."""
        if address is not None and address in self.live:
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

    def dead(self, address: int, span: int) -> None:
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
        """The kind of blocks becomes known; the first word about a block holds."""
        for address in addresses:
            index = self.live.get(address)
            if index is not None and not self.kinds[index]:
                self.kinds[index] = kind


def blocks(recorder: Recorder, waiting: Mapping[int, int]) -> Blocks:
    """Replay the recorder's time line. `waiting` maps a loader's number to one batch's bytes."""
    result = Blocks()
    readers: dict[int, int] = {}
    for _, what, name, span, address, size in recorder.stop():
        if what == "take":
            result.born(size, name, span, address)
        elif what == "give":
            result.dead(address, span)
        elif address in recorder.tags:
            result.tagged(*recorder.tags[address])
        else:
            _moment(result, readers, waiting, *recorder.notes[address])
    return result


def _moment(
    result: Blocks, readers: dict[int, int], waiting: Mapping[int, int], what: str, key: int
) -> None:
    if what == "cycle":
        result.cycles.append(len(result.events))
    elif what == "fetch":
        result.window = key
    elif what == "fetched":
        result.window = 0
    elif what == "open":
        readers[key] = result.born(waiting.get(key, 0), "reader", 0, kind="waiting")
    elif what == "close" and key in readers:
        result.events.append(~readers.pop(key))


def as_json(result: Blocks) -> Run:
    """Return blocks as plain lists; names are numbered."""
    dropped = {place for place, kind in enumerate(result.kinds) if kind == "loader"}
    indices = [place for place in range(len(result.sizes)) if place not in dropped]
    number = {old: new for new, old in enumerate(indices)}
    events: list[int] = []
    cycles: list[int] = []
    ends = set(result.cycles)
    for place, event in enumerate(result.events):
        if place in ends:
            cycles.append(len(events))
        block = event if event >= 0 else ~event
        if block not in dropped:
            events.append(number[block] if event >= 0 else ~number[block])
    if len(result.events) in ends:
        cycles.append(len(events))
    words = sorted({result.names[index] for index in indices})
    place_of = {word: place for place, word in enumerate(words)}
    kinds = ["", "parameters", "gradients", "optimizer", "inputs", "waiting"]
    return {
        "events": events,
        "cycles": cycles,
        "sizes": [result.sizes[index] for index in indices],
        "names": words,
        "name": [place_of[result.names[index]] for index in indices],
        "kind": [kinds.index(result.kinds[index]) for index in indices],
        "inside": sorted(number[index] for index in result.inside if index in number),
    }
