"""How many examples tests with random input try: few in `make test`, many in `make nightly`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("GPUCONSOLE_EXAMPLES", "local")
MANY = PROFILE == "many"


def load_profile() -> None:
    """Load the profile that the environment names: `local` or `many`.

    A machine that others share may stand still for a moment: no random test fails by the clock.
    Where the variable CI is set, `local` takes the same examples in each run: so Hypothesis has it.
    """
    unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("local", parent=unhurried, max_examples=25)
    settings.register_profile("many", parent=unhurried, max_examples=2000, derandomize=False)
    settings.load_profile(PROFILE)
