"""Recordings: what is written is what is read, and nothing that is read can do harm."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostFacts, HostState, PeerLink
from gpuconsole.core.incidents import Evidence, Incident, Severity
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.state.recording import event_log as log
from gpuconsole.state.recording import file_format, frames, writer
from gpuconsole.state.recording.archive import Shelf
from gpuconsole.state.recording.delta_codec import Columns, columns, quantised
from gpuconsole.state.recording.file_format import Header, RecordingError
from gpuconsole.state.recording.frames import Standings
from gpuconsole.state.recording.reader import Tape
from gpuconsole.state.recording.writer import Batch, FileWriter, RingWriter, files_in
from tests.waiting import wait_until

T0 = 1_790_000_000.0
HEADER = Header(T0, "session", "ana", True, ("a",), "1")


def device(index: int = 0, **more: Any) -> Device:
    values: dict[str, Any] = {
        "memory_total_mib": 40960.0,
        "memory_used_mib": 642.0,
        "utilization": 87.0,
        "temperature_c": 64.0,
        "power_w": 310.0,
        "power_limit_w": 400.0,
        "sm_clock_mhz": 1410.0,
        "peers": (PeerLink("x", "NV12"),),
    }
    return Device(f"GPU-{index}", index, "A100", **{**values, **more})


def host(at: float | None, name: str = "a", **more: Any) -> Host:
    values: dict[str, Any] = {
        "labels": {"rack": "r1"},
        "devices": (device(0), device(1)),
        "facts": HostFacts(cpu_percent=12.0, cpu_count=64, driver_version="550"),
    }
    return Host(name, HostState.UP, "10.0.0.1", sampled_at=at, **{**values, **more})


def job(name: str = "resnet", state: JobState = JobState.RUNNING) -> Job:
    attempt = Attempt(1, "a", ("GPU-0",), (0,), created_at=T0, started_at=T0 + 1)
    task = Task(name, args=("--epochs", "3"), labels={"rack": "r1"})
    estimate = {"memory": {"total_mib": 18000.0}}
    return Job(f"ana-{name}", task, "ana", state, T0, attempts=(attempt,), estimate=estimate)


def incident(at: float = T0) -> Incident:
    evidence = (Evidence(at, "device", "91 °C"),)
    return Incident("hot", "GPU-0", Severity.WARNING, "Too hot", "a", at, at, evidence=evidence)


def minute(first: float, number: int = 60, **more: Any) -> Batch:
    """A block in which utilisation is the second."""
    seen = [
        (first + second, host(first + second, devices=(device(0, utilization=float(second)),)))
        for second in range(number)
    ]
    return Batch(first, first + number, seen, **more)


def recorded(path: Path, *batches: Batch) -> Path:
    file = FileWriter(path, HEADER)
    for batch in batches:
        file.write(batch)
    file.close()
    return path


# --- columns ------------------------------------------------------------------------------------


@given(st.lists(st.integers(-1, 2**30), min_size=1, max_size=80))
def test_a_column_comes_back(numbers: list[int]) -> None:
    packed = b"".join(columns([(number, -number) for number in numbers], (1.0, 1.0)))
    read = Columns(b"xx" + packed, 2, 2, len(numbers))
    assert read.all(0) == numbers
    assert [read.at(0, row) for row in range(len(numbers))] == numbers
    assert read.all(1) == [quantised(-number, 1.0) for number in numbers]


def test_a_constant_column_is_five_bytes() -> None:
    assert [len(column) for column in columns([(40960, None)] * 60, (1.0, 1.0))] == [5, 5]


FIGURES = st.one_of(st.none(), st.floats(), st.floats(0, 1e6), st.integers(0, 100))


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES), min_size=1, max_size=8))
def test_figures_come_back_as_steps_side_by_side(rows: list[tuple[float | None, ...]]) -> None:
    steps = (0.001, 1.0, 64.0)
    read = Columns(b"".join(columns(rows, steps)), 0, len(steps), len(rows))
    for place, step in enumerate(steps):
        assert read.all(place) == [quantised(row[place], step) for row in rows]


# --- JSON ---------------------------------------------------------------------------------------

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_DOCUMENTS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(_DOCUMENTS)
def test_text_is_the_json_of_the_standard_library(document: object) -> None:
    finite = json.loads(json.dumps(document), parse_constant=lambda word: None)
    assert json.loads(log.json_text(document)) == finite


def test_what_json_does_not_know_is_written_as_what_is_nearest() -> None:
    values = (float("nan"), float("inf"), "a\udcffb", HostState.UP, 2**70, {3: (True, 1.5)})
    text = log.json_text(values)
    assert json.loads(text) == [None, None, "a?b", "up", 2**70, {"3": [True, 1.5]}]


def test_a_note_that_is_that_of_the_block_before_is_not_put_into_words_again() -> None:
    standings = Standings()
    blank, note = (0, ""), (1, "a")
    noted: list[object] = []

    def document(note: object, blank: object) -> str:
        noted.append(note)
        return str(note)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "_document", document)
        assert standings.text("GPU-0", note, blank) == standings.text("GPU-0", (1, "a"), blank)
        assert noted == [note]
        standings.text("GPU-0", (2, "a"), blank)
        standings.text("GPU-1", note, blank)
        standings.text("GPU-0", note, blank)
    assert noted == [note, (2, "a"), note, note]


# --- what is written is what is read ------------------------------------------------------------

_WORDS = st.text(max_size=12)
_DEVICES = st.builds(
    Device,
    st.sampled_from(["GPU-0", "GPU-1", "GPU-ü"]),
    st.integers(0, 7),
    _WORDS,
    utilization=st.none() | st.integers(0, 100).map(float),
    memory_used_mib=st.none() | st.integers(0, 300_000).map(float),
    memory_total_mib=st.none() | st.floats(1, 1e6),
    temperature_c=st.none() | st.integers(0, 110).map(float),
    power_w=st.none() | st.integers(0, 1500).map(float),
    throttle=st.lists(st.sampled_from(["power-cap", "hw-thermal"]), max_size=2).map(tuple),
    xid=st.none() | st.integers(1, 140),
    lost=st.booleans(),
    error=_WORDS,
    processes=st.lists(
        st.builds(DeviceProcess, st.integers(1, 2**22), _WORDS, st.none() | st.floats(0, 1e5)),
        max_size=2,
    ).map(tuple),
)
_HOSTS = st.builds(
    Host,
    st.sampled_from(["a", "b"]),
    st.sampled_from(HostState),
    labels=st.dictionaries(_WORDS, _WORDS, max_size=2),
    devices=st.lists(_DEVICES, max_size=3).map(tuple),
    sampled_at=st.just(T0),
    error=_WORDS,
    drained=_WORDS,
)


@given(st.lists(_HOSTS, min_size=1, max_size=12))
def test_any_hosts_come_back(hosts: list[Host]) -> None:
    import tempfile

    seen = [(T0 + at, each) for at, each in enumerate(hosts)]
    with tempfile.TemporaryDirectory() as folder:
        path = recorded(Path(folder) / "x.gpurec", Batch(T0, T0 + 20, seen))
        stretch = Tape(path).stretch(0)
        for at in range(len(hosts)):
            wanted = {each.name: each for _, each in seen[: at + 1]}
            got = {each.name: each for each in stretch.hosts(T0 + at)}
            for name, each in wanted.items():
                assert replace(got[name], sampled_at=T0) == each
                assert got[name].sampled_at == pytest.approx(T0, abs=0.05)


def test_figures_are_as_exact_as_the_page_says(tmp_path: Path) -> None:
    facts = HostFacts(37.3, 64, 515000.0, 120_000.0, 2e6, 1.2e6, 12.34)
    seen = host(T0 - 0.3, facts=facts, clock_skew_s=-2.5, devices=(device(power_w=310.6),))
    tape = Tape(recorded(tmp_path / "x.gpurec", Batch(T0, T0 + 1, [(T0, seen)])))
    (got,) = tape.stretch(0).hosts(T0)
    assert got.facts.cpu_percent == 37.5
    assert got.facts.memory_used_mib == pytest.approx(120_000, abs=8)
    assert got.facts.load_1m == pytest.approx(12.3)
    assert got.facts.memory_total_mib == 515000.0
    assert got.clock_skew_s == pytest.approx(-2.5, abs=0.05)
    assert got.sampled_at == pytest.approx(T0 - 0.3, abs=0.05)
    assert got.devices[0].power_w == 311.0


def test_a_moment_is_the_last_record_before_it(tmp_path: Path) -> None:
    tape = Tape(recorded(tmp_path / "x.gpurec", minute(T0), minute(T0 + 60)))
    for second in (0, 1, 59, 60, 75, 119):
        at = T0 + second + 0.5
        (seen,) = tape.stretch(tape.number_at(at)).hosts(at)
        assert seen.devices[0].utilization == second % 60


def test_devices_that_come_and_go_begin_a_run(tmp_path: Path) -> None:
    seen = [(T0, host(T0)), (T0 + 1, host(T0 + 1, devices=(device(0),))), (T0 + 2, host(T0 + 2))]
    stretch = Tape(recorded(tmp_path / "x.gpurec", Batch(T0, T0 + 3, seen))).stretch(0)
    assert [len(stretch.hosts(T0 + s)[0].devices) for s in range(3)] == [2, 1, 2]


def test_when_a_vendors_tool_ran_makes_no_other_device(tmp_path: Path) -> None:
    def reported(second: int) -> Host:
        # A figure that is the same for months changes to and fro: what was before is known again.
        limit = 400.0 if second % 20 < 10 else 350.0
        one = device(0, sampled_at=T0 + second - 5, power_limit_w=limit)
        return host(T0 + second, devices=(one,))

    standings = Standings()
    numbers = {standings.number(reported(second)) for second in range(60)}
    assert numbers == {0, 1}
    path = recorded(tmp_path / "x.gpurec", Batch(T0, T0 + 60, [(T0 + 30, reported(30))]))
    (got,) = Tape(path).stretch(0).hosts(T0 + 30)
    assert got.devices[0].sampled_at is None


def test_jobs_events_and_incidents_are_as_they_were(tmp_path: Path) -> None:
    ended = replace(job(), state=JobState.SUCCEEDED)
    later = replace(incident(), ended_at=T0 + 70)
    event = Event("job", "ana-resnet", "resnet: succeeded", T0 + 30)
    first = minute(T0, standing=(job("old", JobState.OOM), job()), incidents_before=(incident(),))
    first.jobs.append((T0 + 30, ended))
    first.events.append(event)
    second = minute(T0 + 60, incidents=[(T0 + 70, later)])
    path = recorded(tmp_path / "x.gpurec", first, second)
    tape = Tape(path)
    early, late = tape.stretch(0), tape.stretch(1)
    assert early.jobs(T0 + 10) == (job("old", JobState.OOM), job())
    assert early.jobs(T0 + 30) == late.jobs(T0 + 90) == (job("old", JobState.OOM), ended)
    assert early.incidents(T0 + 10) == (incident(),)
    assert late.incidents(T0 + 80) == (later,)
    assert Shelf(path).events() == (event,)


def test_the_values_of_an_environment_are_not_recorded(tmp_path: Path) -> None:
    secret = replace(job(), task=Task("a", env={"TOKEN": "hunter2"}))
    path = recorded(tmp_path / "x.gpurec", minute(T0, standing=(secret,)))
    text, _ = file_format.read_parts(path, Tape(path).blocks[0], frames=True)
    assert b"TOKEN" in text
    assert b"hunter2" not in text
    assert Tape(path).stretch(0).jobs(T0)[0].task.env == {"TOKEN": "***"}


def test_a_very_long_queue_is_told_over_several_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_OF_JOBS", 12_000)
    jobs = tuple(job(f"{n}", JobState.QUEUED) for n in range(100))
    file = FileWriter(tmp_path / "x.gpurec", HEADER)
    changed = replace(jobs[5], state=JobState.CANCELLED)
    file.write(minute(T0, standing=jobs, jobs=[(T0 + 5, changed)]))
    for number in range(1, 4):
        file.write(minute(T0 + 60 * number))
    file.close()
    tape = Tape(file.path)
    known = [len(tape.stretch(number).jobs(T0 + 60 * number + 59)) for number in range(4)]
    assert 0 < known[0] < known[1] < known[-1] == 100
    assert changed in tape.stretch(3).jobs(T0 + 239)


def test_text_that_is_no_text_does_not_spoil_a_file(tmp_path: Path) -> None:
    odd = replace(job(), cause="caf\udce9")
    path = recorded(tmp_path / "x.gpurec", minute(T0, standing=(odd,)))
    assert Tape(path).stretch(0).jobs(T0)[0].cause == "caf?"


def test_old_ended_jobs_are_not_written_each_hour(tmp_path: Path) -> None:
    jobs = tuple(job(f"{n}", JobState.SUCCEEDED) for n in range(writer.KEPT_ENDED + 50))
    path = recorded(tmp_path / "x.gpurec", minute(T0, standing=(job("running"), *jobs)))
    kept = Tape(path).stretch(0).jobs(T0)
    assert len(kept) == writer.KEPT_ENDED + 1
    assert kept[0].task.name == "running"
    assert kept[-1] == jobs[-1]


# --- torn and hostile files ---------------------------------------------------------------------


def test_a_torn_tail_costs_the_last_block_at_most(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x.gpurec", minute(T0), minute(T0 + 60), minute(T0 + 120))
    whole = path.read_bytes()
    ends = [place.end for place in Tape(path).blocks]
    for size in (*range(ends[1] - 40, ends[2], 7), ends[2] - 1):
        path.write_bytes(whole[:size])
        tape = Tape(path)
        assert len(tape.blocks) == sum(end <= size for end in ends)
        assert (tape.torn is None) == (size in ends)
        assert tape.stretch(0).hosts(T0 + 5)[0].devices[0].utilization == 5


def test_a_writer_that_is_killed_leaves_what_it_wrote(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.state.recording.test_recording import *\n"
        "file = FileWriter(Path(sys.argv[1]), HEADER)\n"
        "for number in range(100_000): file.write(minute(T0 + 60 * number))\n"
    )
    path = tmp_path / "x.gpurec"
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], cwd=root)
    wait_until(lambda: path.exists() and path.stat().st_size >= 20_000)
    assert process.poll() is None
    process.kill()
    process.wait()
    tape = Tape(path)
    assert len(tape.blocks) > 10
    for number in (0, len(tape.blocks) - 1):
        at = T0 + 60 * number + 30
        assert tape.stretch(number).hosts(at)[0].devices[0].utilization == 30


def test_a_block_that_is_being_written_is_found_once_it_is_whole(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "x.gpurec", minute(T0), minute(T0 + 60)).read_bytes()
    path = tmp_path / "y.gpurec"
    path.write_bytes(whole[:-10])
    tape = Tape(path)
    assert len(tape.blocks) == 1
    path.write_bytes(whole)
    assert tape.refresh()
    assert tape.torn is None
    assert tape.stretch(1).hosts(T0 + 61)[0].devices[0].utilization == 1


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x.gpurec", minute(T0))
    data = bytearray(path.read_bytes())
    data[8] = 9
    path.write_bytes(data)
    with pytest.raises(UsageError, match="version 9") as raised:
        Tape(path)
    assert "Update" in raised.value.hint


@pytest.mark.parametrize("content", [b"", b"GPUCREC\n", b"SQLite format 3\0" * 9, os.urandom(400)])
def test_what_is_no_recording_is_said_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.gpurec"
    path.write_bytes(content)
    with pytest.raises(RecordingError) as raised:
        Tape(path)
    assert str(path) in raised.value.message
    assert "byte 0" in raised.value.message


def test_a_missing_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        Tape(tmp_path / "none.gpurec")


def _every_moment(path: Path) -> Iterator[object]:
    shelf = Shelf(path)
    yield shelf.events()
    for span in shelf.spans:
        for at in (span.first, span.last):
            stretch = shelf.stretch(at)
            yield stretch.hosts(at), stretch.jobs(at), stretch.incidents(at)
            yield shelf.following(stretch)


def test_flipped_bytes_are_an_error_with_place_or_nothing(tmp_path: Path) -> None:
    first = minute(T0, standing=(job(),), incidents_before=(incident(),))
    whole = recorded(tmp_path / "x.gpurec", first, minute(T0 + 60)).read_bytes()
    path = tmp_path / "y.gpurec"
    dice = random.Random(5)
    refused: list[str] = []
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(dice.choice((1, 1, 8))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        try:
            list(_every_moment(path))
        except ConsoleError as error:
            refused.append(error.message)
    assert len(refused) > 100
    assert all(str(path) in message for message in refused)


def _with_block(path: Path, log: bytes, frames: bytes) -> Path:
    whole = file_format.header_bytes(HEADER) + file_format.block_bytes(log, frames, T0, T0 + 60)
    path.write_bytes(whole)
    return path


_EMPTY = b"\x20\0\0\0" + b'{"start":1790000000.0,"runs":[]}'


@pytest.mark.parametrize(
    "text",
    [
        b"job nan {}",
        b"job 1790000000.0 {}",
        b"job 1790000000.0 " + b"[" * 100_000,
        b"host 1 []",
        b"host x {}",
        b'host 1 {"name": 1e999}',
        b'event 1 {"kind":"host","subject":"a","message":"b","at":1e300}',
        b'event 1 {"kind":"host","subject":"a","message":"b","at":NaN}',
        b"job",
        b"job 5 {}\n" * 60_000,
        b'job 1790000000.0 {"id":"a","task":{"name":"t"},"user":"u","state":"no","submitted_at":1}',
        b'job 1790000000.0 {"id":"a","task":{"name":"t"},"user":"u","state":"oom","submitted_at":1,'
        b'"estimate":{"verdicts":[{"step_s":"soon"}]}}',
        b'job 1790000000.0 {"id":"a","task":{"name":"t"},"user":"u","state":"oom","submitted_at":1,'
        b'"estimate":{"memory":7}}',
    ],
)
def test_a_hostile_log_is_an_error(tmp_path: Path, text: bytes) -> None:
    path = _with_block(tmp_path / "x.gpurec", text, _EMPTY)
    with pytest.raises(RecordingError, match="makes no sense"):
        Tape(path).stretch(0)


@pytest.mark.parametrize(
    "frames",
    [
        b"",
        b"\xff\xff\xff\xff",
        b"\x02\0\0\0[]",
        b'\x0d\0\0\0{"runs":[[]]}',
        b'\x20\0\0\0{"start":1790000000.0,"runs":[]]',
        b'\x29\0\0\0{"start":1790000000.0,"runs":[[[7,1,[]]]]}'[:45],
        b"\x10\0\0\0" + b"[" * 16,
    ],
)
def test_hostile_frames_are_an_error(tmp_path: Path, frames: bytes) -> None:
    path = _with_block(tmp_path / "x.gpurec", b"", frames)
    with pytest.raises(RecordingError, match="makes no sense"):
        Tape(path).stretch(0)


def test_more_rows_than_there_is_data_for_are_refused(tmp_path: Path) -> None:
    text = b'{"start":1790000000.0,"runs":[[[0,90000000,[]]]]}'
    reported = b'host 0 {"name":"a"}'
    path = _with_block(tmp_path / "x.gpurec", reported, len(text).to_bytes(4, "little") + text)
    with pytest.raises(RecordingError, match="too many"):
        Tape(path).stretch(0)


def test_a_block_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = _with_block(tmp_path / "x.gpurec", b"\0" * (file_format.LONGEST_PART + 1), b"")
    assert path.stat().st_size < 100_000
    with pytest.raises(RecordingError, match="MiB"):
        Tape(path).stretch(0)


# --- the ring -----------------------------------------------------------------------------------


def ring(folder: Path, name: str = "one", **more: Any) -> RingWriter:
    bounds: dict[str, Any] = {"keep_hours": 24.0, "max_mib": 100.0}
    return RingWriter(folder, lambda batch: replace(HEADER, session=name), **{**bounds, **more})


def test_a_ring_begins_a_file_each_hour_and_reads_as_one(tmp_path: Path) -> None:
    made = ring(tmp_path)
    for number in range(130):
        made.write(minute(T0 + 60 * number, 2, standing=(job(),)))
    made.close()
    assert len(files_in(tmp_path)) == 3
    shelf = Shelf(tmp_path)
    assert len(shelf.spans) == 130  # each block ends after two seconds here
    assert shelf.stretch(T0 + 60 * 129).hosts(T0 + 60 * 129 + 1)[0].devices[0].utilization == 1
    stretch, count = shelf.stretch(T0), 1
    while (following := shelf.following(stretch)) is not None:
        stretch, count = following, count + 1
    assert count == 130
    assert stretch.jobs(T0 + 9000) == (job(),)


def test_the_oldest_go_by_age(tmp_path: Path) -> None:
    made = ring(tmp_path, keep_hours=2)
    for hour in range(6):
        made.write(minute(T0 + 3600 * hour, 2))
    made.close()
    began = [at for at, _ in files_in(tmp_path)]
    assert began == [T0 + 3600 * hour for hour in (3, 4, 5)]


def test_the_oldest_go_by_size(tmp_path: Path) -> None:
    made = ring(tmp_path, max_mib=0.02)
    for number in range(100):
        made.write(minute(T0 + 60 * number))
    made.close()
    total = sum(path.stat().st_size for _, path in files_in(tmp_path))
    assert 5_000 < total <= 0.02 * 2**20
    assert Shelf(tmp_path).spans[-1].last == T0 + 6000


def test_a_file_that_another_session_writes_stays(tmp_path: Path) -> None:
    other = ring(tmp_path, "other")
    other.write(minute(T0))
    mine = ring(tmp_path, "mine", keep_hours=1)
    mine.write(minute(T0 + 86400))
    assert len(files_in(tmp_path)) == 2
    other.close()
    mine.write(minute(T0 + 2 * 86400))
    assert files_in(tmp_path)[0][0] >= T0 + 86400


def test_two_sessions_write_two_files_and_ones_own_wins(tmp_path: Path) -> None:
    one, two = ring(tmp_path, "one"), ring(tmp_path, "two")
    one.write(minute(T0))
    two.write(Batch(T0, T0 + 60, [(T0, host(T0, devices=()))]))
    assert len(files_in(tmp_path)) == 2
    assert Shelf(tmp_path, session="one").stretch(T0 + 1).hosts(T0)[0].devices
    assert not Shelf(tmp_path, session="two").stretch(T0 + 1).hosts(T0)[0].devices


def test_recordings_of_another_lab_are_left_out(tmp_path: Path) -> None:
    ring(tmp_path).write(minute(T0))
    assert Shelf(tmp_path, hosts=("a", "z")).spans
    assert not Shelf(tmp_path, hosts=("z",)).spans
    with pytest.raises(UsageError, match="no recorded moment"):
        Shelf(tmp_path, hosts=("z",)).nearest(T0)


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    ring(tmp_path).write(minute(T0))
    (tmp_path / "20200101T000000Z-bad-0001.gpurec").write_bytes(b"nothing of this is true")
    (tmp_path / "notes.txt").write_text("mine")
    shelf = Shelf(tmp_path)
    assert len(shelf.spans) == 1
    assert "bad" in shelf.trouble[0]


def test_a_clock_set_back_begins_a_new_file(tmp_path: Path) -> None:
    made = ring(tmp_path)
    made.write(minute(T0))
    made.write(minute(T0 - 600))
    assert len(files_in(tmp_path)) == 2


def test_gaps_are_known_and_stepped_over(tmp_path: Path) -> None:
    made = ring(tmp_path)
    made.write(minute(T0))
    made.write(minute(T0 + 600))
    shelf = Shelf(tmp_path)
    assert [(span.first - T0, span.last - T0) for span in shelf.spans] == [(0, 60), (600, 660)]
    assert shelf.nearest(T0 + 200) == T0 + 60
    assert shelf.nearest(T0 + 200, 1) == T0 + 600
    assert shelf.nearest(T0 + 500, -1) == T0 + 60
    assert shelf.nearest(T0 - 50, -1) == T0
    assert shelf.nearest(T0 + 5000, 1) == T0 + 660
    assert shelf.stretch(T0 + 300).last == T0 + 60


def test_a_full_disk_leaves_the_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FileWriter(tmp_path / "x.gpurec", HEADER)
    file.write(minute(T0, standing=(job(),)))
    real, left = os.write, [100]

    def short(fd: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        count = real(fd, data[: left[0]])
        left[0] -= count
        return count

    monkeypatch.setattr(os, "write", short)
    changed = replace(job(), state=JobState.FAILED)
    with pytest.raises(OSError, match="No space"):
        file.write(minute(T0 + 60, standing=(job(),), jobs=[(T0 + 61, changed)]))
    monkeypatch.setattr(os, "write", real)
    file.write(minute(T0 + 120, standing=(changed,)))
    file.close()
    tape = Tape(file.path)
    assert tape.torn is None
    assert [place.first - T0 for place in tape.blocks] == [0, 120]
    assert tape.stretch(1).jobs(T0 + 121) == (changed,)
    assert tape.stretch(1).hosts(T0 + 130)[0].devices[0].utilization == 10
