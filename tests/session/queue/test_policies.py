"""The live queue's policies: trained weights where they may be used, a sentence where not."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement.learned.gate import Play, judge
from gpuconsole.placement.learned.weights_file import FILE_NAME, Origin, Trained, dumped
from gpuconsole.placement.model import Learned
from gpuconsole.session.queue.policies import Policies

LEARNED = Learned({"speed": 0.5}, {"time": 0.25})
SETTINGS = LabSettings(policy="rl_based")
TASK = Task("t")


def fleet(model: str) -> FleetSnapshot:
    return FleetSnapshot(1, 0.0, (Host("h", HostState.UP, devices=(Device("u", 0, model),)),))


def write(folder: Path, ratio: float) -> None:
    verdict = judge([Play(100.0, 0.0)] * 8, [Play(100.0 * ratio, 0.0)] * 8)
    origin = Origin("2030-01-01T00:00:00Z", "the journal", 900, "this lab", ("Card",), 8, 12)
    (folder / FILE_NAME).write_text(dumped(Trained(LEARNED, origin, verdict)), encoding="utf-8")


def test_weights_that_passed_are_used(tmp_path: Path) -> None:
    write(tmp_path, 0.9)
    policies = Policies(SETTINGS, tmp_path)
    assert policies.of(TASK, fleet("Card")).learned == LEARNED
    assert policies.lab(fleet("Card")).learned == LEARNED
    strange = policies.of(TASK, fleet("New card"))
    assert strange.learned is None
    assert "New card" in strange.note


def test_weights_that_failed_fall_back(tmp_path: Path) -> None:
    write(tmp_path, 1.1)
    policy = Policies(SETTINGS, tmp_path).of(TASK, fleet("Card"))
    assert policy.learned is None
    assert "weighted policy ranks" in policy.note


def test_other_policies_know_nothing_of_them(tmp_path: Path) -> None:
    write(tmp_path, 0.9)
    policies = Policies(LabSettings(), tmp_path)
    assert policies.lab(fleet("Card")).learned is None
    assert policies.of(Task("t", algorithm="rl_based"), fleet("Card")).learned == LEARNED


def test_a_broken_file_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{", encoding="utf-8")
    policy = Policies(SETTINGS, tmp_path).of(TASK, fleet("Card"))
    assert policy.learned is None
    assert "weighted ranks" in policy.note
    assert "no trained weights" in Policies(SETTINGS).of(TASK, fleet("Card")).note
