"""Sweeps, what comes after them, drained hosts and smaller batches, on real containers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from gpuconsole.state import Journal
from tests.real.rig.hosts import Lab
from tests.real.services.test_road import TRAIN, Desk

pytestmark = pytest.mark.real

# No test machine has a GPU to fill: what Paddle would say is said where a batch is too large, by a
# test that nobody can decide by reading.
FULL = TRAIN.replace(
    "    loss.backward()\n",
    """    if float(loss) > -1.0 and options.batch_size > 16:
        raise SystemExit(
            "ResourceExhaustedError:\\n\\nOut of memory error on GPU 0. Cannot allocate 3.125000GB "
            "memory on GPU 0, 37.500000GB memory has been allocated and available memory is only "
            "117.750000MB."
        )
    loss.backward()
""",
    1,
)
SWEPT = TRAIN.replace(
    'parser.add_argument("--steps"', 'parser.add_argument("--seed", type=int)\n'
    'parser.add_argument("--steps"',
).replace('{"steps": options.steps', '{"seed": options.seed, "steps": options.steps')  # fmt: skip


@pytest.fixture
def desk(docker_lab: Lab, tmp_path: Path) -> Desk:
    docker_lab.add().start_engine()
    return Desk(docker_lab, tmp_path)


def test_a_batch_that_does_not_fit_is_made_smaller_and_runs(desk: Desk) -> None:
    desk.script.write_text(FULL)
    words = ("--auto-batch", "--", "--batch-size", "32", "--steps", "3")
    job_id = desk.json("submit", str(desk.script), *words)["job"]
    # It waits on while the smaller batch is worked out.
    done = desk.run("wait", job_id)
    assert done.returncode == 0, desk.run("why", job_id).stdout
    journal = Journal(desk.state, clock=lambda: 0.0, read_only=True)
    (job,) = journal.jobs()
    journal.close()
    assert job.task.args == ("--batch-size", "16", "--steps", "3")
    assert [attempt.ended_by for attempt in job.attempts] == ["oom", "own"]
    assert "tried again with 16" in job.attempts[0].cause


def test_a_sweep_runs_and_what_comes_after_it_comes_after_it(desk: Desk) -> None:
    desk.script.write_text(SWEPT)
    host = desk.json("status")["hosts"][0]["name"]
    assert desk.json("drain", host, "--reason", "update")["drained"]
    assert desk.json("status")["hosts"][0]["drained"].endswith(": update")
    sweep = desk.json(
        "submit", str(desk.script), "--sweep", "seed=1..2", "--", "--steps", "2"
    )["sweep"]  # fmt: skip
    last = desk.json("submit", str(desk.script), "--name", "last", "--after", sweep)["job"]
    swept = desk.json("jobs", sweep)["jobs"]
    assert "drained" in desk.json("why", swept[0]["id"])["reason"]
    assert "0 of its 2 jobs" in desk.json("why", last)["reason"]
    assert not desk.json("undrain", host)["drained"]
    assert desk.run("wait", last).returncode == 0, desk.run("logs", last).stdout
    done = desk.json("jobs", sweep)["jobs"]
    assert [job["state"] for job in done] == ["succeeded"] * 2
    ended = desk.job(last)
    assert all(job["ended_at"] <= ended["started_at"] for job in done)
    seeds = []
    for job in done:
        folder = Path(desk.json("fetch", job["id"], "--to", str(desk.folder / "out"))["folder"])
        (result,) = folder.rglob("result.json")
        seeds.append(json.loads(result.read_text())["seed"])
    assert sorted(seeds) == [1, 2]


def test_secrets_reach_the_container_and_no_file_here_has_them_after_its_end(desk: Desk) -> None:
    value = "hf_0123456789'$HOME\"abcdef"
    desk.script.write_text(
        "import hashlib, os\n"
        "print(hashlib.sha256(os.environ['HF_TOKEN'].encode()).hexdigest(), os.environ['LR'])\n"
    )
    file = desk.folder / "job.env"
    file.write_text(f"# for the hub\nHF_TOKEN={value}\nLR=0.5\n")
    file.chmod(0o600)
    job = desk.json("submit", str(desk.script), "--force", "--env-file", str(file))["job"]
    # Another process starts it: the values are found by whoever dispatches.
    assert desk.run("wait", job).returncode == 0, desk.run("why", job).stdout
    digest = hashlib.sha256(value.encode()).hexdigest()
    assert desk.run("logs", job).stdout.split() == [digest, "0.5"]
    rendered = [desk.run("render", job, "--to", to).stdout for to in ("docker", "kubernetes")]
    assert "--env HF_TOKEN " in rendered[0]
    said = [*rendered, *(desk.run(*words, "--json").stdout for words in (("jobs",), ("why", job)))]
    assert not any("hf_0123456789" in one for one in said)
    files = [path for path in desk.state.rglob("*") if path.is_file()]
    assert not [path for path in files if b"hf_0123456789" in path.read_bytes()]
    retried = desk.run("retry", job)
    assert retried.returncode == 2
    assert "HF_TOKEN, LR" in retried.stderr
    assert desk.run("retry", job, "--env-file", str(file)).returncode == 0
    assert desk.run("wait", job).returncode == 0
