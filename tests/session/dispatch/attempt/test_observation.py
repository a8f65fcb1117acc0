"""An attempt's end becomes history: from the driver, the reporter and the failing text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpuconsole.core.fleet import (
    Device,
    DeviceProcess,
    FleetSnapshot,
    Host,
    HostFacts,
    HostState,
)
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.units import MIB
from gpuconsole.session.dispatch.attempt.observation import (
    Ended,
    Reported,
    Watch,
    bounds_of,
    devices_of,
    fallback,
    named,
    read_reports,
    suits,
)
from gpuconsole.session.dispatch.attempt.outcome import Outcome
from tests.session.conftest import Lab
from tests.session.fakes import Container

DOCUMENT = {
    "script": "/p/t.py",
    "digest": "abc",
    "batch_size": 8,
    "batch_source": {"file": "t.py", "line": 3, "kind": "constant"},
    "backend": "gpu",
    "tier": "static",
    "memory": {"tensors_peak_mib": 100.0, "reserved_mib": 110.0, "total_mib": 710.0},
    "verdicts": [{"device": "A100", "oom_probability": 0.25}],
}
ATTEMPT = Attempt(1, "a", ("GPU-0",), (0,), "gpuconsole-j-1-n", container_id="c1")
JOB = Job(
    "j", Task("x", script="/p/t.py", args=("--depth", "2")), "ada", JobState.RUNNING, 1.0,
    attempts=(ATTEMPT,), estimate=DOCUMENT,
)  # fmt: skip
OOM = (
    "Out of memory error on GPU 0. Cannot allocate 2.000000GB memory on GPU 0, 38.000000GB memory "
    "has been allocated and available memory is only 1.000000GB."
)


def said(**fields: object) -> bytes:
    base = {"device": "gpu:0", "steps": 40, "step_s": 0.1, "paddle": "3.3.1",
            "allocated": 90 * MIB, "reserved": 120 * MIB, "current": 10 * MIB}  # fmt: skip
    return json.dumps({**base, **fields}).encode()


def fleet(used: float | None, *processes: DeviceProcess) -> FleetSnapshot:
    device = Device("GPU-0", 0, "A100", memory_total_mib=40960.0, memory_used_mib=used,
                    processes=processes)  # fmt: skip
    return FleetSnapshot(1, 1.0, (Host("a", HostState.UP, devices=(device,)),))


def ended(
    *files: bytes, state: JobState = JobState.SUCCEEDED, watch: Watch | None = None, job: Job = JOB
) -> Ended:
    reported = read_reports({f"{n}.json": content for n, content in enumerate(files)})
    return Ended(
        job, replace(ATTEMPT, ended_at=5.0), Outcome(state), watch or Watch(), reported, "img",
        devices_of(fleet(0.0), ATTEMPT),
    )  # fmt: skip


def test_a_success_keeps_the_prediction_beside_what_was_taken() -> None:
    seen = ended(said(batch=8)).observation()
    assert seen is not None
    assert (seen.digest, seen.args, seen.batch) == ("abc", ("--depth", "2"), 8)
    assert (seen.tier, seen.predicted_reserved_mib, seen.oom_probability) == ("static", 110.0, 0.25)
    assert (seen.allocated_mib, seen.reserved_mib, seen.peak_mib) == (90.0, 120.0, 120.0)
    assert (seen.device, seen.host, seen.step_s, seen.steps) == ("A100", "a", 0.1, 40)


def test_running_out_is_kept_as_more_than_what_was_held_and_asked_for() -> None:
    watch = Watch()
    watch.see(fleet(39000.0, DeviceProcess(1, memory_mib=30000.0, container_id="c1")), ATTEMPT)
    end = ended(said(oom=OOM, current=50 * MIB), state=JobState.OOM, watch=watch)
    seen = end.observation()
    assert seen is not None
    assert seen.outcome == "oom"
    assert (seen.allocated_mib, seen.requested_mib) == (50.0, 2048.0)
    assert (seen.nvml_mib, seen.free_mib) == (30000.0, 40960.0 - 9000.0)
    assert seen.more_than_mib == 31960.0


def test_a_shared_device_says_nothing_about_the_whole_one() -> None:
    watch = Watch()
    watch.see(fleet(39000.0, DeviceProcess(1, memory_mib=30000.0, container_id="c1")), ATTEMPT)
    sharing = replace(JOB, task=replace(JOB.task, share=True))
    end = ended(said(oom=OOM, current=50 * MIB), state=JobState.OOM, watch=watch, job=sharing)
    seen = end.observation()
    assert seen is not None
    # Its own bound stopped it: what it held then is all that is known.
    assert (seen.free_mib, seen.more_than_mib) == (None, 30000.0)
    beside = replace(end.attempt, shared=True)
    seen = replace(end, attempt=beside, outcome=Outcome(JobState.SUCCEEDED)).observation()
    assert seen is not None
    assert (seen.step_s, seen.steps) == (None, 40)


def test_a_limit_of_the_script_s_own_says_nothing_about_the_device() -> None:
    text = OOM.replace("1.000000GB.", "9.000000GB.")
    watch = Watch(others_mib=0.0, capacity_mib=40960.0)
    seen = ended(said(oom=text), state=JobState.OOM, watch=watch).observation()
    assert seen is not None
    assert seen.free_mib is None


@pytest.mark.parametrize(
    ("state", "steps", "kept"),
    [
        (JobState.FAILED, 0, False),
        (JobState.FAILED, 1, False),
        (JobState.FAILED, 2, True),
        (JobState.CANCELLED, 9, True),
        (JobState.SUCCEEDED, 0, True),
    ],
)
def test_an_end_before_the_peak_teaches_nothing(state: JobState, steps: int, kept: bool) -> None:
    assert (ended(said(steps=steps), state=state).observation() is not None) is kept


def test_a_failure_is_named_where_only_the_reporter_heard_why() -> None:
    heard = read_reports({"1": said(oom=OOM)})
    assert named(Outcome(JobState.FAILED, "Exit code 1."), heard).state is JobState.OOM
    assert named(Outcome(JobState.SUCCEEDED), heard).state is JobState.SUCCEEDED
    assert named(Outcome(JobState.FAILED, "x"), Reported()).cause == "x"


def test_nothing_seen_is_nothing_kept() -> None:
    assert ended().observation() is None


def test_the_driver_s_figure_counts_where_the_reporter_is_silent() -> None:
    seen = ended(watch=Watch(peak_mib=700.0)).observation()
    assert seen is not None
    assert (seen.nvml_mib, seen.peak_mib, seen.backend) == (700.0, None, "gpu")


def test_what_was_predicted_for_a_gpu_is_not_held_against_a_cpu() -> None:
    seen = ended(said(device="cpu", reserved=None)).observation()
    assert seen is not None
    assert (seen.backend, seen.tier, seen.predicted_reserved_mib) == ("cpu", "", None)
    assert seen.peak_mib == 90.0


def test_a_batch_that_was_only_asked_about_is_not_taken_for_the_script_s() -> None:
    given = {**DOCUMENT, "batch_source": {"kind": "given"}, "batch_size": 64}
    job = replace(JOB, estimate=given)
    for batch, taken in ((None, None), (16, 16)):
        seen = ended(said(batch=batch), job=job).observation()
        assert seen is not None
        assert seen.batch == taken


def test_of_several_processes_the_one_that_trained_speaks() -> None:
    launcher = said(steps=0, allocated=999 * MIB, reserved=999 * MIB)
    found = read_reports(
        {"1": launcher, "2": said(reserved=130 * MIB), "3": said(steps=41, step_s=0.3)}
    )
    assert (found.reserved_mib, found.steps, found.step_s) == (130.0, 41, 0.3)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"[1]", b"null", b'{"device": "gpu:0"', b"[" * 100_000,
        b'{"allocated": "x", "reserved": -5, "steps": 1e999, "oom": 7}',
        b'{"allocated": 1e30, "reserved": NaN, "steps": true, "batch": 1.5, "device": ["gpu"]}',
        b'{"paddle": {"a": 1}, "step_s": -1, "batch": 0, "oom": "x"}',
        b'{"allocated": 1%s, "step_s": 1%s, "batch": 1%s}' % ((b"0" * 320,) * 3),
    ],
)  # fmt: skip
def test_whatever_a_script_writes_in_its_place_only_figures_count(content: bytes) -> None:
    found = read_reports({"1.json": content})
    assert found.peak_mib is None
    assert (found.steps, found.step_s, found.batch, found.oom) == (0, None, None, None)


def test_foreign_words_are_made_harmless() -> None:
    found = read_reports({"1.json": said(paddle="3.3\x1b[31m\n")})
    assert "\x1b" not in found.paddle
    assert "\n" not in found.paddle


def test_others_on_the_device_are_told_apart() -> None:
    watch = Watch()
    own = DeviceProcess(1, memory_mib=1000.0, container_id="c1")
    watch.see(fleet(5000.0), ATTEMPT)
    assert (watch.peak_mib, watch.free_mib) == (0.0, 40960.0)
    watch.see(fleet(6000.0, own, DeviceProcess(2, memory_mib=4000.0)), ATTEMPT)
    watch.see(fleet(2000.0, own), ATTEMPT)
    assert (watch.peak_mib, watch.free_mib) == (1000.0, 40960.0 - 5000.0)


async def test_the_dispatcher_writes_the_history_at_a_job_s_end(lab: Lab) -> None:
    desk = lab.desk()
    desk.start()

    def leave(container: Container) -> None:
        container.files["7.json"] = said(device="cpu", allocated=64 * MIB, reserved=None)

    lab.docker.on_start = leave
    job_id = lab.submit(desk)
    await lab.clock.until(lambda: lab.docker.running)
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    (seen,) = desk.journal.observations()
    assert (seen.job, seen.attempt, seen.outcome, seen.allocated_mib) == (job_id, 1, "ok", 64.0)
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    assert attempt.peak_mib == 64.0
    assert lab.docker.history[0].spec.python_path == "/gpuconsole"


async def test_the_first_steps_are_in_the_history_although_the_job_is_lost_later(lab: Lab) -> None:
    desk = lab.desk()
    desk.start()
    job_id = lab.submit(desk)
    await lab.clock.until(lambda: lab.docker.running)
    container = lab.docker.only()
    container.files["7.json"] = said(device="gpu:0", steps=1, reserved=50 * MIB)
    await lab.clock.pass_time(30.0)
    assert desk.journal.observations() == ()
    container.files["7.json"] = said(device="gpu:0", steps=3, reserved=64 * MIB)
    await lab.clock.until(lambda: desk.journal.observations())
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    assert (attempt.steps_mib, attempt.peak_mib) == (64.0, 64.0)
    (seen,) = desk.journal.observations()
    assert (seen.outcome, seen.steps, seen.reserved_mib) == ("ok", 3, 64.0)
    lab.docker.containers.clear()
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    (seen,) = desk.journal.observations()
    assert seen.reserved_mib == 64.0


def test_memory_that_the_device_does_not_have_is_not_believed() -> None:
    snapshot = fleet(0.0)
    bounds = bounds_of(snapshot, ATTEMPT)
    forged = said(allocated=90 * MIB, reserved=40961 * MIB, current=1e13)
    found = read_reports({"1.json": forged}, bounds)
    assert (found.allocated_mib, found.reserved_mib, found.current_mib) == (90.0, None, None)
    host = replace(snapshot.hosts[0], facts=HostFacts(memory_total_mib=1000.0))
    bounds = bounds_of(replace(snapshot, hosts=(host,)), ATTEMPT)
    forged = said(device="cpu", allocated=1001 * MIB, reserved=None)
    assert read_reports({"1.json": forged}, bounds).peak_mib is None
    # A host that is away now had a device of this size.
    bounds = bounds_of(FleetSnapshot(), ATTEMPT, Watch(capacity_mib=64.0))
    assert read_reports({"1.json": said(reserved=65 * MIB)}, bounds).reserved_mib is None


async def test_a_forged_report_is_nowhere_above_the_device(lab: Lab) -> None:
    desk = lab.desk()
    desk.start()
    job_id = lab.submit(desk)
    await lab.clock.until(lambda: lab.docker.running)
    forged = said(device="gpu:0", steps=30, reserved=1e13, allocated=64 * MIB)
    lab.docker.only().files["7.json"] = forged
    await lab.clock.until(lambda: desk.journal.observations())
    (first,) = desk.journal.observations()
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    (last,) = desk.journal.observations()
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    assert (first.reserved_mib, last.reserved_mib) == (None, None)
    assert (first.user, last.user) == (desk.job(job_id).user,) * 2
    assert (attempt.steps_mib, attempt.peak_mib) == (64.0, 64.0)


def test_an_empty_report_says_nothing() -> None:
    assert read_reports({}) == Reported()


def test_how_busy_a_job_keeps_its_device_is_kept_from_a_minute_on() -> None:
    def seen(busy: float, foreign: bool = False) -> FleetSnapshot:
        others = (DeviceProcess(7, "bob", 100.0),) if foreign else ()
        device = Device("GPU-0", 0, "A100", utilization=busy, processes=others)
        return FleetSnapshot(1, 0.0, (Host("a", HostState.UP, devices=(device,)),))

    attempt = Attempt(1, "a", ("GPU-0",), (0,), container_id="c" * 64)
    watch = Watch()
    for _ in range(100):
        watch.see(seen(90.0, foreign=True), attempt)
    assert watch.utilization is None
    for number in range(60):
        assert watch.utilization is None
        watch.see(seen(40.0 if number % 2 else 20.0), attempt)
    assert watch.utilization == pytest.approx(30.0)
    observation = ended(said(), watch=watch).observation()
    assert observation is not None
    assert observation.utilization == pytest.approx(30.0)


def test_a_job_that_never_used_its_device_says_so() -> None:
    said = json.dumps({"version": 1, "device": "cpu", "steps": 5, "fallback": "gpu",
                       "built": "cpu", "visible": 0}).encode()  # fmt: skip
    reported = read_reports({"1.json": said})
    assert "built for processors alone" in reported.fallback
    good = named(Outcome(JobState.SUCCEEDED), reported)
    assert good.state is JobState.SUCCEEDED
    assert good.cause.startswith("Warning: Paddle computed on the processor")
    bad = named(Outcome(JobState.FAILED, "Exit code 1."), reported)
    assert bad.cause.startswith("Exit code 1. Paddle computed on the processor")
    # Memory of the device cannot have run out, but what says so has the last word.
    assert named(Outcome(JobState.OOM, "x"), reported).cause == "x"


@pytest.mark.parametrize("wanted", [None, "abacus", 7, ["gpu"]])
def test_a_report_may_say_anything_of_devices(wanted: object) -> None:
    said = json.dumps({"fallback": wanted, "built": {"a": 1}, "visible": "many"}).encode()
    assert read_reports({"1.json": said}).fallback == ""


def test_every_back_end_of_paddle_is_known_by_its_word() -> None:
    assert read_reports({"1.json": b'{"device": "iluvatar_gpu:0"}'}).backend == "iluvatar_gpu"


def test_words_of_paddle_and_of_a_task() -> None:
    assert suits("gpu", "gpu:0")
    assert suits("xpu", "XPU")
    assert suits("dcu", "gpu:3")
    assert not suits("npu", "gpu:0")


def test_why_a_job_computes_on_the_processor() -> None:
    assert fallback("gpu", "gpu:0") == fallback("cpu", "cpu") == ""
    begin = "Paddle computed on the processor though the job has a device for"
    for backend, built, visible, why in (
        ("gpu", "cpu", 0, "the image's Paddle is built for processors alone."),
        ("npu", "gpu", 0, "the image's Paddle is built for CUDA."),
        ("gpu", "npu", 2, "the image's Paddle is built for npu."),
        ("gpu", "gpu", 0, "it sees no device in its container."),
        ("gpu", "", 0, "it sees no device in its container."),
        ("dcu", "dcu", 0, "it sees no device in its container."),
        ("dcu", "gpu", 0, "it sees no device in its container."),
        ("gpu", "gpu", 1, "the script chose it."),
        ("gpu", "gpu", None, "the script chose it."),
    ):
        for device in ("cpu", "cpu:0"):
            assert fallback(backend, device, built, visible) == f"{begin} {backend}: {why}"
