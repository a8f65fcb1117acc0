"""`gpuconsole simulate` as a person and as a program meet it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import main
from tests.cli.command_line import in_process

FIGURES = (
    *("mean_jct_s", "p50_jct_s", "p95_jct_s", "mean_wait_s", "p99_wait_s", "allocation_rate"),
    *("device_utilisation", "makespan_s", "fairness_jain", "jobs", "unfinished"),
)
LAB = "version: 1\nhosts: [{name: h, model: Tesla V100-SXM2-32GB, devices: 1}]\n"
TRACE = (
    "submitted_s,run_time_s,devices,user,job_class,need_mib,utilization,backends\n"
    "0,100,1,ana,vision,9000,50,gpu\n"
    "1,50,1,bo,vision,9000,50,gpu\n"
    "2,10,1,ana,vision,9000,50,gpu\n"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    lab, trace = tmp_path / "lab.yaml", tmp_path / "trace.csv.gz"
    lab.write_text(LAB, encoding="utf-8")
    with gzip.open(trace, "wt", encoding="utf-8") as file:
        file.write(TRACE)
    return "--lab", str(lab), "--trace", str(trace), "--sigma", "0"


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["simulate", "--json", *words]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_three_jobs_worked_out_by_hand(
    files: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, *files, "--policy", "fifo_strict", "--policy", "sjf_easy")
    assert found["simulation"] is True
    fifo, shortest = found["policies"]
    assert fifo["policy"] == "fifo_strict"
    # One after the other: 100, 149, 158; the short one first: 100, 159, 108.
    assert fifo["mean_jct_s"] == pytest.approx((100 + 149 + 158) / 3)
    assert shortest["mean_jct_s"] == pytest.approx((100 + 159 + 108) / 3)
    assert fifo["mean_wait_s"] == pytest.approx((0 + 99 + 148) / 3)
    assert fifo["makespan_s"] == shortest["makespan_s"] == pytest.approx(160)
    assert fifo["p50_jct_s"] == pytest.approx(149)
    assert fifo["allocation_rate"] == pytest.approx(1.0)
    assert fifo["device_utilisation"] == pytest.approx(0.5)
    # Users: ana (100 + 10) / (100 + 158), bo 50 / 149.
    ana, bo = 110 / 258, 50 / 149
    assert fifo["fairness_jain"] == pytest.approx((ana + bo) ** 2 / (2 * (ana**2 + bo**2)))
    assert shortest["ratio"]["mean_jct_s"] == pytest.approx(367 / 407)
    assert fifo["ratio"]["mean_jct_s"] == 1.0
    assert set(FIGURES) < set(fifo)
    assert (fifo["jobs"], fifo["unfinished"]) == (3, 0)


def test_without_arguments_it_plays_a_synthetic_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["simulate"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("SIMULATION")
    assert "no job of it ever ran" in said.out
    for name in ("fifo_strict", "host_per_user", "sjf_easy", "weighted", "MEAN JCT", "▁"):
        assert name in said.out
    assert said.err == ""


def test_the_same_seed_gives_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--load", "0.5", "--policy", "weighted", "--sharing", "--sigma", "4")
    first = document(capsys, *words, "--seed", "7")
    assert first == document(capsys, *words, "--seed", "7")
    assert first["policies"] != document(capsys, *words, "--seed", "8")["policies"]
    assert first["offered_load"] == pytest.approx(0.5, rel=0.05)


def test_policies_that_see_no_prediction_do_not_change_with_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [
        document(capsys, "--policy", "fifo_skip", "--sigma", sigma)["policies"]
        for sigma in ("0", "4", "none")
    ]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--policy", "magic"], ["'magic' is no policy", "sjf_easy"]),
        (["--trace", "missing.csv"], ["missing.csv does not exist"]),
        (["--lab", "missing.yaml"], ["missing.yaml does not exist"]),
        (["--format", "philly"], ["Add --trace FILE"]),
        (["--sigma", "much"], ["'much' is not a number from 0 to 10, nor none"]),
        (["--start-day", "900"], ["no job from day 900", "it ends on day 5."]),
        (["--load", "0"], ["'--load'"]),
    ],
)
def test_mistakes_are_said(
    words: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    for part in parts:
        assert part in said.err


def test_a_bad_row_names_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text("submitted_s,run_time_s,devices\n0,10,1\n5,soon,1\n", encoding="utf-8")
    assert main(["simulate", "--trace", str(trace), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert "mine.csv:3: `run_time_s` is 'soon', expected a number." in error["message"]


def test_another_format_than_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text(TRACE, encoding="utf-8")
    assert main(["simulate", "--trace", str(trace), "--format", "helios"]) == 2
    assert "no column 'arrival_s'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\x1f\x8b\x08\x00broken", "damaged"),
        (gzip.compress(TRACE.encode() * 50)[:60], "damaged"),
        (b"PK\x03\x04\xff\xfe\xfa", "not UTF-8"),
        (b"", "holds no line"),
    ],
    ids=["no-gzip", "torn-gzip", "no-text", "empty"],
)
def test_a_file_that_is_no_trace(
    content: bytes, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv.gz"
    trace.write_bytes(content)
    assert main(["simulate", "--trace", str(trace)]) == 2
    assert part in capsys.readouterr().err


def test_gavel_needs_its_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(
        "model,total_steps,arrival_s,num_gpus\nResNet-18 (batch size 16),1000,0,1\n",
        encoding="utf-8",
    )
    words = ["simulate", "--trace", str(trace), "--format", "gavel", "--policy", "first_fit"]
    assert main(words) == 2
    assert "--rates" in capsys.readouterr().err
    (tmp_path / "gavel_throughputs_isolated.csv").write_text(
        "gpu_type,model,num_gpus,steps_per_s\nv100,ResNet-18 (batch size 16),1,10\n",
        encoding="utf-8",
    )
    assert document(capsys, *words[1:])["policies"][0]["jobs"] == 1


def test_it_needs_neither_screen_nor_ssh() -> None:
    probe = (
        "import sys; from gpuconsole.cli import main\n"
        "main(['simulate', '--policy', 'first_fit', '--json'])\n"
        "sys.stderr.write(repr([m for m in ('textual', 'asyncssh', 'docker') if m in sys.modules]))"
    )
    done = in_process(probe)
    assert done.stderr.endswith("[]")
