"""The lab file: an inventory's hosts, with models and numbers in place of addresses."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import Field, model_validator

from gpuconsole.core.device_catalogue import Catalogue, Spec
from gpuconsole.core.fleet import Backend
from gpuconsole.core.wording import msg
from gpuconsole.placement.simulate.device_speeds import (
    CLASSES,
    UNKNOWN,
    is_known,
    is_linked,
    speeds,
)
from gpuconsole.placement.simulate.lab import Failures, Lab, LabHost
from gpuconsole.yamldoc import Document, Section, SizeMib, Text, parse_document

MAX_DEVICES = 16_384
_Speed = Annotated[float, Field(gt=0, le=1000)]


class LabHostSection(Section):
    """One host, or several alike."""

    name: Text
    """What it is called; of several alike, the name before the number."""
    model: Text
    """Its devices, by the catalogue's name or the vendor's tool's: `A100-SXM4-80GB`."""
    devices: int = Field(8, ge=1, le=64)
    """How many it has."""
    count: int = Field(1, ge=1, le=2048)
    """How many such hosts there are."""
    memory: SizeMib | None = None
    """Of each device; without it the catalogue's."""
    backend: Backend | None = None
    """Paddle's word for the kind of device; without it the catalogue's."""
    links: Literal["fast", "none"] | None = None
    """Whether NVLink or its like joins all devices of the host; without it the catalogue's."""
    speed: _Speed | dict[str, _Speed] | None = None
    """Measured speed, 1 = V100: for all classes of job, or by class; without it a rule."""
    price_per_hour: float | None = Field(None, ge=0, le=1e6)
    """Per device, in the lab's own currency."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """Words that tasks can ask for."""

    @model_validator(mode="after")
    def _known_classes(self) -> LabHostSection:
        given = self.speed if isinstance(self.speed, dict) else {}
        if unknown := [name for name in given if name not in CLASSES]:
            classes = ", ".join(CLASSES)
            raise ValueError(f"`speed` knows no class of job {unknown[0]!r}; there are {classes}")
        return self


class FailuresSection(Section):
    """How often hosts fail."""

    mean_days_between: float = Field(gt=0, le=1e5)
    """Mean time between two failures of one host."""
    repair_hours: float = Field(6.0, ge=0, le=1e4)
    """How long it takes until the host is back."""


class LabSection(Section):
    """The whole file."""

    version: Literal[1]
    """Version of this format."""
    name: Text = ""
    """What the lab is called in the output."""
    hosts: list[LabHostSection] = Field(min_length=1)
    """The hosts, in the order in which equal ones are filled."""
    failures: FailuresSection | None = None
    """Without it no host ever fails."""


def parse_lab(text: str, source: str) -> Lab:
    """Read a lab from YAML; DocumentError names file, line and column of a mistake."""
    document = parse_document(text, source, LabSection)
    section = document.value
    hosts: dict[str, LabHost] = {}
    notes: dict[str, None] = {}
    for number, given in enumerate(section.hosts):
        for host in _hosts(given, _spec(document, number), notes):
            if host.name in hosts:
                raise document.error(
                    ("hosts", number, "name"),
                    f"a second host is named {host.name!r}",
                    "Give each host its own name.",
                )
            hosts[host.name] = host
    if sum(host.devices for host in hosts.values()) > MAX_DEVICES:
        raise document.error(("hosts",), f"a lab has at most {MAX_DEVICES:,} devices")
    failures = section.failures
    return Lab(
        section.name or source,
        tuple(hosts.values()),
        Failures(failures.mean_days_between, failures.repair_hours) if failures else None,
        tuple(notes),
    )


def _spec(document: Document[LabSection], number: int) -> Spec | None:
    """Return the catalogue's figures; a model it does not have must be described in full."""
    given = document.value.hosts[number]
    catalogue = Catalogue.load()
    spec = catalogue.lookup(given.model, given.memory)
    if spec is None:
        alike = (spec for spec in catalogue.specs if catalogue.matches(given.model, spec.model))
        spec = next(alike, None)
    if spec is None and given.memory is None:
        raise document.error(
            ("hosts", number, "model"),
            f"the device catalogue has no model {given.model!r}",
            "Write the name as the vendor's tool shows it, or add `memory` and `speed`.",
        )
    return spec


def _hosts(given: LabHostSection, spec: Spec | None, notes: dict[str, None]) -> list[LabHost]:
    backend = given.backend or (spec.backend if spec is not None else "") or "gpu"
    speed = speeds(spec, backend)
    if isinstance(given.speed, dict):
        speed.update(given.speed)
    elif given.speed is not None:
        speed = dict.fromkeys(CLASSES, given.speed)
    elif not is_known(spec):
        note = msg(
            "No figures of {device} are published: its speed is taken as {n}.",
            device=given.model, n=f"{UNKNOWN:g}",
        )  # fmt: skip
        notes[note] = None
    memory = given.memory or ((spec and spec.memory_gib) or 0.0) * 1024.0
    width = len(str(given.count))
    names = [given.name]
    if given.count > 1:
        names = [f"{given.name}-{index:0{width}}" for index in range(1, given.count + 1)]
    return [
        LabHost(
            name,
            spec.model if spec is not None else given.model,
            given.devices,
            memory,
            speed,
            cast(Backend, backend),
            is_linked(spec) if given.links is None else given.links == "fast",
            given.price_per_hour,
            given.labels,
        )
        for name in names
    ]
