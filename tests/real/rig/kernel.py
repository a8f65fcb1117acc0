"""A real Jupyter kernel: source in, messages out, as a front end has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.real.rig.patience import PATIENCE_S


def why_not() -> str:
    """Return why there is no kernel to be had, or ""."""
    missing = [name for name in ("ipykernel", "jupyter_client") if find_spec(name) is None]
    return f"{' and '.join(missing)} is not installed" if missing else ""


@dataclass
class Cell:
    """What became of one cell."""

    status: str = ""
    stdout: str = ""
    stderr: str = ""
    error: list[str] = field(default_factory=list)
    """The lines that a front end shows for an error."""
    pages: dict[str, dict[str, str]] = field(default_factory=dict)
    """What is displayed, by media type, under the display's id; an update replaces it."""
    updates: int = 0

    @property
    def html(self) -> str:
        """All HTML that is shown at the end."""
        return "\n".join(page.get("text/html", "") for page in self.pages.values())

    @property
    def plain(self) -> str:
        """The same as text."""
        return "\n".join(page.get("text/plain", "") for page in self.pages.values())


class Kernel:
    """A kernel with the magics loaded. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        from jupyter_client.manager import KernelManager

        self._manager = KernelManager(kernel_name="python3")
        self._folder = folder

    def __enter__(self) -> Kernel:
        self._manager.start_kernel(cwd=str(self._folder))
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE_S)
        loaded = self.run("%load_ext gpuconsole")
        assert loaded.status == "ok", loaded.error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel()
        self._manager.cleanup_resources()

    def complete(self, line: str) -> list[str]:
        """Return what Tab offers at the end of a line."""
        asked = self._client.complete(line, len(line))
        while (reply := self._client.get_shell_msg(timeout=PATIENCE_S))["parent_header"][
            "msg_id"
        ] != asked:
            pass
        matches: list[str] = reply["content"]["matches"]
        return matches

    def run(
        self,
        source: str,
        *,
        within_s: float = PATIENCE_S,
        interrupt_when: Callable[[Cell], bool] | None = None,
    ) -> Cell:
        """Run a cell to its end; it is interrupted once, when it has shown what is meant."""
        asked = self._client.execute(source)
        cell, deadline = Cell(), time.monotonic() + within_s
        while True:
            left = deadline - time.monotonic()
            assert left > 0, f"not in time: {source[:80]!r} {cell}"
            message = self._client.get_iopub_msg(timeout=left)
            if message["parent_header"].get("msg_id") != asked:
                continue
            if _take(cell, message["msg_type"], message["content"]):
                break
            if interrupt_when is not None and interrupt_when(cell):
                self._manager.interrupt_kernel()
                interrupt_when = None
        reply = self._client.get_shell_msg(timeout=within_s)
        while reply["parent_header"].get("msg_id") != asked:
            reply = self._client.get_shell_msg(timeout=within_s)
        cell.status = reply["content"]["status"]
        return cell


def _take(cell: Cell, kind: str, content: dict[str, Any]) -> bool:
    """Note one message; returns whether it was the cell's last."""
    if kind == "stream":
        setattr(cell, content["name"], getattr(cell, content["name"]) + content["text"])
    elif kind == "error":
        cell.error = content["traceback"]
    elif kind in ("display_data", "update_display_data"):
        name = content.get("transient", {}).get("display_id") or f"page {len(cell.pages)}"
        cell.pages[name] = content["data"]
        cell.updates += kind == "update_display_data"
    return kind == "status" and content["execution_state"] == "idle"
