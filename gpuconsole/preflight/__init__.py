"""Preflight: what a script will need on a device, told before it runs.

`analyse` reads a script (never running it), `Analysis.estimate` answers for a batch size, and
`report` holds a task against cards. Pure: no clock, no network, no user code.

The names below are imported when they are used: what needs a figure of a device does not pay for
the reading of scripts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuconsole.preflight.advice import Estimator
    from gpuconsole.preflight.analysis import Analysis, analyse
    from gpuconsole.preflight.answering import noted, require_known, with_remembered
    from gpuconsole.preflight.assumptions import read_assumption, split
    from gpuconsole.preflight.calibration import Calibration
    from gpuconsole.preflight.card import Card, cards
    from gpuconsole.preflight.curves import curve
    from gpuconsole.preflight.formula import Formula
    from gpuconsole.preflight.measured import Measured
    from gpuconsole.preflight.reporting import report, unread
    from gpuconsole.preflight.suggestions import change_of

__all__ = [
    "Analysis",
    "Calibration",
    "Card",
    "Estimator",
    "Formula",
    "Measured",
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
    "Analysis": "analysis",
    "Calibration": "calibration",
    "Card": "card",
    "Estimator": "advice",
    "Formula": "formula",
    "Measured": "measured",
    "analyse": "analysis",
    "cards": "card",
    "change_of": "suggestions",
    "curve": "curves",
    "noted": "answering",
    "read_assumption": "assumptions",
    "report": "reporting",
    "require_known": "answering",
    "split": "assumptions",
    "unread": "reporting",
    "with_remembered": "answering",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
