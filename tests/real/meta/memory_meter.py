"""What a process holds of Paddle's memory, by its CPU allocator or by the meta tier's ledger."""

from __future__ import annotations

from typing import Any

_STAT = "Allocated", 0


class Meter:
    """Bytes of tensors of this process; `way` is "real" or "meta". Imports Paddle."""

    def __init__(self, way: str) -> None:
        self._state: Any = None
        if way == "meta":
            from gpuconsole.preflight.meta import hook
            from gpuconsole.preflight.meta.state import STATE
            from gpuconsole.preflight.tiers.probe_request import operators

            hook.install()
            import paddle

            hook.ready(paddle, operators(), "cpu")
            self._state = STATE
        else:
            import paddle
        self.paddle: Any = paddle

    def held(self) -> int:
        """Return what is held now."""
        if self._state is not None:
            return int(self._state.ledger.live)
        return int(self.paddle.base.core.host_memory_stat_current_value(*_STAT))

    def peak(self) -> int:
        """Return the most that was held since `reset`."""
        if self._state is not None:
            return int(self._state.ledger.peak)
        return int(self.paddle.base.core.host_memory_stat_peak_value(*_STAT))

    def reset(self) -> None:
        """Begin a new peak with what is held now."""
        if self._state is not None:
            self._state.ledger.peak = self._state.ledger.live
        else:
            self.paddle.base.core.host_memory_stat_reset_peak_value(*_STAT)
