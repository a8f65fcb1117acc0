"""The rules of a lab as the engine asks for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import Board, Holder, Request, decide, named_policy, pass_over
from gpuconsole.placement.engine.queue_pass import sweep_key
from gpuconsole.placement.rules.quotas import Limits, Quota, Use, Window
from gpuconsole.placement.rules.rules import LabRules, limits_of, usage_of
from gpuconsole.yamldoc import parse

NOW = 1_800_000_000.0
A100 = Host("a", devices=(Device("GPU-1", 0, "NVIDIA A100-SXM4-40GB", memory_total_mib=40960.0),))
RTX = Host("r", devices=(Device("GPU-2", 0, "NVIDIA GeForce RTX 3090", memory_total_mib=24576.0),))


def request(devices: int = 1, user: str = "ada") -> Request:
    return Request("q", Task("t", image="paddle:1"), 100.0, devices, NOW, user=user)


def test_quotas_hold_for_jobs_and_hosts() -> None:
    rules = LabRules(Limits((Quota(devices=2),), max_devices_per_host=1), Use(), NOW)
    assert rules.job(request(2), {}) is None
    taken = rules.job(request(1), {"user:ada": 2})
    assert taken is not None
    assert taken.code == "quota"
    never = rules.job(request(3), {})
    assert never is not None
    assert never.code == "beyond"
    assert "It asks for 3 devices" in never.sentence
    assert rules.host(request(), A100, 0, 1) is None
    crowded = rules.host(request(), A100, 1, 1)
    assert crowded is not None
    assert crowded.code == "quota"


def test_a_gang_counts_on_each_host_what_it_takes_there() -> None:
    rules = LabRules(Limits(max_devices_per_host=2), Use(), NOW)
    hosts = [
        Host(
            name,
            HostState.UP,
            devices=tuple(
                Device(f"{name}{n}", n, "RTX 3090", memory_total_mib=24_000.0, memory_used_mib=0.0)
                for n in range(4)
            ),
        )
        for name in ("a", "b")
    ]
    fleet = FleetSnapshot(1, NOW, tuple(hosts))
    gang = Request("g", Task("t", hosts=2), 1000.0, 4, NOW, user="ada")
    chosen = decide(gang, fleet, {}, named_policy(), NOW, rules).chosen
    assert chosen is not None
    assert [(each.host, len(each.devices)) for each in chosen.places] == [("a", 2), ("b", 2)]
    single = decide(replace(gang, task=Task("t")), fleet, {}, named_policy(), NOW, rules)
    assert single.waiting is not None
    assert "it asks for 4" in single.waiting.reason
    holder = Holder("o", "other", "ada", NOW, None)
    crowded = decide(gang, fleet, {"a0": holder}, named_policy(), NOW, rules)
    assert crowded.chosen is None
    assert crowded.waiting is not None
    assert "ada holds 1 on a" in crowded.waiting.reason


def test_a_window_for_a_model_finds_it_by_its_short_name() -> None:
    window = Window("paper", NOW, NOW + 60, models=("A100-40GB",), users=("eve",))
    rules = LabRules(Limits(windows=(window,)), Use(), NOW)
    kept = rules.host(request(), A100, 0, 1)
    assert kept is not None
    assert kept.code == "window"
    assert rules.host(request(), RTX, 0, 1) is None
    assert rules.host(Request("e", Task("t"), 1.0, 1, NOW, user="eve"), A100, 0, 1) is None


def test_an_image_that_does_not_suit_a_host() -> None:
    def suits(asked: Request, host: Host) -> str:
        return "Its driver is too old." if host.name == "r" else ""

    rules = LabRules(Limits(), Use(), NOW, suits)
    unsuited = rules.host(request(), RTX, 0, 1)
    assert unsuited is not None
    assert (unsuited.code, unsuited.sentence) == ("image", "Its driver is too old.")
    assert rules.host(request(), A100, 0, 1) is None


@pytest.mark.parametrize(
    ("at_most", "running", "reason"),
    [
        (None, 9, ""), (1, 0, ""), (3, 2, ""),
        (1, 1, "Its sweep s may have 1 at once, and 1 job runs."),
        (2, 2, "Its sweep s may have 2 at once, and 2 jobs run."),
        (2, 3, "Its sweep s may have 2 at once, and 3 jobs run."),
    ],
)  # fmt: skip
def test_a_sweep_has_so_many_jobs_at_once(at_most: int | None, running: int, reason: str) -> None:
    asked = Request("q", Task("t", sweep="s", at_most=at_most), 100.0, 1, NOW, user="ada")
    ruling = LabRules(Limits(), Use(), NOW).job(asked, {sweep_key("ada", "s"): running})
    assert (ruling.code, ruling.sentence) == ("sweep", reason) if ruling else reason == ""


@pytest.mark.parametrize(("folder", "code"), [("", "interruptible"), ("/ckpt", "")])
def test_a_host_that_may_be_taken_away_is_for_jobs_that_go_on(folder: str, code: str) -> None:
    asked = Request("q", Task("t", checkpoint_dir=folder), 100.0, 1, NOW, user="ada")
    ruling = LabRules(Limits(), Use(), NOW).host(asked, replace(A100, interruptible=True), 0, 1)
    assert (ruling.code if ruling else "") == code


def test_a_job_with_checkpoints_is_not_taken_for_one_without() -> None:
    """Both ask for the same else: that the first found no place says nothing of the second."""
    host = replace(
        A100, state=HostState.UP, interruptible=True,
        devices=(replace(A100.devices[0], memory_used_mib=0.0),),
    )  # fmt: skip
    queue = [
        Request(job, Task("t", checkpoint_dir=folder), 100.0, 1, NOW, user="ada")
        for job, folder in (("1", ""), ("2", "/ckpt"))
    ]
    board = Board.of(FleetSnapshot(1, NOW, (host,)))
    policy = replace(named_policy(), backfill="skip")
    outcome, _ = pass_over(queue, board, policy, NOW, LabRules(Limits(), Use(), NOW))
    assert [start.request.job for start in outcome.started] == ["2"]


SETTINGS = """
half_life: 2d
shares: {users: {ada: 3}}
max_devices_per_host: 4
quotas:
  - {user: "*", devices: 8}
  - {account: grant, device_hours: 200, per: month}
windows:
  - name: course
    begins: 2030-01-14T10:00Z
    ends: 2030-01-14T12:00Z
    repeat: week
    hosts: [a]
    labels: {course: ml}
    clear: 30m
"""


def test_settings_say_the_limits() -> None:
    settings = parse(SETTINGS, "config.yaml", LabSettings)
    limits = limits_of(settings)
    assert limits.max_devices_per_host == 4
    assert limits.quotas == (
        Quota("*", "user", 8),
        Quota("grant", "account", None, 200.0, "month"),
    )
    (window,) = limits.windows
    assert (window.repeat, window.hosts, window.clear_s) == ("week", ("a",), 1800.0)
    assert window.ends_at - window.begins_at == 7200.0
    assert limits_of(LabSettings()) == Limits()
    usage = usage_of(settings)
    usage.begin("1", "ada", "", 1, NOW)
    usage.begin("2", "bob", "", 1, NOW)
    assert usage.user("ada", NOW + 60).due == 0.75
