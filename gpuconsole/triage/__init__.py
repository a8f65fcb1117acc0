"""What is wrong in the lab: rules over pictures of it, and a watch that waits until they hold.

Pure: time is handed in, nothing is read and nothing is written.
"""

from gpuconsole.triage.actions import actions_for, ticket
from gpuconsole.triage.context import Surroundings
from gpuconsole.triage.detector import Changes, Watch
from gpuconsole.triage.model import Finding, Scene
from gpuconsole.triage.rules import RULES, Rule

__all__ = [
    "RULES",
    "Changes",
    "Finding",
    "Rule",
    "Scene",
    "Surroundings",
    "Watch",
    "actions_for",
    "ticket",
]
