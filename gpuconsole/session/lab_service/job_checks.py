"""What of a job is read for everybody: by the planner, which goes through the jobs of all users at
once, and by all consoles. One that cannot be read would stop them all."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gpuconsole.config import PolicyName
from gpuconsole.core.fleet import Backend
from gpuconsole.core.services import MOST_REPLICAS, CheckKind, Restart
from gpuconsole.core.text import clean
from gpuconsole.core.units import parse_time
from gpuconsole.core.util.adapter import Adapter
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.session.lab_service.protocol import Wanted

_LONGEST = 128
_LARGEST_ESTIMATE = 256 * 1024
"""Letters of preflight's document; ours have some thousands."""


def _shown(text: str) -> str:
    """Return a word as it came. ValueError where it is not fit to be shown as it is."""
    if len(text) > _LONGEST or clean(text, _LONGEST) != text:
        raise ValueError(f"expected at most {_LONGEST} letters that can be seen")
    return text


def _time(text: str) -> str:
    if text:
        parse_time(text)
    return _shown(text)


_Shown = Annotated[str, AfterValidator(_shown)]
_Labels = Annotated[dict[_Shown, _Shown], Field(max_length=100)]
_Words = Annotated[tuple[_Shown, ...], Field(max_length=100)]
_Figure = Annotated[float, Field(ge=0, le=1e30)]
_Seconds = Annotated[float, Field(ge=0, le=1e9)]
_Count = Annotated[int, Field(ge=1, le=10**9)]


class _Part(BaseModel):
    model_config = ConfigDict(
        from_attributes=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        hide_input_in_errors=True,
    )


class _Check(_Part):
    kind: CheckKind
    port: Annotated[int, Field(ge=0, le=65535)]
    path: Annotated[_Shown, Field(pattern=r"^/[!-~]*$")]
    command: _Words
    interval_s: Annotated[float, Field(ge=0.5, le=3600)]
    timeout_s: Annotated[float, Field(ge=0.1, le=600)]
    failures: Annotated[int, Field(ge=1, le=100)]
    start_s: Annotated[float, Field(ge=0, le=86400)]


class _Service(_Part):
    """As in task files."""

    port: Annotated[int, Field(ge=1, le=65535)]
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)]
    restart: Restart
    check: _Check
    drain_s: Annotated[float, Field(ge=0, le=86400)]
    preemptible: bool
    scaled_at: Annotated[float, Field(ge=0, le=0)]


class _Task(_Part):
    """The fields of a task that everybody reads."""

    name: _Shown
    labels: _Labels
    anti_labels: _Labels
    account: _Shown
    sweep: _Shown
    backend: Backend
    preferred_devices: _Words
    preference_timeout_s: _Seconds
    memory_threshold: Annotated[float, Field(gt=0, le=1)] | None
    distributed_strategy: Literal["", "ddp", "sharding", "none"]
    algorithm: Literal[""] | PolicyName
    deadline: Annotated[str, AfterValidator(_time)]
    run_time_s: _Seconds | None
    time_limit_s: Annotated[float, Field(gt=0, le=1e9)] | None
    idle_stop_s: Annotated[float, Field(ge=60, le=1e9)] | None
    until: Annotated[float, Field(gt=0, le=1e11)] | None
    after: _Words
    cancel_if_failed: bool
    at_most: _Count | None
    framework: _Shown
    kind: _Shown
    service: _Service | None
    model_name: _Shown
    batch_size: _Count | None
    sequence_length: _Count | None
    hidden_size: _Count | None


class _Memory(_Part):
    optimizer_mib: _Figure | None = None
    gradients_mib: _Figure | None = None


class _Verdict(_Part):
    max_batch_size: Annotated[int, Field(le=10**9)] | None = None


class _Estimate(_Part):
    """What is read of preflight's document; there is more in it."""

    flops_per_step: _Figure | None = None
    bytes_per_step: _Figure | None = None
    kernels_per_step: Annotated[int, Field(ge=0, le=10**12)] | None = None
    flags: tuple[str, ...] | None = None
    memory: _Memory | None = None
    batch_size: _Count | None = None
    digest: str | None = None
    verdicts: tuple[_Verdict, ...] | None = None
    suggestions: tuple[dict[str, Any], ...] | None = None


_TASK = Adapter(_Task)
_ESTIMATE = Adapter(_Estimate)


def require_sound(wanted: Wanted) -> None:
    """Raise UsageError for a job that the planner or another console could not read."""
    try:
        _TASK.validate_python(wanted.task)
        if wanted.estimate is not None:
            _ESTIMATE.validate_python(wanted.estimate)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = clean(".".join(map(str, first["loc"])), 80)
        raise UsageError(
            "Wrong task",
            msg(
                "{value}: {field}: {value2}.",
                value=clean(wanted.task.name, 80),
                field=field,
                value2=clean(first["msg"], 200),
            ),
        ) from None
    if wanted.estimate is not None and len(json.dumps(wanted.estimate)) > _LARGEST_ESTIMATE:
        raise UsageError(
            "Estimate is too long",
            msg(
                "{value} comes with more than {largest_estimate} letters.",
                value=clean(wanted.task.name, 80),
                largest_estimate=_LARGEST_ESTIMATE,
            ),
        )
