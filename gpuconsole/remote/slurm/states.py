"""Slurm's own words for why a job waits and how it ended, in a person's words."""

from __future__ import annotations

import re

from gpuconsole.core.text import clean

WAITING = {
    "None": "Slurm has not looked at it yet.",
    "Resources": "No node has free what it asks for; it is first in line.",
    "Priority": "Other jobs come before it.",
    "Dependency": "It comes after another job that has not ended.",
    "DependencyNeverSatisfied": "It comes after a job that did not end well, so it never starts.",
    "BeginTime": "Its start time has not come.",
    "JobHeldUser": "Its user holds it in Slurm (`scontrol release` lets it go).",
    "JobHeldAdmin": "An administrator holds it in Slurm.",
    "ReqNodeNotAvail": "Nodes that it needs are down, drained or reserved.",
    "NodeDown": "A node that it needs is down.",
    "Reservation": "Its reservation has not begun.",
    "BadConstraints": "No node can ever give what it asks for.",
    "Licenses": "It waits for a licence.",
    "JobArrayTaskLimit": "As many tasks of its array run as may run at once.",
    "PartitionDown": "Its partition takes no jobs now.",
    "PartitionInactive": "Its partition is switched off.",
    "PartitionNodeLimit": "It asks for more nodes than its partition allows.",
    "PartitionTimeLimit": "It asks for more time than its partition allows.",
    "PartitionConfig": "Its partition cannot give what it asks for.",
    "AccountNotAllowed": "Its account may not use this partition.",
    "QOSNotAllowed": "Its quality of service may not be used here.",
    "InvalidAccount": "Slurm does not know its account.",
    "InvalidQOS": "Slurm does not know its quality of service.",
    "Prolog": "The node is being made ready.",
    "Cleaning": "Its last run is being cleared away.",
    "JobHoldMaxRequeue": "It was started again too often, and is held.",
    "NonZeroExitCode": "It ended with an error.",
    "TimeLimit": "It ran as long as it may.",
    "JobLaunchFailure": "Slurm could not start it; the node's slurmd log says why.",
    "launch_failed_requeued_held": "Slurm could not start it, and holds it.",
    "NodeFail": "Its node failed.",
    "RaisedSignal": "It was ended by a signal.",
}
"""By the names of Slurm's `squeue` (JOB REASON CODES); limits follow a pattern of their own."""

_OWNERS = (
    (re.compile(r"QOS"), "its quality of service"),
    (re.compile(r"Assoc(?:iation)?"), "its account"),
)
_SUBJECTS = (
    (re.compile(r"GRES", re.I), "GPUs"),
    (re.compile(r"CPU", re.I), "processors"),
    (re.compile(r"Mem(?:ory)?", re.I), "memory"),
    (re.compile(r"Node", re.I), "nodes"),
    (re.compile(r"Wall|Time", re.I), "time"),
    (re.compile(r"Submit", re.I), "waiting jobs"),
    (re.compile(r"Jobs?", re.I), "jobs"),
    (re.compile(r"Billing", re.I), "billed use"),
)
_LIMIT = re.compile(r"Max|Min|Grp|Limit|Per", re.I)

ENDED = {
    "CANCELLED": "It was cancelled in Slurm, not by this console.",
    "TIMEOUT": "Slurm ended it at its time limit.",
    "OUT_OF_MEMORY": "Slurm ended it: host memory ran out.",
    "NODE_FAIL": "Its node failed.",
    "PREEMPTED": "Slurm ended it for a job that goes first.",
    "BOOT_FAIL": "Its node could not be started.",
    "DEADLINE": "Slurm ended it at its deadline.",
    "REVOKED": "Slurm gave it to another cluster.",
    "LAUNCH_FAILED": "Slurm could not start it.",
    "RECONFIG_FAIL": "Slurm could not set its node up.",
}
"""Ends of a job that its script did not choose."""


def waiting_sentence(reason: str) -> str:
    """Return why a job waits, by Slurm's word for it; the word itself is always named."""
    word = clean(reason, 80).strip("()")
    sentence = WAITING.get(word.partition(",")[0].strip())
    if sentence is None:
        sentence = _limit_sentence(word)
    return f"{sentence.rstrip('.')} (Slurm says {word})."


def ended_sentence(state: str) -> str:
    """Return how a job ended that was ended by Slurm; "" when its script ended by itself."""
    return ENDED.get(state, "")


def _limit_sentence(word: str) -> str:
    """Return a sentence for one of Slurm's hundred words for limits, such as
    `QOSMaxGRESPerUser` or `AssocGrpCpuLimit`."""
    if not _LIMIT.search(word):
        return "Slurm lets it wait"
    owner = next((name for pattern, name in _OWNERS if pattern.search(word)), "a limit")
    rest = re.sub(r"QOS|Assoc(?:iation)?|PerUser|PerAccount|PerJob|PerNode", "", word)
    subject = next((name for pattern, name in _SUBJECTS if pattern.search(rest)), "use")
    scopes = {"PerUser": " of its user", "PerAccount": " of its account"}
    holder = next((text for key, text in scopes.items() if key in word), "")
    if "PerJob" in word or "MaxWall" in word:
        return f"It asks for more {subject} than {owner} allows one job"
    if "Grp" in word:
        holder = " of all its users together"
    return f"The {subject}{holder} are at what {owner} allows"
