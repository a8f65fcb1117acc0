"""What is asked of an engine that has a queue of its own, such as Slurm, and the script that asks.

The console places nothing there: it says what a job needs, and the engine decides where and when.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

CLUSTER_LABEL = "slurm"
"""The label by which a task asks for a cluster, and which the cluster's nodes carry."""
SECRETS = "secrets"
"""The file of a run's folder with the lines that set its secret variables."""
WAITS = "In Slurm's queue: "
"""How the note of a run begins that waits there."""
_WORD = re.compile(r"[A-Za-z0-9_.:,@/+&|*\[\]()=%-]+")
"""What a value in an `#SBATCH` line may be made of: such a line knows no quoting to rely on."""
_BY_HAND = (
    'task="${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}"',
    'export GPUCONSOLE_RESULTS="$PWD/results/$SLURM_JOB_NAME$task"',
    'mkdir -p "$GPUCONSOLE_RESULTS"',
)
"""How a script that a person hands over begins: its results lie beside its code."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Batch:
    """What a job asks of Slurm. Empty and None leave it to the cluster."""

    devices: int = 1
    """Of each node."""
    nodes: int = 1
    kind: str = ""
    """Slurm's name for the type of device, as in `gpu:a100`."""
    memory_mib: float | None = None
    """Host memory of each node."""
    time_s: float | None = None
    """After so long Slurm ends it."""
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    after: tuple[str, ...] = ()
    """Names of runs on the same cluster that must end well before."""
    array: str = ""
    """Runs with the same word may be handed over together, as one array."""
    link: tuple[str, str] | None = None
    """A path that the command uses, and the folder that is meant by it."""


@dataclass(frozen=True, slots=True)
class Shell:
    """How a cluster's nodes run a command."""

    python: str = "python3"
    container: tuple[str, ...] = ()
    """Words before the command, such as `apptainer exec --nv {image}`."""
    preamble: str = ""
    """A file on the cluster that is read before: modules, a virtual environment."""


@dataclass(frozen=True, slots=True)
class Script:
    """One command, as a batch script runs it."""

    name: str
    """What Slurm calls the job."""
    command: tuple[str, ...]
    """Its first word is `python` where Python runs it."""
    batch: Batch = Batch()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables with values that are not in the script: they are in the file `secrets` of the run's
    folder, or, without a folder, in the environment of the process that submits it."""
    shell: Shell = Shell()
    image: str = ""
    start: str = ""
    """The folder of its code in which the command starts, relative to it."""
    folder: str = ""
    """Where the run has its code (`work`), output (`log`) and end (`exit`); "" for a script
    that a person hands over: it runs in the folder in which it is handed over."""


def directives(script: Script, *, array: int = 0) -> tuple[str, ...]:
    """Return the options of `sbatch`, of an array of so many tasks or of one job.

    UsageError for a value that such an option cannot hold.
    """
    batch = script.batch
    options = [f"--job-name={script.name}", *_output(script, array), "--no-requeue"]
    options += [f"--nodes={batch.nodes}", "--ntasks-per-node=1"]
    if batch.devices:
        options.append(f"--gres=gpu:{batch.kind + ':' if batch.kind else ''}{batch.devices}")
    if batch.memory_mib is not None:
        options.append(f"--mem={math.ceil(batch.memory_mib)}M")
    if batch.time_s is not None:
        options.append(f"--time={max(1, math.ceil(batch.time_s / 60))}")
    for name in ("partition", "account", "qos", "constraint"):
        if value := getattr(batch, name):
            options.append(f"--{name}={value}")
    if array:
        options.append(f"--array=0-{array - 1}")
    for option in options:
        if not _WORD.fullmatch(option):
            raise UsageError(
                "Slurm cannot be asked for this",
                msg(
                    "{value} has a value that an #SBATCH line cannot hold.",
                    value=option.partition("=")[0],
                ),
                "Use letters, digits and . , : @ / + & | * [ ] ( ) = % -",
            )
    return tuple(options)


def batch_script(script: Script) -> str:
    """Return the whole text that `sbatch` takes for one command."""
    return _text(directives(script), body(script))


def array_script(scripts: Sequence[Script], name: str) -> str:
    """Return the text that runs several commands as the tasks of one array, in their order.

    All must ask for the same. Of runs with a folder each has its `body` in `FOLDER/body.sh`.
    """
    lines = ['case "$SLURM_ARRAY_TASK_ID" in']
    for number, script in enumerate(scripts):
        inner = body(script).rstrip("\n")
        if script.folder:
            own = shlex.quote(script.folder)
            inner = f"exec bash {own}/body.sh >>{own}/log 2>&1"
        lines += [f"{number})", inner, ";;"]
    return _text(
        directives(replace(scripts[0], name=name), array=len(scripts)),
        "\n".join([*lines, "esac", ""]),
    )


def body(script: Script) -> str:
    """Return the commands of a batch script, without its options."""
    lines = _begin(script) if script.folder else [*_BY_HAND]
    if script.batch.link is not None:
        path, target = script.batch.link
        parent = str(PurePosixPath(path).parent)
        path, target, parent = map(shlex.quote, (path, target, parent))
        lines.append(f"mkdir -p {parent} {target}")
        lines.append(f"[ -e {path} ] || ln -s {target} {path}")
    if script.shell.preamble:
        lines.append(f". {shlex.quote(script.shell.preamble)}")
    lines += exports(script.env)
    if script.secrets:
        lines += _secrets(script)
    if script.folder:
        lines.append('export PYTHONPATH="$run/reporter${PYTHONPATH:+:$PYTHONPATH}"')
    words = " ".join(shlex.quote(word) for word in _words(script))
    lines += _gang(words) if script.batch.nodes > 1 else [words]
    lines.append("finish $?" if script.folder else "exit $?")
    return "\n".join(lines) + "\n"


def exports(env: Mapping[str, str]) -> list[str]:
    """Return the lines that set variables for what comes after; what no shell can name is left
    out."""
    named = ((name, value) for name, value in env.items() if _VARIABLE.fullmatch(name))
    return [f"export {name}={shlex.quote(value)}" for name, value in named]


def _secrets(script: Script) -> list[str]:
    """Return the lines that read the variables with values outside the script."""
    if script.folder:
        # Read once: the run is never begun twice, and what it begins has them in its environment.
        return [f'[ ! -e "$run/{SECRETS}" ] || {{ . "$run/{SECRETS}"; rm -f "$run/{SECRETS}"; }}']
    return [
        f': "${{{name}:?is secret: export it before sbatch}}"; export {name}'
        for name in script.secrets
        if _VARIABLE.fullmatch(name)
    ]


def _text(options: Sequence[str], commands: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), commands])


def _output(script: Script, array: int) -> tuple[str, ...]:
    if not script.folder:
        return (f"--output={script.name}-%{'A_%a' if array else 'j'}.log",)
    # Each task of an array writes into a folder of its own, which no pattern can name.
    return (f"--output={'/dev/null' if array else script.folder + '/log'}", "--open-mode=append")


def _words(script: Script) -> tuple[str, ...]:
    command = script.command
    if command and command[0] == "python":
        command = (script.shell.python, *command[1:])
    return (*(word.replace("{image}", script.image) for word in script.shell.container), *command)


def _begin(script: Script) -> list[str]:
    """Return the lines that note the beginning, and how the end will be noted.

    The end is written to a temporary file and moved into place, so that a reader finds all of it or
    nothing. Slurm's SIGTERM goes to every process of the job; the shell waits for the script's own
    answer.
    """
    return [
        f"run={shlex.quote(script.folder)}",
        # In case the submitting process died before it could note the number.
        'task="${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}"',
        '[ -s "$run/id" ] || printf %s "${task:-$SLURM_JOB_ID}" >"$run/id"',
        'date +%s >"$run/began"',
        "finish() {",
        '  printf "%s %s\\n" "$1" "$(date +%s)" >"$run/exit.new" && mv "$run/exit.new" "$run/exit"',
        '  exit "$1"',
        "}",
        "trap : TERM",
        f'cd "$run/work"{shlex.quote("/" + script.start) if script.start else ""} || finish 125',
    ]


def _gang(words: str) -> list[str]:
    """Return the lines that run a command once on each node, with the address of the rendezvous.

    Paddle's launcher takes it from its environment. By default it would resolve the host's name,
    which is 127.0.1.1 on many systems; Slurm knows the address at which a node is reached.
    """
    # The nodes share a folder, and each launcher numbers its logs from 0.
    inner = (
        'export PADDLE_RANK="$SLURM_NODEID" POD_IP="$(address "$SLURMD_NODENAME")" '
        'PADDLE_LOG_DIR="${PADDLE_LOG_DIR:-log}/node-$SLURM_NODEID"; exec "$@"'
    )
    return [
        "address() {",
        "  local at",
        '  at=$(scontrol -o show node "$1" | sed -n "s/.* NodeAddr=\\([^ ]*\\) .*/\\1/p")',
        '  getent ahostsv4 "$at" | { read -r ip rest; printf %s "${ip:-$at}"; }',
        "}",
        "export -f address",
        'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        'export PADDLE_MASTER="$(address "$first"):$((20000 + SLURM_JOB_ID % 10000))"',
        'export PADDLE_NNODES="$SLURM_JOB_NUM_NODES" PADDLE_JOB_ID="slurm-$SLURM_JOB_ID"',
        f"srun --kill-on-bad-exit=1 bash -c {shlex.quote(inner)} part {words}",
    ]
