"""What a run records of memory and work: blocks, layers, operations."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, NamedTuple

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.trace import Kind, Ledger


class LayerCall(NamedTuple):
    """One call of a layer: its class, the line that called it, its output, its operations."""

    kind: str
    file: str
    line: int
    output_shape: tuple[int, ...]
    parameters: int
    """Bytes of its own parameters, those of its sublayers aside."""
    flops: float


@dataclass(slots=True)
class Tape:
    """The blocks that are born and die, and what the operators of a cycle read and compute."""

    ledger: Ledger = field(default_factory=Ledger)
    layer: str = ""
    """Path of the layer that is running."""
    moment: Literal["forward", "backward", "step"] = "forward"
    layers: dict[str, LayerCall] = field(default_factory=dict)
    """The last call of each layer, by path."""
    widest_conv: int = 0
    flops: float = 0.0
    flops_done: float = 0.0
    bytes: float = 0.0
    """Bytes read and written by the operators of this cycle, forward."""
    bytes_done: float = 0.0

    def kept(self) -> int:
        """Return the bytes alive of what scripts make and may keep: tensors, weights, gradients."""
        kinds: tuple[Kind, ...] = ("activations", "parameters", "gradients")
        return sum(self.ledger.live(kind) for kind in kinds)

    def close_cycle(self) -> None:
        """Take what was counted since the last cycle as that of one cycle."""
        self.flops_done, self.flops = self.flops, 0.0
        self.bytes_done, self.bytes = self.bytes, 0.0
