"""Where the memory of a run comes from: by layer and line, and the moment of the peak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gpuconsole.core.estimate import Explanation, LayerCost
from gpuconsole.core.units import MIB
from gpuconsole.preflight.interpreter.machine.run_state.tape import LayerCall
from gpuconsole.preflight.memory.liveness import peak
from gpuconsole.preflight.memory.trace import Place, Trace

_PASSING = ("parameters", "gradients", "optimizer")
"""Kinds that no single layer's output or saved tensors are."""


def explain(trace: Trace, layers: Mapping[str, LayerCall]) -> Explanation:
    """Return the layers of a run, what each keeps for backward, and where the peak occurs.

    Where nothing is trained, what a layer holds at the peak counts as what it saves.
    """
    top = peak(trace)
    at = _last_backward_before(trace, top.event)
    saved = _held_by_place(trace, at if at is not None else top.event)
    rows: list[LayerCost] = []
    for path, call in layers.items():
        lines = saved.pop(path, {})
        if call.parameters or call.flops or lines:
            rows.append(_row(path, call, sum(lines.values())))
    for path, lines in saved.items():
        rows += [_loose(path, place, size) for place, size in lines.items() if size]
    rows.sort(key=lambda row: (-row.saved_mib, -row.parameters_mib))
    place = _place_of(trace, top.event)
    moment = f"{place.moment} of {place.layer}" if place.layer else place.moment
    return Explanation(tuple(rows), place.file, place.line, moment, bool(trace.backwards))


def _row(path: str, call: LayerCall, saved: int) -> LayerCost:
    return LayerCost(path, call.kind, call.file, call.line, call.output_shape,
                     call.parameters / MIB, saved / MIB, call.flops)  # fmt: skip


def _loose(path: str, place: Place, saved: int) -> LayerCost:
    return LayerCost(path, "", place.file, place.line, (), 0.0, saved / MIB)


def _last_backward_before(trace: Trace, event: int) -> int | None:
    """Return where the backward pass nearest the peak began: in the peak's own step if it can."""
    if not trace.backwards:
        return None
    before = [backward for backward in trace.backwards if backward <= event]
    after = [backward for backward in trace.backwards if backward > event]
    return after[0] if after else before[-1]


def _held_by_place(trace: Trace, until: int) -> dict[str, dict[Place, int]]:
    """Return the bytes alive just before an event, by layer and place, parameters aside."""
    held: dict[str, dict[Place, int]] = defaultdict(lambda: defaultdict(int))
    for event in trace.events[:until]:
        block = event if event >= 0 else ~event
        if trace.kinds[block] in _PASSING:
            continue
        place = trace.places[block]
        held[place.layer][place] += trace.sizes[block] if event >= 0 else -trace.sizes[block]
    return held


def _place_of(trace: Trace, event: int) -> Place:
    if not trace.events or event < 0:
        return Place("", 0, "", "forward")
    born = trace.events[event]
    return trace.places[born if born >= 0 else ~born]
