"""What Prometheus reads: names after its conventions, true values, and a bounded number."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.incidents import Incident, Severity
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.units import MIB
from gpuconsole.errors import JournalError
from gpuconsole.session.context import Context
from gpuconsole.session.metrics import jobs, queue
from gpuconsole.session.metrics.collector import (
    FRESH_S,
    METRICS,
    Metrics,
    families,
    most_series,
)
from gpuconsole.session.metrics.console import RATIO_BUCKETS, prediction_facts
from gpuconsole.session.metrics.model import Picture, PredictionFacts, QueueFacts, Spread, Value
from gpuconsole.session.submit.validate import Packed
from gpuconsole.simulated_lab import SimulatedHosts
from gpuconsole.state import Journal
from tests.scripts import script
from tests.session.fakes import START, VirtualClock

DOCS = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
page = script(DOCS.with_name("tables.py")).metrics_page

WATCHING = DOCS.parents[1] / "watching"
UNITS = ("bytes", "ratio", "celsius", "watts", "hertz", "seconds", "total", "joules_total")
PLAIN = {
    "up", "healthy", "processes", "retired_pages", "last_xid", "nvlinks_up", "nvlinks_down",
    "info", "jobs", "asleep", "interruptible", "throttled", "drained", "devices", "cpus", "load1",
    "state", "incidents", "simulated", "engine_up", "dispatcher_up", "journal_up", "wanted_devices",
}  # fmt: skip
"""Last words of what has no unit: counts, and what is or is not."""


def values(picture: Picture) -> dict[tuple[str, tuple[str, ...]], Value]:
    found: dict[tuple[str, tuple[str, ...]], Value] = {}
    for family in families(picture):
        for words, value in family.samples:
            assert len(words) == len(family.metric.labels), family.metric.name
            key = (family.metric.name, words)
            assert key not in found, f"twice: {key}"
            found[key] = value
    return found


def series(picture: Picture) -> int:
    """Count series as Prometheus does."""
    return sum(
        len(value.counts) + 2 if isinstance(value, Spread) else 1
        for value in values(picture).values()
    )


def pictured(*hosts: Host, jobs: Sequence[Job] = (), **more: object) -> Picture:
    facts = queue.Tally("weighted").facts(jobs, START)
    snapshot = FleetSnapshot(1, START, hosts)
    made = Picture(START, snapshot, facts, prediction_facts(()))
    return replace(made, **more)  # type: ignore[arg-type]


DEVICE = Device(
    "GPU-1", 0, "A100-SXM4-40GB", memory_total_mib=40960.0, memory_used_mib=1024.0,
    utilization=25.0, temperature_c=61.0, power_w=300.0, energy_j=5.0, sm_clock_mhz=1410.0,
    throttle=("hw-thermal", "never heard of"), ecc_uncorrected=2,
)  # fmt: skip
HOST = Host("a", HostState.UP, devices=(DEVICE,), sampled_at=START - 2.0)


def test_names_follow_the_conventions() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"gpuconsole_[a-z][a-z0-9_]*", metric.name)
        assert (metric.kind == "counter") is metric.name.endswith("_total"), metric.name
        assert not re.search(r"_(mib|mb|percent|ms|minutes|hours)(_|$)", metric.name)
        last = metric.name.removeprefix("gpuconsole_")
        known = last.endswith(UNITS) or any(
            last == word or last.endswith(f"_{word}") for word in PLAIN
        )
        assert known, f"{metric.name}: a unit?"
        assert metric.help[0].isupper() or metric.help[0].isdigit()
        assert metric.help.endswith(".")
        assert list(metric.buckets) == sorted(metric.buckets)
        assert {"le", "job", "instance"}.isdisjoint(metric.labels), "words of Prometheus itself"


def test_a_device_is_told_in_base_units() -> None:
    found = values(pictured(HOST))
    at = ("a", "0")
    assert found["gpuconsole_device_memory_total_bytes", at] == 40960 * MIB
    assert found["gpuconsole_device_memory_used_bytes", at] == 1024 * MIB
    assert found["gpuconsole_device_utilization_ratio", at] == 0.25
    assert found["gpuconsole_device_temperature_celsius", at] == 61.0
    assert found["gpuconsole_device_sm_clock_hertz", at] == pytest.approx(1.41e9)
    assert found["gpuconsole_device_energy_joules_total", at] == 5.0
    assert found["gpuconsole_device_throttled", (*at, "hw-thermal")] == 1.0
    assert ("gpuconsole_device_throttled", (*at, "never heard of")) not in found
    assert ("gpuconsole_device_power_limit_watts", at) not in found, "it is unknown"
    info = ("gpuconsole_device_info", (*at, "GPU-1", "A100-SXM4-40GB", "gpu", ""))
    assert found[info] == 1.0
    assert found["gpuconsole_host_frame_age_seconds", ("a",)] == 2.0
    assert found["gpuconsole_host_state", ("a", "up")] == 1.0
    assert found["gpuconsole_host_state", ("a", "down")] == 0.0


@pytest.mark.parametrize(
    "ill",
    [
        {"lost": True},
        {"error": "no answer", "memory_used_mib": None},
        {"health": "warning"},
        {"remap_failed": True},
    ],
)
def test_a_device_with_a_complaint_is_not_healthy(ill: dict[str, object]) -> None:
    sick = replace(HOST, devices=(replace(DEVICE, **ill),))  # type: ignore[arg-type]
    found = values(pictured(sick))
    assert found["gpuconsole_device_healthy", ("a", "0")] == 0.0
    assert found["gpuconsole_device_up", ("a", "0")] == float("lost" not in ill)
    poor = replace(HOST, devices=(replace(DEVICE, error="power cannot be told"),))
    for well in (HOST, poor):
        assert values(pictured(well))["gpuconsole_device_healthy", ("a", "0")] == 1.0


def test_a_host_out_of_sight_has_no_old_figures() -> None:
    found = values(pictured(replace(HOST, state=HostState.DOWN)))
    assert found["gpuconsole_host_up", ("a",)] == 0.0
    assert found["gpuconsole_host_frame_age_seconds", ("a",)] == 2.0
    assert not [name for name, _ in found if name.startswith("gpuconsole_device_")]
    assert ("gpuconsole_host_cpus", ("a",)) not in found
    assert values(pictured(replace(HOST, state=HostState.STALE)))[
        "gpuconsole_device_up", ("a", "0")
    ], "a stale frame is still the last that is known; its age says so"


def test_a_host_that_sleeps_says_so_and_a_tool_how_old_its_word_is() -> None:
    asleep = replace(HOST, name="b", state=HostState.DOWN, power="asleep", interruptible=True)
    slow = replace(DEVICE, sampled_at=START - 30.0)
    found = values(pictured(replace(HOST, devices=(slow,)), asleep))
    assert found["gpuconsole_host_asleep", ("a",)] == 0.0
    assert found["gpuconsole_host_asleep", ("b",)] == 1.0
    assert found["gpuconsole_device_sample_age_seconds", ("a", "0")] == 30.0
    assert ("gpuconsole_device_sample_age_seconds", ("a", "0")) not in values(pictured(HOST))


def test_devices_with_one_number_have_series_of_their_own() -> None:
    parts = [replace(DEVICE, uuid=f"MIG-{n}", parent_uuid="GPU-1", mig_profile="1g.5gb")
             for n in range(3)]  # fmt: skip
    found = values(pictured(replace(HOST, devices=(DEVICE, *parts))))
    numbers = [words[1] for name, words in found if name == "gpuconsole_device_up"]
    assert numbers == ["0", "0.1", "0.2", "0.3"]
    infos = [words for name, words in found if name == "gpuconsole_device_info"]
    assert [words[-1] for words in infos] == ["", "0", "0", "0"], "of which they are parts"


def test_words_of_a_host_are_made_safe() -> None:
    foul = replace(DEVICE, uuid="GPU\n\x1b[31m" + "x" * 500, model='a"} 1\nevil_metric 1 \\')
    found = values(pictured(replace(HOST, devices=(foul,))))
    (info,) = (words for name, words in found if name == "gpuconsole_device_info")
    assert all(len(word) <= 80 and word.isprintable() for word in info)


# --- how many ---------------------------------------------------------------------------------


def _jobs(count: int) -> list[Job]:
    """Many jobs of many users, with words of their own for everything."""
    states = list(JobState)
    return [
        Job(
            f"job-{n}",
            Task(
                f"name-{n}",
                f"/home/u{n}/s{n}.py",
                project=f"p{n}",
                algorithm=f"policy-{n}",
                labels={f"l{n}": "x"},
                account=f"acc-{n}",
            ),
            f"user-{n}",
            states[n % len(states)],
            START - n,
            queued_at=START - n,
            attempts=(
                Attempt(
                    1,
                    f"host-{n}",
                    (f"GPU-{n}",),
                    created_at=START - n,
                    starting_at=START,
                    started_at=START,
                    ended_at=START + n,
                    cause=f"cause {n}",
                ),
            ),
        )
        for n in range(count)
    ]


def _large() -> FleetSnapshot:
    return SimulatedHosts(300, 7, clock=lambda: START).snapshot()


def _busy(snapshot: FleetSnapshot, jobs: Sequence[Job]) -> Picture:
    seen = [
        Observation(f"job-{n}", 1, START, "oom" if n % 3 else "ok", f"digest-{n}", f"s{n}.py",
                    tier=f"tier-{n}" if n % 2 else "static", predicted_reserved_mib=100.0,
                    reserved_mib=90.0 + n, oom_probability=n % 2)
        for n in range(len(jobs))
    ]  # fmt: skip
    incidents = tuple(
        Incident(f"rule-{n}" if n % 2 else "heat", f"GPU-{n}", list(Severity)[n % 3], "title",
                 snapshot.hosts[n % len(snapshot.hosts)].name, START, START)
        for n in range(len(jobs))
    )  # fmt: skip
    return Picture(
        START, snapshot, queue.Tally("weighted").facts(jobs, START), prediction_facts(seen),
        incidents,
    )  # fmt: skip


def test_the_number_of_series_is_bounded_by_hosts_and_devices() -> None:
    snapshot = _large()
    devices = sum(len(host.devices) for host in snapshot.hosts)
    assert devices > 1000
    few, many = _busy(snapshot, _jobs(3)), _busy(snapshot, _jobs(3000))
    assert series(many) <= most_series(len(snapshot.hosts), devices)
    fixed = most_series(0, 0)
    assert series(many) - series(few) < fixed, "jobs, users and scripts add none of their own"
    words = {word for _, labels in values(many) for word in labels}
    # An unknown word of policy, tier, rule is one of a few, not its own.
    assert not [word for word in words if re.match(r"(job|name|user|policy|tier|rule|acc)-", word)]
    assert "other" in words


def test_each_metric_stays_within_what_it_says() -> None:
    snapshot = _large()
    devices = sum(len(host.devices) for host in snapshot.hosts)
    size = {"lab": 1, "host": len(snapshot.hosts), "device": devices}
    picture = _busy(snapshot, _jobs(500))
    counted: Counter[str] = Counter(name for name, _ in values(picture))
    for metric in METRICS:
        assert counted[metric.name] <= metric.most * size[metric.scope], metric.name
    reported = {family.metric.name for family in families(picture)}
    assert reported == {metric.name for metric in METRICS}


def test_jobs_are_named_only_where_that_was_asked_for() -> None:
    snapshot = FleetSnapshot(1, START, (HOST, replace(HOST, name="b", state=HostState.DOWN)))
    running = [
        _job(JobState.RUNNING, _attempt(1, START, container_name=f"c-{n}"), job_id=f"j{n}")
        for n in range(3)
    ]
    ended = _job(JobState.SUCCEEDED, _attempt(1, START, START + 1), job_id="over")
    hostile = replace(running[0], user="\x1b[31man\u202en" + "x" * 200)
    found = jobs.holders([hostile, *running[1:], ended])
    picture = _busy(snapshot, [])
    assert not [key for key in values(picture) if key[0] == jobs.HOLDER.name]
    named = values(replace(picture, holders=found))
    words = [labels for name, labels in named if name == jobs.HOLDER.name]
    assert [(labels[0], labels[1], labels[3], labels[4]) for labels in words] == [
        ("a", "0", "j0", "c-0"), ("a", "0", "j1", "c-1"),
    ]  # fmt: skip
    assert words[0][2].startswith("annxxx")
    assert len(words[0][2]) <= 80
    # All other series are as they were.
    assert {key for key in named if key[0] != jobs.HOLDER.name} == set(values(picture))


def test_a_scrape_names_jobs_once_it_was_asked_for(metrics: Metrics, clock: VirtualClock) -> None:
    assert metrics.picture().holders is None
    metrics.name_jobs = True
    clock.time += FRESH_S
    assert metrics.picture().holders == ()


# --- the queue --------------------------------------------------------------------------------


def _job(state: JobState, *attempts: Attempt, job_id: str = "j", **more: object) -> Job:
    job = Job(job_id, Task("t", "t.py", devices=2), "ann", state, START, queued_at=START)
    return replace(job, attempts=attempts, **more)  # type: ignore[arg-type]


def _attempt(number: int, begun: float, ended: float | None = None, **more: object) -> Attempt:
    made = Attempt(number, "a", ("GPU-1",), created_at=begun, starting_at=begun, started_at=begun)
    return replace(made, ended_at=ended, **more)  # type: ignore[arg-type]


def test_the_queue_as_it_stands() -> None:
    waiting = _job(JobState.QUEUED)
    running = _job(JobState.RUNNING, _attempt(1, START + 7.0), job_id="r")
    facts = queue.Tally("weighted").facts((waiting, running), START + 40.0)
    assert facts.states[JobState.QUEUED] == facts.states[JobState.RUNNING] == 1
    assert JobState.SUCCEEDED not in facts.states
    assert facts.oldest_wait_s == 40.0
    assert facts.wanted == 2
    assert facts.on_device == {"GPU-1": 1}
    assert queue.Tally("weighted").facts((running,), START + 40.0).oldest_wait_s == 0.0


def test_what_happened_is_counted_once() -> None:
    tally = queue.Tally("best_fit")
    job = _job(JobState.RUNNING, _attempt(1, START + 20.0))
    for _ in range(3):
        facts = tally.facts((job,), START + 30.0)
    assert facts.placed["best_fit"] == 1
    assert facts.waits.total == 20.0
    assert sum(facts.waits.counts) == 1
    assert facts.waits.counts[queue.WAIT_BUCKETS.index(60.0)] == 1
    assert sum(facts.ended.values()) == 0

    lost = _attempt(1, START + 20.0, START + 60.0, ended_by="lost-host")
    again = _job(JobState.QUEUED, lost, queued_at=START + 60.0)
    assert tally.facts((again,), START + 61.0).ended["lost-host"] == 1
    second = _attempt(2, START + 65.0, START + 165.0, ended_by="own", exit_code=0)
    done = _job(JobState.SUCCEEDED, lost, second, queued_at=START + 60.0)
    facts = tally.facts((done,), START + 200.0)
    assert facts.ended["succeeded"] == facts.ended["lost-host"] == 1
    assert facts.waits.total == 25.0, "the second attempt waited 5 s"
    assert facts.runs.total == 140.0
    # Tried again by a person: what was stays counted.
    retried = _job(JobState.QUEUED, lost, second, queued_at=START + 300.0)
    assert tally.facts((retried,), START + 301.0).ended == facts.ended


@pytest.mark.parametrize(
    ("state", "more", "end"),
    [
        (JobState.OOM, {"ended_by": "oom"}, "oom"),
        (JobState.CANCELLED, {"ended_by": "own", "exit_code": 143}, "cancelled"),
        (JobState.FAILED, {"ended_by": "own", "exit_code": 1}, "failed"),
        (JobState.QUEUED, {"ended_by": "preempted"}, "preempted"),
        (JobState.QUEUED, {"ended_by": "own", "exit_code": 1}, "failed"),
    ],
)
def test_attempts_are_counted_by_how_they_end(
    state: JobState, more: dict[str, object], end: str
) -> None:
    job = _job(state, _attempt(1, START, START + 5.0, **more))
    ended = queue.Tally("weighted").facts((job,), START + 6.0).ended
    assert {word: n for word, n in ended.items() if n} == {end: 1}
    assert set(ended) == set(queue.ENDS)


def test_an_attempt_that_never_started_does_not_count() -> None:
    never = Attempt(1, "a", ("GPU-1",), created_at=START, ended_at=START + 1.0)
    facts = queue.Tally("weighted").facts((_job(JobState.QUEUED, never),), START + 2.0)
    assert sum(facts.placed.values()) == sum(facts.ended.values()) == 0


# --- predictions and incidents ----------------------------------------------------------------


def test_predictions_are_held_against_what_was_seen() -> None:
    def one(peak: float, tier: str, outcome: str = "ok", chance: float | None = 0.1) -> Observation:
        return Observation(
            "j", 1, START, outcome, "d", "s.py", tier=tier,  # type: ignore[arg-type]
            predicted_reserved_mib=1000.0, reserved_mib=peak, oom_probability=chance,
        )  # fmt: skip

    seen = (one(940.0, "static"), one(1080.0, "static"), one(5000.0, "oracle"),
            one(700.0, "static", "oom", 0.2), one(700.0, "static", "oom", 0.9))  # fmt: skip
    facts = prediction_facts(seen)
    static = facts.ratios["static"]
    assert static.counts[RATIO_BUCKETS.index(0.95)] == 1
    assert static.counts[RATIO_BUCKETS.index(1.1)] == 1
    assert sum(static.counts) == 2, "a run that ran out never reached its peak"
    assert static.total == pytest.approx(0.94 + 1.08)
    assert facts.ratios["other"].counts[-1] == 1
    assert facts.judged == {
        ("fits", "ok"): 3, ("fits", "oom"): 1, ("runs-out", "ok"): 0, ("runs-out", "oom"): 1,
    }  # fmt: skip


def test_incidents_that_stand_are_counted_by_rule_and_host() -> None:
    hot = Incident("heat", "GPU-1", Severity.WARNING, "slowed by heat", "a", START, START)
    seen = replace(hot, subject="GPU-2", marked="acknowledged")
    off = replace(hot, subject="GPU-3", marked="snoozed", until=START + 60.0)
    over = replace(hot, subject="GPU-4", ended_at=START)
    found = values(pictured(HOST, incidents=(hot, seen, off, over)))
    assert found["gpuconsole_incidents", ("heat", "warning")] == 2.0
    assert found["gpuconsole_incidents", ("unreachable", "critical")] == 0.0
    assert found["gpuconsole_host_incidents", ("a", "warning")] == 2.0
    assert found["gpuconsole_host_incidents", ("a", "critical")] == 0.0


# --- pictures ---------------------------------------------------------------------------------


class Watched:
    """A session as far as the metrics look at it."""

    dispatcher = "ann@desk"

    def __init__(self) -> None:
        self.asked = 0
        self.broken = False
        self.listener: Callable[[Event], None] = lambda event: None

    def snapshot(self) -> FleetSnapshot:
        self.asked += 1
        return FleetSnapshot(1, START, (HOST,), simulated=True)

    def jobs(self) -> tuple[Job, ...]:
        if self.broken:
            raise JournalError("Journal", "is gone", "")
        return (_job(JobState.QUEUED),)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        self.listener = listener
        return lambda: None


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def metrics(tmp_path: Path, watched: Watched, clock: VirtualClock) -> Metrics:
    hosts = SimulatedHosts(1, clock=clock.now)
    context = Context(
        hosts=hosts, journal=Journal(tmp_path, clock=clock.now), settings=LabSettings(),
        user="ann", pack=lambda *_: Packed(""), default_image=lambda _: "", clock=clock,
        simulated=True,
    )  # fmt: skip
    return Metrics(context, watched, lambda: ())


def test_many_scrapes_share_one_picture(
    metrics: Metrics, watched: Watched, clock: VirtualClock
) -> None:
    first = metrics.picture()
    for _ in range(100):
        assert metrics.picture() is first
    assert watched.asked == 1
    clock.time += FRESH_S + 0.01
    assert metrics.picture() is not first
    clock.time -= 3600.0
    assert metrics.picture().at == clock.time, "a clock set back does not stop the pictures"


def test_without_the_journal_the_fleet_is_told_all_the_same(
    metrics: Metrics, watched: Watched, clock: VirtualClock
) -> None:
    found = values(metrics.picture())
    assert found["gpuconsole_journal_up", ()] == 1.0
    assert found["gpuconsole_dispatcher_up", ()] == 1.0
    assert found["gpuconsole_simulated", ()] == 1.0
    assert found["gpuconsole_jobs", ("queued",)] == 1.0
    watched.broken = True
    clock.time += 10.0
    found = values(metrics.picture())
    assert found["gpuconsole_journal_up", ()] == 0.0
    assert found["gpuconsole_device_up", ("a", "0")] == 1.0
    assert not [name for name, _ in found if name.startswith("gpuconsole_jobs")]


def test_lost_links_are_counted(metrics: Metrics, watched: Watched, clock: VirtualClock) -> None:
    for kind, severity in (("host", "error"), ("host", "information"), ("incident", "error")):
        watched.listener(Event(kind, "a", "", START, severity))  # type: ignore[arg-type]
    clock.time += 10.0
    assert values(metrics.picture())["gpuconsole_host_link_losses_total", ("a",)] == 1.0


def test_the_page_is_what_the_code_says() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert text == page(text), "run: python docs/generate.py"
    for metric in METRICS:
        assert f"`{metric.name}`" in text


@pytest.mark.parametrize("file", ["alerts.yaml", "grafana-dashboard.json"])
def test_rules_and_dashboard_name_only_what_exists(file: str) -> None:
    text = (WATCHING / file).read_text(encoding="utf-8")
    named = set(re.findall(r"gpuconsole_[a-z0-9_]+", text))
    histograms = {metric.name for metric in METRICS if metric.kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    assert named - ({metric.name for metric in METRICS} - histograms) - parts == set()
    labels = {label for metric in METRICS for label in metric.labels} | {"le", "job", "instance"}
    matched = set(re.findall(r'(\w+)\s*=~?\s*\\?"', text))
    assert matched - labels == set()


def test_the_panels_of_the_dashboard_lie_beside_each_other() -> None:
    board = json.loads((WATCHING / "grafana-dashboard.json").read_text(encoding="utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not taken & cells, f"{panel['title']} lies over another"
        taken |= cells
        if panel["type"] != "row":
            letters = [target["refId"] for target in panel["targets"]]
            assert letters
            assert len(set(letters)) == len(letters)
            assert all(t["datasource"]["uid"] == "${datasource}" for t in panel["targets"])


def test_an_empty_lab_has_an_answer() -> None:
    empty = Picture(START, FleetSnapshot(), QueueFacts(), PredictionFacts(), journal=False)
    assert values(empty)["gpuconsole_journal_up", ()] == 0.0
