"""The simulated lab behind `gpuconsole demo`: moves like a real one, runs nothing."""

from gpuconsole.simulated_lab.engine import SimulatedEngine
from gpuconsole.simulated_lab.hosts import SimulatedHosts

__all__ = ["SimulatedEngine", "SimulatedHosts"]
