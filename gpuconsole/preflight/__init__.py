"""Preflight: predicts what a script will need on a device before it runs.

`analyse` reads a script (never running it), `Analysis.estimate` answers for a batch size, and
`report` holds a task against cards. Pure: no clock, no network, no user code.

The names below are imported when they are used: what needs a figure of a device does not pay for
the reading of scripts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuconsole.preflight.accuracy.calibration import Calibration
    from gpuconsole.preflight.assumptions import read_assumption, split
    from gpuconsole.preflight.card import Card, cards
    from gpuconsole.preflight.memory.curve import curve
    from gpuconsole.preflight.remembered_answers import noted, require_known, with_remembered
    from gpuconsole.preflight.report_builder import report, unread
    from gpuconsole.preflight.suggestions import change_of
    from gpuconsole.preflight.tiers.formula import Formula
    from gpuconsole.preflight.tiers.measured import Measured
    from gpuconsole.preflight.tiers.static import Analysis, analyse
    from gpuconsole.preflight.tiers.two_tiers import TwoTiers
    from gpuconsole.preflight.verdicts import Estimator

__all__ = [
    "Analysis",
    "Calibration",
    "Card",
    "Estimator",
    "Formula",
    "Measured",
    "TwoTiers",
    "analyse",
    "cards",
    "change_of",
    "curve",
    "noted",
    "read_assumption",
    "report",
    "require_known",
    "split",
    "unread",
    "with_remembered",
]

_HOMES = {
    "Analysis": "tiers.static",
    "Calibration": "accuracy.calibration",
    "Card": "card",
    "Estimator": "verdicts",
    "Formula": "tiers.formula",
    "Measured": "tiers.measured",
    "TwoTiers": "tiers.two_tiers",
    "analyse": "tiers.static",
    "cards": "card",
    "change_of": "suggestions",
    "curve": "memory.curve",
    "noted": "remembered_answers",
    "read_assumption": "assumptions",
    "report": "report_builder",
    "require_known": "remembered_answers",
    "split": "assumptions",
    "unread": "report_builder",
    "with_remembered": "remembered_answers",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
