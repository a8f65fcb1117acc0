"""What a session is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Hosts
from gpuconsole.core.power import NOTHING, Power
from gpuconsole.session.clock import Clock, WallClock
from gpuconsole.session.estimate.preflight_runner import Preflights
from gpuconsole.session.submit.validate import Packer
from gpuconsole.state import Journal


@dataclass(frozen=True, slots=True)
class Parts:
    """What a session is made of; `session.factory` puts the real ones together."""

    hosts: Hosts
    journal: Journal
    settings: LabSettings
    user: str
    pack: Packer
    default_image: Callable[[str], str]
    clock: Clock = field(default_factory=WallClock)
    preflights: Preflights | None = None
    read_only: bool = False
    simulated: bool = False
    dispatch: bool = True
    power: Power = NOTHING
    """What wakes hosts and puts them to sleep."""
    on_close: Callable[[], None] = lambda: None
