"""A change to how a script trains, tried by estimating it again."""

from __future__ import annotations

from typing import Literal

from gpuconsole.core.util.lazy_dataclass import dataclass

AmpLevel = Literal["", "O1", "O2"]
ShardLevel = Literal["", "os", "os_g", "p_g_os"]


@dataclass(frozen=True, slots=True)
class Variant:
    """What is changed; the default is the script as it is."""

    amp: AmpLevel = ""
    """Automatic mixed precision put around the forward pass; "" leaves it as the script has it."""
    recompute: bool = False
    """Repeated blocks of the network keep their inputs alone and run forward again in backward."""
    shard_level: ShardLevel = ""
    """Optimizer states, gradients, parameters spread over `shards` devices (Paddle's names)."""
    shards: int = 1


AS_WRITTEN = Variant()
