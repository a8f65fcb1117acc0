"""Where a job runs and why: filters, scores, queue order, why-waiting. Pure.

`decide` answers for one job, `plan` for a queue. Time is an argument; the same picture, leases,
policy and time always give the same answer.
"""

from gpuconsole.placement.decide import decide, decide_on, pass_over, plan, why_waiting
from gpuconsole.placement.engine.board import Board
from gpuconsole.placement.engine.device_state import engine_fault
from gpuconsole.placement.launch_command import launch_command
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
from gpuconsole.placement.policy import POLICIES, lab_policy, named_policy
from gpuconsole.placement.sizing.gpu_count import STEPS, devices_wanted, largest_groups, need_on

__all__ = [
    "POLICIES",
    "STEPS",
    "Blocker",
    "Board",
    "Candidate",
    "Decision",
    "Holder",
    "Place",
    "Policy",
    "Rejection",
    "Request",
    "Waiting",
    "decide",
    "decide_on",
    "devices_wanted",
    "engine_fault",
    "lab_policy",
    "largest_groups",
    "launch_command",
    "named_policy",
    "need_on",
    "pass_over",
    "plan",
    "why_waiting",
]
