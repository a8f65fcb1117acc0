"""Batch scripts are run here by bash itself, with Slurm's variables stood in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpuconsole.core.engines.batch_job import (
    Batch,
    Script,
    Shell,
    array_script,
    batch_script,
    body,
    directives,
    exports,
)
from gpuconsole.errors import UsageError

SAY = "import os, sys; print(sys.argv[1:], os.environ.get('WORD'))"


def run(text: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    known = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "t", **env}
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env=known, capture_output=True, text=True, check=False
    )


def made(folder: Path, *command: str, **fields: object) -> Script:
    (folder / "work").mkdir(exist_ok=True)
    return Script("run", command, folder=str(folder), **fields)  # type: ignore[arg-type]


def test_everything_asked_for_is_an_option_of_sbatch() -> None:
    batch = Batch(
        devices=4, nodes=2, kind="a100", memory_mib=1000.2, time_s=90, partition="gpu,debug",
        account="lab", qos="high", constraint="nvlink&hbm",
    )  # fmt: skip
    found = directives(Script("train-1", ("python", "t.py"), batch))
    assert found == (
        "--job-name=train-1",
        "--output=train-1-%j.log",
        "--no-requeue",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gres=gpu:a100:4",
        "--mem=1001M",
        "--time=2",
        "--partition=gpu,debug",
        "--account=lab",
        "--qos=high",
        "--constraint=nvlink&hbm",
    )


@pytest.mark.parametrize(
    ("time_s", "minutes"),
    [(0, 1), (59, 1), (60, 1), (61, 2), (120, 2), (120.5, 3), (3600, 60), (86400, 1440)],
)
def test_a_time_limit_is_whole_minutes_and_at_least_one(time_s: float, minutes: int) -> None:
    options = directives(Script("t", ("python",), Batch(time_s=time_s)))
    assert f"--time={minutes}" in options


@pytest.mark.parametrize(
    ("memory_mib", "asked"), [(0.5, 1), (1.0, 1), (1000.0, 1000), (1000.01, 1001)]
)
def test_memory_is_rounded_up_to_whole_mebibytes(memory_mib: float, asked: int) -> None:
    options = directives(Script("t", ("python",), Batch(memory_mib=memory_mib)))
    assert f"--mem={asked}M" in options


@pytest.mark.parametrize(
    ("folder", "tasks", "options"),
    [
        ("", 0, ("--output=t-%j.log", "--no-requeue")),
        ("", 3, ("--output=t-%A_%a.log", "--no-requeue")),
        ("/runs/1", 0, ("--output=/runs/1/log", "--open-mode=append", "--no-requeue")),
        ("/runs/1", 3, ("--output=/dev/null", "--open-mode=append", "--no-requeue")),
    ],
)
def test_where_the_output_goes(folder: str, tasks: int, options: tuple[str, ...]) -> None:
    written = directives(Script("t", ("python",), folder=folder), array=tasks)
    assert written[1 : 1 + len(options)] == options
    assert written[-1] == (f"--array=0-{tasks - 1}" if tasks else "--gres=gpu:1")


def test_what_is_left_open_is_left_to_the_cluster() -> None:
    found = directives(Script("t", ("python", "t.py"), Batch(devices=0)))
    assert not [one for one in found if one.split("=")[0] in ("--gres", "--mem", "--time")]


@pytest.mark.parametrize("word", ["gpu\n#SBATCH --uid=0", "a b", "x;y", "$(id)", "`id`"])
def test_a_value_that_a_line_cannot_hold_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--partition"):
        directives(Script("t", ("python",), Batch(partition=word)))


def test_arguments_and_variables_arrive_as_they_were_written(tmp_path: Path) -> None:
    words = ("a b", "$HOME", "`id`", "it's", "line\nbreak", '"quoted"')
    script = made(tmp_path, "python", "-c", SAY, *words, env={"WORD": "x'y\nz", "no good": "1"})
    done = run(body(script), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{list(words)} x'y\nz\n"


def test_the_end_is_written_with_its_exit_code(tmp_path: Path) -> None:
    script = made(tmp_path, "python", "-c", "raise SystemExit(3)")
    assert run(body(script), tmp_path).returncode == 3
    code, at = (tmp_path / "exit").read_text().split()
    assert (code, at.isdigit()) == ("3", True)
    assert (tmp_path / "began").read_text().strip() <= at
    assert (tmp_path / "id").read_text() == "17"


def test_a_task_of_an_array_knows_its_number(tmp_path: Path) -> None:
    script = made(tmp_path, "true")
    run(body(script), tmp_path, SLURM_ARRAY_JOB_ID="9", SLURM_ARRAY_TASK_ID="4")
    assert (tmp_path / "id").read_text() == "9_4"


def test_a_number_that_is_known_is_not_written_again(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("8")
    run(body(made(tmp_path, "true")), tmp_path)
    assert (tmp_path / "id").read_text() == "8"


def test_a_script_that_is_told_to_stop_answers_before_its_end_is_written(tmp_path: Path) -> None:
    answer = "trap 'echo saved; exit 5' TERM; kill -TERM $PPID; kill -TERM $$; sleep 20"
    done = run(body(made(tmp_path, "bash", "-c", answer)), tmp_path)
    assert done.stdout == "saved\n"
    assert (tmp_path / "exit").read_text().startswith("5 ")


def test_the_preamble_is_read_before_and_the_python_is_the_clusters(tmp_path: Path) -> None:
    preamble = tmp_path / "env.sh"
    preamble.write_text('chosen() { echo chosen "$@"; }\nexport WORD=early\n')
    shell = Shell(python="chosen", preamble=str(preamble))
    done = run(body(made(tmp_path, "python", "t.py", shell=shell)), tmp_path)
    assert done.stdout == "chosen t.py\n"


def test_a_container_command_stands_before_and_is_told_the_image(tmp_path: Path) -> None:
    shell = Shell(container=("echo", "--nv", "{image}"))
    script = made(tmp_path, "python", "t.py", shell=shell, image="docker://paddle:3")
    assert run(body(script), tmp_path).stdout == "--nv docker://paddle:3 python3 t.py\n"


def test_checkpoints_lie_where_every_attempt_finds_them(tmp_path: Path) -> None:
    kept = tmp_path / "results" / "checkpoint"
    batch = Batch(link=("out/state", str(kept)))
    script = made(tmp_path, "bash", "-c", "echo 7 >out/state/step", batch=batch)
    assert run(body(script), tmp_path).returncode == 0
    assert (kept / "step").read_text() == "7\n"
    again = made(tmp_path, "cat", "out/state/step", batch=batch)
    assert run(body(again), tmp_path).stdout == "7\n"


def test_the_tasks_of_an_array_are_told_apart(tmp_path: Path) -> None:
    scripts = [Script(f"t{n}", ("python", "-c", SAY, str(n))) for n in range(3)]
    text = array_script(scripts, "sweep")
    assert "#SBATCH --array=0-2\n" in text
    assert "#SBATCH --output=sweep-%A_%a.log\n" in text
    done = run(text, tmp_path, SLURM_ARRAY_TASK_ID="2")
    assert done.stdout == "['2'] None\n"
    assert (tmp_path / "results" / "t-2").is_dir()


def test_runs_of_an_array_keep_their_own_folders(tmp_path: Path) -> None:
    scripts = []
    for number in range(2):
        folder = tmp_path / f"run {number}"
        folder.mkdir()
        scripts.append(made(folder, "python", "-c", SAY, str(number)))
        (folder / "body.sh").write_text(body(scripts[-1]))
    text = array_script([Script(one.name, one.command, folder=one.folder) for one in scripts], "s")
    assert run(text, tmp_path, SLURM_ARRAY_TASK_ID="1").returncode == 0
    assert (tmp_path / "run 1" / "log").read_text() == "['1'] None\n"
    assert not (tmp_path / "run 0" / "exit").exists()


def test_a_gang_runs_its_command_on_each_node_and_tells_where_to_meet(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(
        '#!/bin/sh\ncase "$*" in *hostnames*) echo n1; echo n2;;'
        ' *) echo "NodeName=$4 NodeAddr=127.0.0.${4#n} Port=1";; esac\n'
    )
    (tools / "srun").write_text(
        "#!/bin/bash\nshift\nfor n in 1 2; do"
        ' SLURM_NODEID=$((n - 1)) SLURMD_NODENAME=n$n "$@" || exit; done\n'
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    words = ("MASTER", "NNODES", "RANK", "LOG_DIR", "JOB_ID")
    say = f'echo {" ".join(f"$PADDLE_{word}" for word in words)} $POD_IP "$@"'
    script = made(tmp_path, "bash", "-c", say, "x", "a b", batch=Batch(nodes=2))
    path = f"{tools}:{os.environ['PATH']}"
    done = run(
        body(script), tmp_path, PATH=path, SLURM_JOB_NODELIST="n[1-2]", SLURM_JOB_NUM_NODES="2"
    )
    assert done.stdout.splitlines() == [
        "127.0.0.1:20017 2 0 log/node-0 slurm-17 127.0.0.1 a b",
        "127.0.0.1:20017 2 1 log/node-1 slurm-17 127.0.0.2 a b",
    ]


def test_the_text_begins_with_the_shell_and_all_options() -> None:
    lines = batch_script(Script("t", ("python", "t.py"))).splitlines()
    assert lines[0] == "#!/bin/bash"
    options = [number for number, line in enumerate(lines) if line.startswith("#SBATCH ")]
    assert options == list(range(1, len(options) + 1))


def test_secrets_are_read_once_from_a_file_beside_the_script(tmp_path: Path) -> None:
    value = "x'y\n$HOME `id`"
    script = made(tmp_path, "python", "-c", SAY, secrets={"WORD": value})
    assert value not in body(script)
    kept = tmp_path / "secrets"
    kept.write_text("\n".join(exports(script.secrets)))
    done = run(body(script), tmp_path)
    assert done.stdout == f"[] {value}\n"
    assert not kept.exists()


def test_a_script_for_a_person_asks_for_secrets(tmp_path: Path) -> None:
    script = Script("t", ("python", "-c", SAY), secrets={"WORD": "hidden"})
    assert "hidden" not in batch_script(script)
    without = run(batch_script(script), tmp_path)
    assert without.returncode != 0
    assert "WORD: is secret: export it before sbatch" in without.stderr
    assert run(batch_script(script), tmp_path, WORD="mine").stdout == "[] mine\n"
