"""Where a job runs and why: filters, scores, queue order, why-waiting. Pure.

`decide` answers for one job, `plan` for a queue. Time is an argument; the same picture, leases,
policy and time always give the same answer.
"""

from gpuconsole.placement.command import launch_command
from gpuconsole.placement.decide import decide, plan
from gpuconsole.placement.devices import devices_wanted
from gpuconsole.placement.model import (
    Blocker,
    Candidate,
    Decision,
    Holder,
    Policy,
    Rejection,
    Request,
    Waiting,
)
from gpuconsole.placement.policy import POLICIES, named_policy, policy_for

__all__ = [
    "POLICIES",
    "Blocker",
    "Candidate",
    "Decision",
    "Holder",
    "Policy",
    "Rejection",
    "Request",
    "Waiting",
    "decide",
    "devices_wanted",
    "launch_command",
    "named_policy",
    "plan",
    "policy_for",
]
