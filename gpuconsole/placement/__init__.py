"""Where a job runs and why: filters, scores, queue order, why-waiting. Pure.

`decide` answers for one job, `plan` for a queue. Time is an argument; the same picture, leases,
policy and time always give the same answer.
"""

from gpuconsole.placement.command import launch_command
from gpuconsole.placement.decide import decide, plan
from gpuconsole.placement.devices import STEPS, devices_wanted, largest_groups, need_on
from gpuconsole.placement.model import (
    Blocker,
    Candidate,
    Decision,
    Holder,
    Place,
    Policy,
    Rejection,
    Request,
    Waiting,
)
from gpuconsole.placement.policy import POLICIES, named_policy, policy_for
from gpuconsole.placement.survey import engine_fault

__all__ = [
    "POLICIES",
    "STEPS",
    "Blocker",
    "Candidate",
    "Decision",
    "Holder",
    "Place",
    "Policy",
    "Rejection",
    "Request",
    "Waiting",
    "decide",
    "devices_wanted",
    "engine_fault",
    "largest_groups",
    "launch_command",
    "named_policy",
    "need_on",
    "plan",
    "policy_for",
]
