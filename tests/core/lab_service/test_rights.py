"""Who may do what in the lab's queue: each right for its holders, and the whole refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from gpuconsole.core.jobs import Job, JobState, Mount, Task
from gpuconsole.core.lab_service.rights import (
    Caller,
    Policy,
    Rights,
    require_allowed,
    require_image,
)
from gpuconsole.errors import RefusedError
from gpuconsole.placement.rules.quotas import Window

ANN = Caller(1001, "ann", frozenset({"vision"}), 100)
BOB = Caller(1002, "bob", frozenset(), 100)
OPERATOR = Caller(1003, "eve", frozenset({"staff"}), 100)
ROOT = Caller(0, "root")
RIGHTS = Rights(
    operators=("@staff",),
    priority=("ann",),
    accounts={"grant": ("@vision",)},
    measure_on_device=("ann",),
    gangs=("@vision",),
    windows={"course": ("ann",)},
)
JOB = Job("j1", Task("t"), "ann", JobState.QUEUED, 1.0)
COURSE = Window("course", 0.0, 1.0, users=("dan",), accounts=("school",), labels={"course": "ml"})


def refusal(act: Callable[[], object]) -> tuple[str, str, str] | None:
    try:
        act()
    except RefusedError as error:
        return error.title, error.message, error.hint
    return None


@pytest.mark.parametrize(
    ("names", "listed"),
    [((), False), (("ann",), True), (("bob", "ann"), True), (("@vision",), True),
     (("vision",), False), (("@ann",), False), (("@staff",), False)],
)  # fmt: skip
def test_a_list_names_users_and_groups(names: tuple[str, ...], listed: bool) -> None:
    assert ANN.is_in(names) is listed


@pytest.mark.parametrize(
    ("caller", "ids", "user"),
    [(ANN, None, ""), (ANN, {}, "1001:100"), (ANN, {"ann": "7:8"}, "7:8"),
     (ANN, {"bob": "7:8"}, "1001:100"), (ROOT, None, "")],
)  # fmt: skip
def test_containers_run_as_their_user(
    caller: Caller, ids: Mapping[str, str] | None, user: str
) -> None:
    assert Policy(ids=ids).run_as(caller) == user


@pytest.mark.parametrize(
    ("caller", "ids"), [(ROOT, {}), (ANN, {"ann": "0:8"}), (ANN, {"ann": "7:0"})]
)
def test_no_container_runs_as_root(caller: Caller, ids: Mapping[str, str]) -> None:
    assert refusal(lambda: Policy(ids=ids).run_as(caller)) == (
        "Containers do not run as root",
        "The lab runs each job as its user, and none as root.",
        "Submit it from another account.",
    )


def test_an_operator_is_named_or_root() -> None:
    assert [RIGHTS.is_operator(each) for each in (ANN, BOB, OPERATOR, ROOT)] == [
        False, False, True, True,
    ]  # fmt: skip
    assert refusal(lambda: RIGHTS.require_operator(OPERATOR, "Draining")) is None
    assert refusal(lambda: RIGHTS.require_operator(ANN, "Draining")) == (
        "Only an operator may do that",
        "Draining is for the lab's operators; you are ann.",
        "Ask one of them.",
    )


def test_a_job_is_its_owners_and_the_operators() -> None:
    for caller in (ANN, OPERATOR, ROOT):
        assert refusal(lambda caller=caller: RIGHTS.require_own(caller, JOB)) is None
    assert refusal(lambda: RIGHTS.require_own(BOB, JOB)) == (
        "Not your job",
        "Job j1 belongs to ann; you are bob.",
        "Its owner and the lab's operators may act on it.",
    )


@pytest.mark.parametrize(
    ("caller", "priority", "refused"),
    [(BOB, 0, False), (BOB, -1, False), (BOB, 1, True), (ANN, 1, False), (OPERATOR, 9, False)],
)
def test_a_priority_above_0_needs_a_right(caller: Caller, priority: int, refused: bool) -> None:
    assert refusal(lambda: RIGHTS.require_priority(caller, priority)) == (
        (
            "No right to that priority",
            f"bob may ask for priorities up to 0, not {priority}.",
            "Submit it with 0 or less, or ask an operator to raise it.",
        )
        if refused
        else None
    )


@pytest.mark.parametrize("caller", [ANN, OPERATOR, ROOT])
def test_who_may_measure_on_a_device_and_have_several_hosts(caller: Caller) -> None:
    RIGHTS.require_device(caller)
    RIGHTS.require_gang(caller, Task("t", hosts=2))
    RIGHTS.require_account(caller, "grant")


def test_who_may_not_measure_on_a_device_nor_have_several_hosts() -> None:
    Rights().require_device(BOB)
    Rights().require_gang(BOB, Task("t", hosts=2))
    RIGHTS.require_gang(BOB, Task("t", hosts=1))
    RIGHTS.require_account(BOB, "other")
    RIGHTS.require_account(BOB, "")
    assert refusal(lambda: RIGHTS.require_device(BOB)) == (
        "No right to measure on a device",
        "bob may have scripts measured without a device alone.",
        "Choose another tier: --tier meta or --tier traced.",
    )
    assert refusal(lambda: RIGHTS.require_gang(BOB, Task("t", hosts=2))) == (
        "No right to several hosts",
        "Jobs over several hosts are in the hosts' own network; bob may have jobs on one host"
        " alone.",
        "Ask for one host, or an operator to submit it.",
    )
    assert refusal(lambda: RIGHTS.require_account(BOB, "grant")) == (
        "No right to that account",
        "bob may not use the account grant.",
        "Name another, or none.",
    )


@pytest.mark.parametrize(
    ("caller", "task", "what"),
    [
        (BOB, Task("t"), ""),
        (BOB, Task("t", labels={"course": "ai"}), ""),
        (BOB, Task("t", labels={"course": "ml"}), "label course"),
        (BOB, Task("t", account="school"), "account school"),
        (BOB, Task("t", labels={"course": "ml"}, account="school"), "account school"),
        (ANN, Task("t", labels={"course": "ml"}), ""),
        (OPERATOR, Task("t", account="school"), ""),
        (replace(BOB, name="dan"), Task("t", account="school"), ""),
    ],
)
def test_nobody_gets_into_a_window_by_a_word(caller: Caller, task: Task, what: str) -> None:
    other = replace(COURSE, name="other", users=("bob", "ann", "dan"))
    assert refusal(lambda: RIGHTS.require_windows(caller, task, [other, COURSE])) == (
        (
            "No right to that window",
            f"Jobs with the {what} get the time of course, to which bob has no right.",
            "Leave it out, or ask an operator to submit the job.",
        )
        if what
        else None
    )


def test_an_account_that_is_kept_for_some_was_asked_for_before() -> None:
    window = replace(COURSE, accounts=("grant",), labels={})
    RIGHTS.require_windows(BOB, Task("t", account="grant"), [window])


def not_allowed(what: str, hint: str) -> tuple[str, str, str]:
    return "Not within the lab's policy", f"{what} is not allowed here.", hint


@pytest.mark.parametrize(
    ("patterns", "image", "allowed"),
    [(("*",), "paddle:1", None), (("paddle:*",), "paddle:1", None),
     (("a", "paddle:[12]"), "paddle:2", None), (("a", "b"), "paddle:1", "a, b"),
     (("PADDLE:1",), "paddle:1", "PADDLE:1"), ((), "paddle:1", "none")],
)  # fmt: skip
def test_an_image_is_one_of_the_patterns(
    patterns: tuple[str, ...], image: str, allowed: str | None
) -> None:
    said = refusal(lambda: require_image(image, Policy(images=patterns)))
    assert said == (
        None if allowed is None else not_allowed("The image paddle:1", f"Allowed are: {allowed}.")
    )
    # An image that the task leaves to the lab is asked for where it is known.
    assert refusal(lambda: require_allowed(Task("t", image=image), Policy(images=patterns))) == said
    require_allowed(Task("t"), Policy(images=()))


@pytest.mark.parametrize(
    ("task", "policy", "said"),
    [
        (Task("t", network="lab"), Policy(), None),
        (Task("t", network="host"), Policy(),
         not_allowed("`network: host`", "Allowed are: none, lab.")),
        (Task("t", network="lab"), Policy(networks=()),
         not_allowed("`network: lab`", "Allowed are: none.")),
        (Task("t", devices=4), Policy(devices=4), None),
        (Task("t", devices=5), Policy(devices=4),
         not_allowed("5 devices", "A job may have 4 at most.")),
        (Task("t", devices=None), Policy(), None),
        (Task("t", devices=None), Policy(devices=4),
         not_allowed("An open number of devices", "Name one. A job may have 4 at most.")),
        (Task("t", memory_limit_mib=2048.0), Policy(memory_mib=2048.0), None),
        (Task("t", memory_limit_mib=2049.0), Policy(), None),
        (Task("t"), Policy(memory_mib=1.0), None),
        (Task("t", memory_limit_mib=4096.0), Policy(memory_mib=2048.0),
         not_allowed("`memory_limit: 4.0 GiB`",
                     "A job may have 2.0 GiB of a host's memory at most.")),
        (Task("t", memory_limit_mib=2048.5), Policy(memory_mib=2048.0),
         not_allowed("`memory_limit: 2.0 GiB`",
                     "A job may have 2.0 GiB of a host's memory at most.")),
    ],
)  # fmt: skip
def test_a_task_may_ask_for_what_the_policy_allows(
    task: Task, policy: Policy, said: tuple[str, str, str] | None
) -> None:
    assert refusal(lambda: require_allowed(task, policy)) == said


MOUNTS = ("/data", "/scratch:rw")


@pytest.mark.parametrize(
    ("source", "read_only", "allowed"),
    [
        ("/data", True, True), ("/data/", True, True), ("/data/a/b", True, True),
        ("/data/../etc", True, False), ("/database", True, False), ("/", True, False),
        ("data", True, False), ("/data", False, False), ("/data/a", False, False),
        ("/scratch", True, True), ("/scratch", False, True), ("/scratch/.", False, True),
        ("/scratch/a", True, False), ("/scratch/a", False, False),
    ],
)  # fmt: skip
def test_a_mount_is_within_the_folders_of_the_policy(
    source: str, read_only: bool, allowed: bool
) -> None:
    task = Task("t", mounts=(Mount(source, "/in", read_only),))
    what = f"Mounting {source}{'' if read_only else ' for writing'}"
    assert refusal(lambda: require_allowed(task, Policy(mounts=MOUNTS))) == (
        None if allowed else not_allowed(what, "Allowed are: /data, /scratch:rw.")
    )


def test_by_default_there_is_no_folder_to_mount() -> None:
    task = Task("t", mounts=(Mount("/data", "/in"),))
    assert refusal(lambda: require_allowed(task, Policy())) == not_allowed(
        "Mounting /data", "Allowed are: no folder."
    )
