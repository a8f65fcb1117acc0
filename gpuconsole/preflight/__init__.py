"""Preflight: what a script will need on a device, told before it runs.

`analyse` reads a script (never running it), `Analysis.estimate` answers for a batch size, and
`report` holds a task against cards. Pure: no clock, no network, no user code.
"""

from gpuconsole.preflight.analysis import Analysis, analyse
from gpuconsole.preflight.answering import noted, require_known, with_remembered
from gpuconsole.preflight.assumptions import read as read_assumption
from gpuconsole.preflight.assumptions import split
from gpuconsole.preflight.calibration import Calibration
from gpuconsole.preflight.card import Card, cards
from gpuconsole.preflight.curve import curve
from gpuconsole.preflight.formula import Formula
from gpuconsole.preflight.measured import Measured
from gpuconsole.preflight.report import report

__all__ = [
    "Analysis",
    "Calibration",
    "Card",
    "Formula",
    "Measured",
    "analyse",
    "cards",
    "curve",
    "noted",
    "read_assumption",
    "report",
    "require_known",
    "split",
    "with_remembered",
]
