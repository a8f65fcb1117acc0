"""The weights that come along: where they are used, and where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.cli import traces
from gpuconsole.placement.learned import weights_file
from gpuconsole.placement.simulate.lab_file import parse_lab

ROOT = Path(__file__).parents[3]
STRANGE = """version: 1
hosts: [{name: h, model: GeForce RTX 4090, devices: 4}]
"""


@pytest.mark.parametrize("name", ["lab4", "lab8"])
def test_the_simulator_plays_them_on_labs_in_which_they_passed(name: str, tmp_path: Path) -> None:
    lab = traces.read_lab(ROOT / "inventory" / f"{name}.yaml")
    (policy,) = traces.policies(["rl_based"], lab, sharing=False, state=tmp_path)
    trained = weights_file.read(weights_file.SHIPPED)
    assert trained.verdict.passed
    assert policy.learned == trained.learned
    assert trained.origin.trace in policy.note


def test_a_lab_in_which_they_did_not_pass_falls_back(tmp_path: Path) -> None:
    lab = traces.read_lab(ROOT / "inventory" / "lab20.yaml")
    (policy,) = traces.policies(["rl_based"], lab, sharing=False, state=tmp_path)
    assert policy.learned is None
    assert "here are 160" in policy.note


def test_other_devices_fall_back_and_say_so(tmp_path: Path) -> None:
    lab = parse_lab(STRANGE, "strange")
    (policy,) = traces.policies(["rl_based"], lab, sharing=False, state=tmp_path)
    assert policy.learned is None
    assert "RTX 4090" in policy.note
    assert "weighted policy ranks" in policy.note
