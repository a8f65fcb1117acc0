"""The policies of a lab, with the trained weights of its state folder where they may be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.errors import ConsoleError
from gpuconsole.placement import Policy, lab_policy
from gpuconsole.placement.model import Learned

if TYPE_CHECKING:
    from gpuconsole.placement.learned import weights_file

_TRAINED = "rl_based"


class Policies:
    """Provides the policies of tasks. The weights are read once, when the first task asks for
    them."""

    def __init__(self, settings: LabSettings, folder: Path | None = None) -> None:
        """`folder` is the state folder; without one there are no weights."""
        self._settings = settings
        self._folder = folder
        self._read = False
        self._trained: weights_file.Trained | None = None
        self._fault = ""
        self._looked: FleetSnapshot | None = None
        self._usable: tuple[Learned | None, str] = (None, "")
        self._known: dict[tuple[str, str], tuple[Learned | None, Policy]] = {}

    def lab(self, snapshot: FleetSnapshot) -> Policy:
        """Return the lab's own policy."""
        return self._named(self._settings.policy, snapshot)

    def of(self, task: Task, snapshot: FleetSnapshot) -> Policy:
        """Return the policy of a task: its own algorithm, else the lab's, with the lab's limits."""
        return self._named(task.algorithm or self._settings.policy, snapshot)

    def _named(self, name: str, snapshot: FleetSnapshot) -> Policy:
        learned, note = self._learned(name, snapshot)
        cached = self._known.get((name, note))
        if cached is None or cached[0] is not learned:
            policy = lab_policy(self._settings, learned, note, name=name)
            self._known[name, note] = cached = learned, policy
        return cached[1]

    def _learned(self, name: str, snapshot: FleetSnapshot) -> tuple[Learned | None, str]:
        """Return what `rl_based` may use on this fleet, or a sentence why it goes without."""
        if name != _TRAINED:
            return None, ""
        if not self._read:
            self._read = True
            self._open()
        if self._trained is None:
            return None, self._fault
        if snapshot is not self._looked:
            models = [device.model for host in snapshot.hosts for device in host.devices]
            self._looked, self._usable = snapshot, self._trained.usable(models)
        return self._usable

    def _open(self) -> None:
        # Only where a task asks for them: not at the start of a console.
        from gpuconsole.placement.learned import weights_file

        path = None if self._folder is None else self._folder / weights_file.FILE_NAME
        if path is None or not path.exists():
            return
        try:
            self._trained = weights_file.read(path)
        except ConsoleError as error:
            # The queue goes on without them; every candidate says why.
            self._fault = f"The weights of rl_based cannot be used, weighted ranks: {error.message}"
