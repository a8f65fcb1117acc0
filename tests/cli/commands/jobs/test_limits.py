"""What the command line says of limits, conditions and messages."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.command_line import Lab, Run, jobs_of


def test_submit_takes_limits_and_conditions(
    run: Run, lab: Lab, script: Path, tmp_path: Path
) -> None:  # fmt: skip
    first = run("submit", script, "--name", "first", "--hold", *lab, "--json").document["job"]
    words = ("--after", "afternotok:first", "--cancel-if-failed", "--time-limit", "90m")
    last = run("submit", script, "--name", "last", "--hold", *words, *lab, "--json")
    assert last.code == 0, last.err
    task = jobs_of(tmp_path)[-1].task
    assert task.after == (f"afternotok:{first}",)
    assert (task.cancel_if_failed, task.time_limit_s) == (True, 5400.0)
    (shown,) = run("jobs", "last", "--state", lab[3], "--json").document["jobs"]
    assert (shown["after"], shown["time_limit_s"], shown["ended_by"]) == (
        [f"afternotok:{first}"], 5400.0, None,
    )  # fmt: skip
    swept = run("submit", script, "--sweep", "seed=0..3", "--at-most", "2", "--hold", *lab)
    assert swept.code == 0, swept.err
    assert {one.task.at_most for one in jobs_of(tmp_path) if one.task.sweep} == {2}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--at-most", "2"), "--at-most is for the jobs of a sweep"),
        (("--sweep", "seed=0..1", "--at-most", "0"), "greater than or equal to 1"),
        (("--after", "aftercorr:first"), "`aftercorr:` is not known"),
        (("--after", "afterany:nothing"), "no job"),
        (("--time-limit", "-1"), "--time-limit"),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: Run, lab: Lab, script: Path, words: tuple[str, ...], why: str
) -> None:  # fmt: skip
    answer = run("submit", script, "--hold", *words, *lab)
    assert answer.code == 2
    assert why in answer.err.replace("\n", " ")


def test_a_test_message_goes_out_by_the_users_own_settings(
    run: Run, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    program, mail = tmp_path / "sendmail", tmp_path / "mail"
    program.write_text(f"#!/bin/sh\ncat > {mail}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    settings = tmp_path / "config" / "gpuconsole" / "config.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert "You are not notified" in run("notify", *lab).err
    closed = "http://127.0.0.1:1/services/SECRETPART"
    settings.write_text(
        f"sendmail: {program}\n"
        f"notify: {{ways: [{{slack: '{closed}'}}, {{mail: ada@lab.example}}]}}\n"
    )
    shown = run("notify", *lab, "--json")
    assert shown.document["ways"] == ["slack (127.0.0.1:1)", "mail (ada@lab.example)"]
    sent = run("notify", "--test", *lab, "--json")
    assert sent.code == 0, sent.err
    assert sent.document["sent_by"] == "mail (ada@lab.example)"
    assert "SECRETPART" not in sent.out + sent.err
    assert "is a test" in mail.read_text()
    assert run("notify", "--test", "--read-only", *lab).code == 2
