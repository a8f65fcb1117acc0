"""What a head of the lab's queue knows of itself, beside the journal: it survives its process."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.file_trust import private
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError
from gpuconsole.state.filesystem import make_folder

FILE_NAME = "head.json"
_LARGEST = 4096


@dataclass(frozen=True, slots=True)
class Standing:
    """One head's part in leading the lab's queue."""

    head: str
    """Id of this head's state folder."""
    leads: bool = False
    """Whether the journal here was the lab's when this was written."""
    epoch: int = 0
    """The epoch in which it led, or leads."""
    followed: bool = False
    """Whether a standby has ever had a copy of the journal: then another head may have taken over,
    and the hosts are asked before this one leads."""
    in_step: bool = False
    """Whether a standby may take over by itself in this epoch, as it confirms what is written."""


class StandingFile:
    """Keeps a head's standing in its state folder. JournalError where it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / FILE_NAME
        self.present = self._read()

    def change(self, **changes: object) -> Standing:
        """Write what has changed, on the disk before this returns; return the standing then."""
        changed = replace(self.present, **changes)  # type: ignore[arg-type]
        if changed != self.present or not self.path.exists():
            self._write(changed)
            self.present = changed
        return changed

    def _read(self) -> Standing:
        try:
            with self.path.open("r", encoding="utf-8") as file:
                said = json.loads(file.read(_LARGEST))
            return Standing(
                head=str(said["head"]),
                leads=bool(said["leads"]),
                epoch=int(said["epoch"]),
                followed=bool(said["followed"]),
                in_step=bool(said["in_step"]),
            )
        except FileNotFoundError:
            return Standing(uuid.uuid4().hex)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JournalError(
                "It is unknown whether this head leads",
                msg("{path} cannot be read ({name}).", path=self.path, name=type(error).__name__),
                "Where the other head leads, remove it and start with --standby.",
            ) from error

    def _write(self, standing: Standing) -> None:
        said = {name: getattr(standing, name) for name in Standing.__slots__}
        draft = self.path.with_name(f".{FILE_NAME}.{os.getpid()}")
        try:
            make_folder(self._folder)
            with open(draft, "w", encoding="utf-8", opener=private) as file:
                file.write(json.dumps(said))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise JournalError(
                "A head's standing cannot be written",
                msg("{path}: {strerror}.", path=self.path, strerror=error.strerror),
                "Check space and rights of the state folder.",
            ) from error
