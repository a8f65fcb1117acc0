"""The simulated lab behind `gpuconsole demo`: moves like a real one, runs nothing."""

from gpuconsole.lab.engine import SimulatedEngine
from gpuconsole.lab.hosts import SimulatedHosts

__all__ = ["SimulatedEngine", "SimulatedHosts"]
