"""The queue's commands on whole sweeps, and every option of `submit` that the queue orders by."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gpuconsole.cli.commands.jobs import fetch
from gpuconsole.core.devices.host_faults import FaultStreak
from gpuconsole.core.engines.transfers import LeftOut
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.session.dispatch import optuna_study
from gpuconsole.session.results import FetchedResults
from tests.cli.command_line import Lab, Run, jobs_of


def test_a_sweep_is_one_name_to_every_command(
    run: Run,
    lab: Lab,
    script: Path,
) -> None:
    words = ("--sweep", "lr=1e-3,1e-4", "--sweep", "seed=0..1", "--hold")
    queued = run("submit", script, *words, *lab, "--json")
    assert queued.code == 0
    assert queued.document["sweep"] == "train"
    assert [one["name"] for one in queued.document["jobs"]] == [
        f"train[lr={lr},seed={seed}]" for lr in ("1e-3", "1e-4") for seed in (0, 1)
    ]
    state = ("--state", lab[3])

    def states(command: str, *more: str) -> list[str]:
        answer = run(command, "train", *more, *state, "--json")
        assert answer.code == 0, answer.err
        return [one["state"] for one in answer.document["jobs"]]

    assert states("jobs") == ["held"] * 4
    assert states("release") == ["queued"] * 4
    assert states("hold") == ["held"] * 4
    assert states("hold") == ["queued"] * 4
    assert states("hold") == ["held"] * 4
    assert states("priority", "7") == ["held"] * 4
    reported = run("priority", "train", "8", *state).out.splitlines()
    assert [line.endswith(" held, priority 8") for line in reported] == [True] * 4
    assert len(run("jobs", "train", *state).out.splitlines()) > 4
    assert run("wait", "train", *lab, "--json").code == 1
    cancelled = run("cancel", "train", *lab, "--json")
    assert [one["state"] for one in cancelled.document["jobs"]] == ["cancelled"] * 4
    assert run("wait", "train", *lab, "--json").code == 1
    assert states("retry") == ["queued"] * 4
    which = run("why", "train", *lab, "--json")
    assert which.code == 0
    assert [one["state"] for one in which.document["jobs"]] == ["queued"] * 4
    lines = run("why", "train", *lab).out.splitlines()
    assert sum(line.startswith(which.document["jobs"][0]["id"]) for line in lines) == 1
    again = run("submit", script, "--sweep", "seed=0..1", *lab)
    assert again.out.strip() == "train-2"


def test_one_job_has_its_priority_changed_and_is_released(
    run: Run,
    lab: Lab,
    script: Path,
    tmp_path: Path,
) -> None:
    job = run("submit", script, *lab, "--hold", "--json").document["job"]
    state = ("--state", lab[3])
    assert run("priority", job, "--json", *state, "--", "-5").document["id"] == job
    assert jobs_of(tmp_path)[0].task.priority == -5
    assert run("priority", job, "7", *state).out == f"{job} (train) held, priority 7\n"
    assert run("release", job, *state, "--json").document["state"] == "queued"
    twice = run("release", job, *state, "--json")
    assert twice.code == 1
    assert twice.document["error"]["title"] == "Job is not held"


def test_a_host_that_is_drained_again_or_is_unknown_is_said_so(
    run: Run,
    lab: Lab,
) -> None:
    assert run("drain", "gone", "--reason", "fans", *lab).out == "gone takes no new jobs.\n"
    again = run("drain", "gone", *lab)
    assert again.code == 0
    assert again.out.startswith("gone was drained already (drained by ")
    assert again.out.endswith(": fans): that reason is kept.\n")
    assert run("drain", "gone", *lab, "--json").document["reason"] == "fans"
    other = run("drain", "gone", "--reason", "sold", *lab)
    assert other.out.endswith(": fans): that is replaced by the reason given now.\n")
    assert run("undrain", "gone", *lab).out == "gone takes jobs again.\n"
    unknown = run("undrain", "zz", *lab)
    assert unknown.code == 2
    assert "No such host" in unknown.err
    assert "It has: gone." in unknown.err


def test_a_host_that_is_set_aside_is_seen_in_every_status() -> None:
    from rich.console import Console

    from gpuconsole.cli.views import fleet
    from gpuconsole.session.export.status import status_document

    streak = FaultStreak(
        *("a", "", 3, ("j1", "j2"), 10.0, 20.0, 1, 90.0, "The GPU runtime failed", "a: nvml"),
        closed=True,
    )
    host = Host("a", HostState.UP, faults=(streak,), drained=streak.words(30.0))
    snapshot = FleetSnapshot(1, 30.0, (host,))
    (shown,) = status_document(snapshot, 30.0)["hosts"]
    assert shown["drained"].startswith("set aside until ")
    assert shown["faults"] == [
        {
            "image": None, "closed": True, "until": "1970-01-01T00:01:30.000Z", "faults": 3,
            "since": "1970-01-01T00:00:10.000Z", "title": "The GPU runtime failed",
            "message": "a: nvml", "hint": None, "jobs": ["j1", "j2"], "trial": None,
        }
    ]  # fmt: skip
    console = Console(width=200, file=io.StringIO())
    console.print(*fleet.fleet(snapshot, 30.0))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "up, set aside, never seen" in text
    assert "after 3 faults: The GPU runtime failed" in text


def test_submit_passes_on_what_orders_and_limits_a_job(
    run: Run,
    lab: Lab,
    script: Path,
    tmp_path: Path,
) -> None:
    first = run("submit", script, *lab, "--hold", "--json").document["job"]
    words = (
        "--account", "grant", "--not-label", "rack=old", "--not-label", "flaky", "--hosts", "1",
        "--after", first, "--deadline", "2030-01-31T18:00+08:00", "--run-time", "90m",
        "--retries", "4", "--auto-batch", "--share", "--checkpoint-dir", "ckpt",
    )  # fmt: skip
    assert run("submit", script, *lab, *words, "--hold").code == 0
    task = jobs_of(tmp_path)[1].task
    assert (task.account, task.hosts, task.retries) == ("grant", 1, 4)
    assert task.anti_labels == {"rack": "old", "flaky": ""}
    assert task.after == (first,)
    assert (task.deadline, task.run_time_s) == ("2030-01-31T10:00:00.000Z", 5400.0)
    assert task.auto_batch
    assert task.share
    assert task.checkpoint_dir == "ckpt"


def test_what_is_wrong_with_a_sweep_or_a_time_is_said(
    run: Run,
    lab: Lab,
    script: Path,
) -> None:
    for words, expected in (
        (("--sweep", "lr"), "is not NAME=VALUES"),
        (("--sweep", "a=0..99", "--sweep", "b=0..99"), "10000 jobs; 1000 are the most"),
        (("--deadline", "soon"), "expected a time such as"),
        (("--after", "nobody"), "has no job 'nobody'"),
        (("--retries", "-1"), "retries"),
    ):
        answer = run("submit", script, *words, *lab, "--json")
        assert answer.code == 2, words
        assert expected in answer.document["error"]["message"], answer.out


def test_secrets_come_from_a_file_or_ones_own_variables_and_are_not_told(
    run: Run,
    lab: Lab,
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINE", "hidden-mine")
    file = tmp_path / "job.env"
    file.write_text("HF_TOKEN=hidden-file\nLR=2\nEMPTY=\n")
    words = ("submit", script, *lab, "--hold", "--env-file", file)
    file.chmod(0o644)
    assert "may be read by other users" in run(*words).err
    file.chmod(0o600)
    job = run(*words, "--env", "LR=1", "--env", "MINE", "--json").document["job"]
    task = jobs_of(tmp_path)[0].task
    assert (task.env, task.secrets) == ({"LR": "1", "EMPTY": ""}, {"HF_TOKEN": "", "MINE": ""})
    values = json.loads((tmp_path / "state" / "secrets" / job).read_text())
    assert values == {"HF_TOKEN": "hidden-file", "MINE": "hidden-mine"}
    state = ("--state", lab[3])
    reported = [run(*one, *state, *more) for more in ((), ("--json",))
            for one in (("jobs",), ("why", job), ("render", job), ("hold", job))]  # fmt: skip
    assert not any("hidden" in answer.out + answer.err for answer in reported)
    assert run("cancel", job, *lab).code == 0
    again = run("retry", job, *state)
    assert again.code == 2
    assert f"gpuconsole retry {job} --env-file FILE" in again.err
    file.write_text("HF_TOKEN=hidden-file\nMINE=hidden-mine\nLR=2\n")
    assert run("retry", job, *state, "--env-file", file).code == 0
    wrong = run("submit", script, *lab, "--env", "MISSING")
    assert wrong.code == 2
    assert "$MISSING" in wrong.err


def test_fetch_names_what_it_could_not_copy(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_out = LeftOut()
    for number in range(1500):
        left_out = left_out.add(f"pipe\x1b[31m-{number}", "is a named pipe")
    done = ("ada-1", FetchedResults(Path("/here/ada-1"), left_out))
    monkeypatch.setattr(fetch, "drive", lambda work: done)
    reported = run("fetch", "ada-1")
    assert reported.out == "/here/ada-1\n"
    lines = reported.err.splitlines()
    assert lines[:2] == ["Left out of them: 1500", "  pipe-0 is a named pipe"]
    assert lines[-1] == "  and 1480 more"
    document = run("fetch", "ada-1", "--json").document
    assert (document["job"], document["folder"]) == ("ada-1", "/here/ada-1")
    assert document["left_out_count"] == 1500
    assert len(document["left_out"]) == 1000
    assert document["left_out"][1] == {"name": "pipe-1", "reason": "is a named pipe"}


def test_what_was_not_shipped_is_said_at_submission(
    run: Run,
    lab: Lab,
    script: Path,
) -> None:
    for number in range(30):
        (script.parent / f"{number:02}.key").write_text("x")
    reported = run("submit", script, *lab, "--hold")
    assert "Warning: train: 00.key: looks like a key or password file" in reported.err
    assert "--ship 00.key" in reported.err
    assert reported.err.count("looks like a key") == 20
    assert "and 10 more were left out" in reported.err
    document = run("submit", script, *lab, "--hold", "--ship", script.parent / "00.key", "--json")
    assert not any("00.key" in one for one in document.document["warnings"])
    assert any("01.key" in one for one in document.document["warnings"])
    swept = run("submit", script, *lab, "--hold", "--sweep", "x=1,2", "--json").document
    assert any("00.key" in one for one in swept["warnings"])


def test_a_search_is_queued_as_trials_that_are_held(
    run: Run,
    lab: Lab,
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optuna_study, "has_optuna", lambda: True)
    words = ("--goal", "min  val_loss", "--sweep", "lr=1e-5..1e-1:log", "--at-most", "2")
    answer = run("submit", script, *words, "--trials", "3", *lab, "--json")
    assert answer.code == 0, answer.err
    assert answer.document["sweep"] == "train"
    found = jobs_of(tmp_path)
    assert [job.state.value for job in found] == ["held"] * 3
    assert [job.task.name for job in found] == [f"train[trial {n}]" for n in (1, 2, 3)]
    assert {(job.task.goal, job.task.space, job.task.at_most) for job in found} == {
        ("min val_loss", ("--lr=1e-05..0.1:log",), 2)
    }
    state = ("--state", lab[3])
    assert run("release", "train", *state).code == 1
    assert "trial of a search" in run("release", "train", *state).err
    assert "hands out later" in run("why", "train", *state).out
    cancelled = run("cancel", "train", *lab, "--json")
    assert [one["state"] for one in cancelled.document["jobs"]] == ["cancelled"] * 3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--goal", "min loss"), "takes --goal, --trials and --sweep"),
        (("--trials", "3", "--sweep", "lr=1..2"), "takes --goal, --trials and --sweep"),
        (("--goal", "lowest", "--trials", "3", "--sweep", "lr=1..2"), "is no goal"),
        (("--goal", "min loss", "--trials", "3", "--sweep", "lr=2..1"), "has no number in it"),
    ],
)
def test_a_wrong_search_says_why(
    run: Run,
    lab: Lab,
    script: Path,
    words: tuple[str, ...],
    why: str,
) -> None:
    answer = run("submit", script, *words, *lab)
    assert answer.code == 2
    assert why in answer.err


def test_a_search_without_optuna_names_the_command(
    run: Run,
    lab: Lab,
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optuna_study, "has_optuna", lambda: False)
    words = ("--goal", "min loss", "--trials", "3", "--sweep", "lr=1..2")
    answer = run("submit", script, *words, *lab)
    assert answer.code == 2
    assert "pip install" in answer.err


def test_a_wrong_rule_is_refused_with_its_place(
    run: Run,
    lab: Lab,
    script: Path,
    tmp_path: Path,
) -> None:
    answer = run("submit", script, "--stop-if", "loss is bad", *lab)
    assert answer.code == 2
    assert "expected `nan` or `not` at column 9" in answer.err
    assert run("submit", script, "--stop-if", "loss is nan", "--hold", *lab).code == 0
    (job,) = jobs_of(tmp_path)
    assert job.task.stop_if == ("loss is nan",)
