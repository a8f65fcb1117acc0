"""What the steps of a test found."""

from __future__ import annotations

from typing import Literal

from gpuconsole.core.util.lazy_dataclass import dataclass

Result = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one step found; `remedy` is the next thing to do where it failed."""

    step: str
    result: Result
    message: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        """Return it as in a `--json` document."""
        keys = ("step", "result", "message", "remedy")
        return {key: getattr(self, key) for key in keys}
