"""What a lab's rules, its policy and the jobs before it say to a job: on a device, and in all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.fleet import Host
from gpuconsole.placement import Decision, Holder, Request, decide, named_policy, plan
from gpuconsole.placement.model import Policy, Rules
from gpuconsole.placement.rules.quotas import Limits, Quota, Use, Window
from gpuconsole.placement.rules.rules import LabRules
from tests.placement.fleets import NOW, card, fleet, held, up, wants

PLAIN = named_policy()
WINDOW = Limits(windows=(Window("paper", NOW, NOW + 60, hosts=("h",), users=("eve",)),))
RAISE = "Raise its priority to be next, or cancel a job that holds a device."


def lab(limits: Limits) -> Rules:
    return LabRules(limits, Use(), NOW)


def no_image(request: Request, host: Host) -> str:
    return f"The driver of {host.name} is too old for it."


def judged(
    request: Request, *hosts: Host, rules: Rules, policy: Policy = PLAIN, **holders: Holder
) -> Decision:
    decision = decide(replace(request, user="ann"), fleet(*hosts), holders, policy, NOW, rules)
    assert decision.chosen is None
    return decision


@pytest.mark.parametrize(
    ("rules", "host", "filter_", "sentence", "reason", "options"),
    [
        (lab(WINDOW), up("h", card("u")), "window",
         "Kept for eve (paper) from 1970-01-12 13:46 UTC to 1970-01-12 13:47 UTC.",
         "1 device could do it: 1 kept for others at this time.", ()),
        (LabRules(Limits(), Use(), NOW, no_image), up("h", card("u")), "image",
         "The driver of h is too old for it.", "",
         ("Choose an image for the drivers that the hosts have.",)),
        (lab(Limits()), up("h", card("u"), interruptible=True), "interruptible",
         "h may be taken away at any time: only jobs with a `checkpoint_dir`, from which they go"
         " on, may use it.",
         "The hosts that could hold it may be taken away, and it has no `checkpoint_dir`.",
         ("Let it save checkpoints and name their folder (`checkpoint_dir`).",)),
    ],
)  # fmt: skip
def test_a_host_that_a_rule_keeps_from_a_job(
    rules: Rules,
    host: Host,
    filter_: str,
    sentence: str,
    reason: str,
    options: tuple[str, ...],
) -> None:
    decision = judged(wants(), host, rules=rules)
    assert [(each.filter, each.reason) for each in decision.rejections] == [(filter_, sentence)]
    why = decision.waiting
    assert why is not None
    whole = reason or sentence if options else f"{reason} {sentence}"
    assert (why.reason, why.options) == (whole, options)


TWO = up("h", card("u"), card("w"))
MINE = replace(held("x"), user="ann")
ON_ONE_HOST = "One user may have 1 device on one host; ann holds 1 on h."


@pytest.mark.parametrize("other", [{}, {"w": replace(held("y"), user="eve")}])
def test_only_the_users_own_devices_count_against_a_limit_on_a_host(
    other: dict[str, Holder],
) -> None:
    rules = lab(Limits(max_devices_per_host=1))
    decision = judged(wants(), TWO, rules=rules, u=MINE, **other)
    assert [(each.filter, each.reason) for each in decision.rejections] == [
        ("quota", ON_ONE_HOST),
        ("quota", ON_ONE_HOST),
    ]
    assert decision.waiting is not None
    assert decision.waiting.reason == (
        f"2 devices could do it: 2 beyond what this user may have there. {ON_ONE_HOST}"
    )


RAISE_LIMIT = ("Ask for fewer devices.", "Ask the lab's operators to raise the limit.")
WAIT = ("Wait, or ask the lab's operators to raise the limit.", "Ask for fewer devices.")


@pytest.mark.parametrize(
    ("request_", "limits", "reason", "options"),
    [
        (wants(devices=2), Limits((Quota(devices=1),)),
         "It asks for 2 devices; user ann may have 1 at once.", RAISE_LIMIT),
        (wants(sweep="s", at_most=1), Limits(),
         "Its sweep s may have 1 at once, and 1 job runs.", ("Wait until one of its jobs ends.",)),
    ],
)  # fmt: skip
def test_what_a_rule_forbids_wherever_it_may_start(
    request_: Request, limits: Limits, reason: str, options: tuple[str, ...]
) -> None:
    holder = replace(MINE, sweep="s")
    why = judged(request_, TWO, rules=lab(limits), u=holder).waiting
    assert why is not None
    assert (why.reason, why.options) == (reason, options)
    assert (why.blockers, why.estimated_start) == ((), None)


@pytest.mark.parametrize(("user", "name"), [("ann", "ann"), ("", "This user")])
def test_a_user_who_keeps_to_one_host_is_named(user: str, name: str) -> None:
    hosts = [up(host, card(host)) for host in "abc"]
    holders = {host: held() for host in "abc"}
    policy = replace(PLAIN, host_per_user=True)
    decision = decide(replace(wants(), user=user), fleet(*hosts), holders, policy, NOW)
    reasons = [each.reason for each in decision.rejections if each.filter == "quota"]
    assert reasons == [f"{name} keeps to another host."] * 2


BIG, SMALL = wants(job="big", devices=2, since=NOW - 9), wants(job="small")


@pytest.mark.parametrize(
    ("backfill", "reason", "options"),
    [
        ("easy", "2 devices could do it: 1 kept for a job before it, 1 in use by jobs. The first"
         " should be free in about 1m00s.",
         (RAISE, "Say how long it runs (`run_time`): what ends in time may pass.")),
        ("strict", "1 device could do it: 1 in use by jobs. The policy lets no job pass train"
         " (job big), which waits before it. The first should be free in about 1m00s.", (RAISE,)),
    ],
)  # fmt: skip
def test_a_job_behind_the_first_that_waits_says_so(
    backfill: str, reason: str, options: tuple[str, ...]
) -> None:
    policy = replace(PLAIN, order="fifo", backfill=backfill)
    holders = {"u": held("x", NOW + 60)}
    _, decision = plan([BIG, SMALL], fleet(TWO), holders, policy, NOW)
    why = decision.waiting
    assert why is not None
    assert (why.reason, why.options, why.estimated_start) == (reason, options, NOW + 60)
    (blocker,) = why.blockers
    assert (blocker.job, blocker.host, blocker.uuid) == ("x", "h", "u")
