"""`gpuconsole report` on a journal that is there: tables, CSV and JSON, with hostile names."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.cli.entry import main
from gpuconsole.core.devices.device_use import DeviceUse
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.state import Journal

HOUR = 3600.0
EVIL = "=cmd|' /C calc'!A1"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal with a job that ended, and one that holds two devices idly."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GPUCONSOLE_INVENTORY", raising=False)
    now = time.time()
    folder = tmp_path / "state"
    journal = Journal(folder, clock=time.time)
    ended = Attempt(
        1, "h1", ("G0",), (0,), created_at=now - 10 * HOUR, starting_at=now - 10 * HOUR,
        started_at=now - 10 * HOUR, ended_at=now - 6 * HOUR,
    )  # fmt: skip
    running = replace(
        ended, host="h2\x1b]0;x\x07", device_uuids=("G1", "G2"), created_at=now - 5 * HOUR,
        ended_at=None,
    )  # fmt: skip
    for name, account, attempt, status in (
        ("train", EVIL, ended, JobState.SUCCEEDED),
        ("notebook\u202e", "lab", running, JobState.RUNNING),
    ):
        # The journal adds jobs that wait, and follows them from there.
        job = journal.add(Job(name[:5], Task(name, account=account), "ada", JobState.QUEUED, now))
        begun = journal.save(job, replace(job, state=JobState.LAUNCHING, attempts=(attempt,)))
        journal.save(begun, replace(begun, state=status))
    journal.measure_use(
        [
            DeviceUse("train", 1, ended.created_at, "h1", "A100", 1, 3 * HOUR, 4 * HOUR,
                      4 * HOUR * 250, 4 * HOUR, now, now),
            DeviceUse("noteb", 1, running.created_at, running.host, "A100", 2, 0.0, 10 * HOUR,
                      0.0, 0.0, now, None),
        ]
    )  # fmt: skip
    journal.close()
    return folder


def test_idle_leases_come_first_and_nothing_hostile_reaches_the_terminal(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--state", str(state), "--by", "user,host"]) == 0
    reported = capsys.readouterr().out
    lines = reported.splitlines()
    assert lines[0] == "2 devices are held and not used."
    assert "notebook" in lines[2]
    assert lines[2].startswith("   5h")
    assert "\x1b" not in reported
    assert "\u202e" not in reported
    assert "Use was measured over 100% of the GPU-hours, energy over 29%." in reported
    (total,) = [line for line in lines if line.startswith("total")]
    words = total.split()
    # The running job holds its devices for a moment longer than was measured.
    assert words[:2] == ["total", "2"]
    assert [float(word) for word in words[2:5]] == pytest.approx([14.0, 3.0, 11.0], abs=0.1)
    assert words[6:] == ["21", "%", "1.00", "n/a"]


def test_a_spreadsheet_takes_no_name_for_a_formula(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--state", str(state), "--by", "account", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["account"] for row in rows} == {"'" + EVIL, "lab"}
    (lab,) = [row for row in rows if row["account"] == "lab"]
    assert float(lab["device_hours"]) == pytest.approx(10.0, abs=0.1)
    assert float(lab["wasted_hours"]) == pytest.approx(10.0, abs=0.1)
    assert lab["kwh"] == ""


def test_prices_of_the_inventory_make_a_cost(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "lab.yaml"
    inventory.write_text(
        "version: 1\n"
        "hosts: [{name: h1, price_per_hour: 2.5}]\n"
        "lab: {prices: {currency: EUR, per_kwh: 0.5, per_hour: {A100: 1.0}}}\n"
    )
    asked = ["report", "--state", str(state), "--inventory", str(inventory), "--json"]
    assert main(asked) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["currency"] == "EUR"
    assert document["total"]["cost"] == pytest.approx(4 * 2.5 + 10 * 1.0 + 1.0 * 0.5, rel=1e-3)
    assert document["total"]["cost_complete"] is False
    assert document["total"]["unpriced_hours"] == 0.0
    assert [lease["job"] for lease in document["idle"]] == ["noteb"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--by", "colour"],
        ["--by", "user,user"],
        ["--since", "soon"],
        ["--since", "2030-13"],
        ["--since", "now", "--until", "-1d"],
        ["--csv", "--json"],
    ],
)
def test_wrong_questions_are_refused(
    state: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--state", str(state), *wrong]) == 2


def test_a_month_and_the_days_before_now_can_be_asked_for(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--state", str(state), "--since", "2020-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["since"].startswith("20")
    assert main(["report", "--state", str(state), "--since", "-1h", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    assert total["device_hours"] == pytest.approx(2.0, abs=0.01)
