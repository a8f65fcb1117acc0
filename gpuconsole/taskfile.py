"""The task file: what a user wants to run, as YAML.

`resource_policy` and `scheduler` may be at the top level or under `task`. Paths are relative to the
task file. Values of the caller win over the file; the lab decides what is not set.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from gpuconsole.core.estimate import Measure
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.core.services import MOST_REPLICAS, SERVICE, HealthCheck, Restart, Service
from gpuconsole.core.submission.after_conditions import Condition
from gpuconsole.core.submission.env_file import VARIABLE
from gpuconsole.core.tasks import PATHS, absolute, require, task_from_script, task_of
from gpuconsole.core.training.stop_rules import MOST_RULES, parse_rule
from gpuconsole.core.units import iso_utc, parse_time
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.yamldoc import Document, Seconds, Section, SizeMib, Text, load_document

__all__ = ["TaskSection", "load_task", "task_from_script"]


def _words(value: object) -> object:
    return shlex.split(value) if isinstance(value, str) else value


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, (str, int, float)) else value


def _env_name(name: str) -> str:
    if not VARIABLE.fullmatch(name):
        raise ValueError("expected a name of letters, digits and underscores")
    return name


_Variable = Annotated[str, AfterValidator(_env_name)]


class FromEnv(Section):
    """A variable of the container that takes its value from the environment of the submitter."""

    from_env: _Variable
    """The name of the variable there."""


class MountSection(Section):
    """A folder of the host bound into the container."""

    source: Text
    """Absolute path on the host."""
    target: Text
    """Absolute path in the container."""
    read_only: bool = True
    """Whether the job may only read it."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        source, _, rest = value.partition(":")
        target, _, mode = rest.partition(":")
        if not target or mode not in ("", "ro", "rw"):
            raise ValueError("expected `source:target`, `source:target:ro` or `source:target:rw`")
        return {"source": source, "target": target, "read_only": mode != "rw"}

    @field_validator("source", "target")
    @classmethod
    def _absolute(cls, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not path.startswith("/") or ".." in parts or len(parts) < 2:
            raise ValueError("expected an absolute path below /, without `..`")
        return path


class ResourcePolicy(Section):
    """What the task may use."""

    memory_threshold: float | None = Field(None, gt=0, le=1)
    """Share of a device's memory that the estimate may fill; the lab's is the most."""
    allow_mixed_precision: bool | None = None
    """With `false` mixed precision is never suggested, and devices are ranked by their rate in
    single precision."""
    distributed_strategy: Literal["ddp", "sharding", "none"] = "none"
    """How several devices share the work."""
    preferred_devices: Annotated[tuple[Text, ...], BeforeValidator(_one_or_many)] = ()
    """Models in the order of preference, such as `RTX_3090` or `V100-32GB`."""


class Scheduler(Section):
    """How the task is placed."""

    algorithm: Literal["weighted", "best_fit", "first_fit", "balanced", "rl_based"] | None = None
    """How its candidates are ranked; the lab's policy when left out."""
    timeout: Seconds = 0.0
    """How long to wait for a preferred device before any that fits will do."""


Port = Annotated[int, Field(ge=1, le=65535)]


class HealthSection(Section):
    """How a replica of a service is asked whether it is well: by one of `http`, `tcp` and
    `command`."""

    http: Text | None = None
    """The path of a page that answers with a status of 200 to 399: `/health`."""
    tcp: Port | None = None
    """A port that takes connections."""
    command: Annotated[tuple[Text, ...], BeforeValidator(_words)] = ()
    """A command that ends with 0, run in the container: a list, or one text that is divided as a
    shell does."""
    port: Port | None = None
    """The port of `http`; that of the service when left out."""
    interval: Seconds = Field(5.0, ge=0.5, le=3600)
    """Time between two checks."""
    timeout: Seconds = Field(5.0, ge=0.1, le=600)
    """How long one check may take."""
    failures: int = Field(3, ge=1, le=100)
    """So many failed checks in a row make a healthy replica unhealthy."""
    start: Seconds = Field(120.0, ge=0, le=86400)
    """How long a replica may take to become healthy after its start."""

    @model_validator(mode="after")
    def _one_way(self) -> HealthSection:
        ways = [self.http is not None, self.tcp is not None, bool(self.command)]
        if sum(ways) != 1:
            raise ValueError("expected one of `http`, `tcp` and `command`")
        if self.http is not None and not re.fullmatch(r"/[!-~]*", self.http):
            raise ValueError("expected a path such as `/health` in `http`")
        if self.port is not None and self.http is None:
            raise ValueError("`port` belongs to `http`")
        return self


class ServiceSection(Section):
    """What a task of the type `service` asks for."""

    port: Port
    """On which the script listens, in its container."""
    replicas: int = Field(1, ge=1, le=MOST_REPLICAS)
    """How many run at once, each on devices of its own."""
    restart: Restart = "always"
    """After which ends a replica is restarted: `always`, `on-failure` or `never`."""
    health: HealthSection | None = None
    """How a replica is known to be well; without it, by a connection to `port`."""
    drain: Seconds = Field(60.0, ge=0, le=86400)
    """How long a replica that is replaced may finish the connections that it has."""
    preemptible: bool = False
    """Whether jobs that go first may stop a replica."""


class TaskSection(Section):
    """The task itself."""

    type: Literal["training", "evaluation", "inference", "service"] = "training"
    """What the script does."""
    service: ServiceSection | None = None
    """Of the type `service`: its port, its replicas, and how they are kept running."""
    framework: Literal["paddlepaddle"] = "paddlepaddle"
    """The framework of the script."""
    model_name: Text = ""
    """Name of the model, for the formula when there is no script."""
    sequence_length: int | None = Field(None, ge=1)
    """Tokens per sample."""
    hidden_size: int | None = Field(None, ge=1)
    """Width of the model, for the formula."""
    batch_size_per_gpu: int | None = Field(None, ge=1)
    """Samples per device and step."""
    num_gpus_estimate: Annotated[int, Field(ge=1, le=64)] | Literal["auto"] | None = None
    """Number of devices, or `auto`; `devices` wins."""
    devices: Annotated[int, Field(ge=1, le=64)] | Literal["auto"] | None = None
    """Number of devices on one host, or `auto`: one, or as many as `sharding` needs to fit."""
    script: Text = ""
    """The Python script, relative to this file."""
    args: Annotated[tuple[Text, ...], BeforeValidator(_words)] = ()
    """Its arguments: a list, or one text that is divided as a shell does."""
    image: Text = ""
    """Container image; the host's default when left out."""
    env: dict[_Variable, Text | FromEnv] = Field(default_factory=dict)
    """Environment variables of the container: a value, or `{from_env: NAME}` for a secret that is
    taken from the environment of the command which submits."""
    mounts: tuple[MountSection, ...] = ()
    """Folders of the host in the container: `/data:/data:ro`."""
    name: Text = Field("", max_length=128)
    """Name of the job; the script's when left out."""
    project: Text = ""
    """Folder that is shipped with the script; the script's own when left out."""
    priority: int = Field(0, ge=-1000, le=1000)
    """Higher goes first."""
    share: bool = False
    """The device may be shared with another job that allows it too."""
    exclusive: bool = False
    """Only a device without other processes will do."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """Labels that the host must carry."""
    anti_labels: dict[str, Text] = Field(default_factory=dict)
    """Labels that the host must not carry; an empty value rules out any value."""
    hosts: int = Field(1, ge=1, le=64)
    """Most hosts over which its devices may spread, as many on each."""
    account: Text = Field("", max_length=64)
    """What its use is counted for beside the user, such as a project or a grant."""
    auto_batch: bool = False
    """After running out of memory, try again with the batch size that fits."""
    retries: int = Field(1, ge=0, le=20)
    """How often it is tried again automatically after a cause that is not its own fault."""
    after: Annotated[tuple[Text, ...], BeforeValidator(_one_or_many)] = ()
    """Jobs, or sweeps, that must succeed first; with `afterany:` before the name, that must end,
    with `afternotok:`, that must fail."""
    cancel_if_failed: bool = False
    """Cancel it once what it comes after can no longer end as it must; else it waits."""
    at_most: int | None = Field(None, ge=1, le=10_000)
    """How many jobs of its sweep may run at once."""
    stop_if: Annotated[tuple[Text, ...], BeforeValidator(_one_or_many)] = ()
    """End it when its log breaks a rule: `loss is nan`, `loss > 10 after 100 steps`,
    `no better val_loss for 5 epochs`."""
    checkpoint_dir: Text = ""
    """Where the script keeps its checkpoints."""
    deadline: Text = ""
    """When the result is needed, as ISO 8601; without a zone that of this machine."""
    run_time: Seconds | None = Field(None, gt=0)
    """How long it is expected to run."""
    time_limit: Seconds | None = Field(None, gt=0)
    """The longest that it may run; then it is ended. The lab's limit is the most."""
    backend: Backend = "gpu"
    """Paddle's word for the kind of device."""
    shm_size: SizeMib | None = None
    """Size of /dev/shm."""
    memory_limit: SizeMib | None = None
    """Host memory that the container may take."""
    network: Literal["none", "lab", "full"] | None = None
    """Network of the container."""
    assume: dict[str, Text] = Field(default_factory=dict)
    """Answers to what preflight could not find out: name to value."""
    measure: Measure | None = None
    """Whether it is measured where its memory cannot be read: `auto`, `ask` or `never`."""
    resource_policy: ResourcePolicy | None = None
    """What the task may use; here or at the top level."""
    scheduler: Scheduler | None = None
    """How the task is placed; here or at the top level."""

    @field_validator("deadline")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        # Kept in UTC: the queue may be read where another zone holds.
        return (iso_utc(parse_time(text)) or "") if text else ""

    @field_validator("after")
    @classmethod
    def _conditions(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            Condition.of(name)
        return names

    @field_validator("stop_if")
    @classmethod
    def _rules(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        if len(rules) > MOST_RULES:
            raise ValueError(msg("expected at most {n} rules", n=MOST_RULES))
        for text in rules:
            parse_rule(text)
        return rules

    @model_validator(mode="after")
    def _service_and_type(self) -> TaskSection:
        if (self.type == SERVICE) != (self.service is not None):
            raise ValueError("`type: service` and `service:` come together")
        return self

    @model_validator(mode="after")
    def _alone_or_shared(self) -> TaskSection:
        if self.share and self.exclusive:
            raise ValueError("`share` and `exclusive` exclude each other")
        return self


class TaskFile(Section):
    """A whole task file."""

    task: TaskSection
    """The task itself."""
    resource_policy: ResourcePolicy | None = None
    """What the task may use."""
    scheduler: Scheduler | None = None
    """How the task is placed."""


def load_task(path: Path, **changes: Any) -> Task:
    """Read a task file.

    `changes` are fields of `Task` that win over the file (None leaves the file's); `script` and
    `project` may be paths relative to the working folder. DocumentError for a wrong file,
    UsageError for a wrong change.
    """
    # It decides no more than the script beside it, and lies in folders that people share.
    document = load_document(path, TaskFile, trusted=False)
    written = _written(document, path)
    if changes.get("script") is not None:
        written.pop("project", None)
    return task_of(written, changes, fallback=path.stem)


def _written(document: Document[TaskFile], path: Path) -> dict[str, Any]:
    """Return the fields of `Task` that a file sets."""
    task = document.value.task
    devices = task.devices or task.num_gpus_estimate or 1
    return {
        "name": task.name,
        "script": _path(document, path, "script"),
        "args": task.args,
        "project": _path(document, path, "project"),
        "image": task.image,
        "env": {name: value for name, value in task.env.items() if isinstance(value, str)},
        # One that is not set here is asked for when the task is submitted: an estimate needs none.
        "secrets": {
            name: os.environ.get(source.from_env, "")
            for name, source in task.env.items()
            if isinstance(source, FromEnv)
        },
        "mounts": tuple(Mount(m.source, m.target, m.read_only) for m in task.mounts),
        "devices": None if devices == "auto" else devices,
        "batch_size": task.batch_size_per_gpu,
        "priority": task.priority,
        "labels": task.labels,
        "anti_labels": task.anti_labels,
        "hosts": task.hosts,
        "account": task.account,
        "auto_batch": task.auto_batch,
        "retries": task.retries,
        "backend": task.backend,
        **_placement_fields(document),
        "exclusive": task.exclusive,
        "share": task.share,
        "checkpoint_dir": task.checkpoint_dir,
        "deadline": task.deadline,
        "run_time_s": task.run_time,
        "time_limit_s": task.time_limit,
        "after": task.after,
        "cancel_if_failed": task.cancel_if_failed,
        "stop_if": task.stop_if,
        "at_most": task.at_most,
        "framework": task.framework,
        "kind": task.type,
        "service": _service(task.service),
        "model_name": task.model_name,
        "sequence_length": task.sequence_length,
        "hidden_size": task.hidden_size,
        "assumptions": task.assume,
        "shm_size_mib": task.shm_size,
        "memory_limit_mib": task.memory_limit,
        "network": task.network or "",
        "measure": task.measure,
    }


def _placement_fields(document: Document[TaskFile]) -> dict[str, object]:
    """Return the fields of `Task` that say where it should run."""
    policy: ResourcePolicy = _once(document, "resource_policy") or ResourcePolicy()
    scheduler: Scheduler = _once(document, "scheduler") or Scheduler()
    strategy = policy.distributed_strategy
    return {
        "preferred_devices": policy.preferred_devices,
        "preference_timeout_s": scheduler.timeout,
        "allow_mixed_precision": policy.allow_mixed_precision,
        "distributed_strategy": "" if strategy == "none" else strategy,
        "algorithm": scheduler.algorithm or "",
        "memory_threshold": policy.memory_threshold,
    }


def _service(section: ServiceSection | None) -> Service | None:
    if section is None:
        return None
    asked, check = section.health, HealthCheck()
    if asked is not None:
        check = HealthCheck(
            kind="command" if asked.command else "tcp" if asked.tcp else "http",
            port=asked.tcp or asked.port or 0,
            path=asked.http or "/",
            command=asked.command,
            interval_s=asked.interval,
            timeout_s=asked.timeout,
            failures=asked.failures,
            start_s=asked.start,
        )
    return Service(
        port=section.port,
        replicas=section.replicas,
        restart=section.restart,
        check=check,
        drain_s=section.drain,
        preemptible=section.preemptible,
    )


def _once(document: Document[TaskFile], key: str) -> Any:
    above, below = getattr(document.value, key), getattr(document.value.task, key)
    if above is not None and below is not None:
        text = f"`{key}` is both at the top level and under `task`"
        raise document.error((key,), text, "Keep one of them.")
    return below if above is None else above


def _path(document: Document[TaskFile], path: Path, key: str) -> str:
    written: str = getattr(document.value.task, key)
    if not written:
        return ""
    try:
        full = absolute(path.parent / os.path.expanduser(written))
        require(Path(full), PATHS[key])
    except UsageError as error:
        hint = "Paths are relative to the task file."
        raise document.error(("task", key), error.message.rstrip("."), hint) from None
    return full
