"""The picture on the screens as a JSON file."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.session.export.status import moment_document
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.dialogs.base import AskScreen

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp


def export(console: ConsoleApp) -> None:
    """Ask for a file, and write hosts, jobs and incidents of the moment that is looked at."""
    picture = console.picture
    document = moment_document(picture.snapshot, picture.jobs, picture.incidents, picture.now)
    name = datetime.fromtimestamp(picture.now).strftime("gpuconsole-%Y%m%d-%H%M%S.json")

    def answered(typed: str | None) -> None:
        if typed:
            path = Path(typed).expanduser()
            aside(console, partial(_written, console, path, document), group="export")

    words = "Hosts, jobs and incidents, as JSON."
    console.push_screen(AskScreen("Export to which file?", words, value=name), answered)


async def _written(console: ConsoleApp, path: Path, document: dict[str, Any]) -> None:
    try:
        await asyncio.to_thread(write, path, document)
    except ConsoleError as error:
        console.tell_error(error)
    else:
        console.notify(msg("Exported to {path}.", path=clean(str(path))), markup=False)


def write(path: Path, document: dict[str, Any]) -> None:
    """Write a document to a new file that only the user can read; UsageError where that fails."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(document, file, indent=2, ensure_ascii=False, allow_nan=False)
            file.write("\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            "Not exported", f"{clean(str(path))}: {reason}.", "Name another file."
        ) from error
