"""Lab files: what follows from the catalogue, what a person can get wrong, what it comes to."""

from pathlib import Path

import pytest

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.errors import DocumentError
from gpuconsole.placement.simulate.device_speeds import CLASSES, REFERENCE, is_linked, speeds
from gpuconsole.placement.simulate.lab_file import parse_lab

INVENTORY = Path(__file__).parents[3] / "inventory"


@pytest.mark.parametrize(("name", "hosts"), [("lab20", 20), ("lab8", 8), ("lab4", 4)])
def test_the_shipped_labs_are_what_their_names_say(name: str, hosts: int) -> None:
    lab = parse_lab((INVENTORY / f"{name}.yaml").read_text(encoding="utf-8"), name)
    assert len(lab.hosts) == hosts
    assert lab.devices == hosts * 8
    assert lab.assumptions == ()
    assert len(lab.snapshot().hosts) == hosts
    assert lab.most_memory_mib(8, lab.backends) == pytest.approx(80 * 1024 * 0.85)


def test_the_lab_of_twenty_has_four_kinds_and_fast_links_but_for_one() -> None:
    lab = parse_lab((INVENTORY / "lab20.yaml").read_text(encoding="utf-8"), "lab20")
    kinds = {host.model: host for host in lab.hosts}
    assert [sum(h.model == name for h in lab.hosts) for name in kinds] == [4, 6, 6, 4]
    assert {name for name, host in kinds.items() if not host.linked} == {"GeForce RTX 3090"}
    assert {name for name, host in kinds.items() if host.backend == "npu"} == {"Ascend 910A"}
    assert lab.backends == ("gpu", "npu")


def test_the_reference_has_speed_one_and_others_follow_their_figures() -> None:
    catalogue = Catalogue.load()
    one = speeds(catalogue.lookup(REFERENCE), "gpu")
    assert all(speed == pytest.approx(1.0) for speed in one.values())
    a100 = speeds(catalogue.lookup("A100-SXM4-80GB"), "gpu")
    # 1 / (0.45 x 125/312 + 0.40 x 900/2039 + 0.15), by hand.
    assert a100["vision"] == pytest.approx(1.971, abs=0.002)
    assert a100["control"] < a100["recommendation"] < a100["vision"] < a100["language"]
    ascend = speeds(catalogue.lookup("Ascend 910A"), "npu")
    assert all(0.5 <= speed <= 0.9 for speed in ascend.values())


def test_a_bridge_of_two_cards_is_no_fast_link() -> None:
    catalogue = Catalogue.load()
    assert is_linked(catalogue.lookup("A100-SXM4-80GB"))
    assert not is_linked(catalogue.lookup("GeForce RTX 3090"))
    assert not is_linked(catalogue.lookup("GeForce RTX 4090"))
    assert not is_linked(None)


def test_several_devices_without_links_and_gangs_over_hosts_run_slower() -> None:
    lab = parse_lab((INVENTORY / "lab20.yaml").read_text(encoding="utf-8"), "lab20")
    alone = lab.speed("language", ["rtx3090-1"], 1)
    assert lab.speed("language", ["rtx3090-1"], 4) == pytest.approx(
        alone * CLASSES["language"].unlinked
    )
    assert lab.speed("vision", ["v100-1"], 8) == pytest.approx(1.0)
    assert lab.speed("vision", ["v100-1", "v100-2"], 16) == pytest.approx(0.8)


def test_a_gang_needs_several_hosts_of_one_model() -> None:
    lab = parse_lab((INVENTORY / "lab4.yaml").read_text(encoding="utf-8"), "lab4")
    assert [lab.hosts_for(count) for count in (1, 8, 9, 12, 16)] == [1, 1, 3, 2, 2]
    # Only the V100 are two hosts alike.
    assert lab.most_memory_mib(16, ("gpu",)) == pytest.approx(32 * 1024 * 0.85)
    assert lab.most_memory_mib(9, ("gpu",)) is None
    assert lab.most_memory_mib(1, ("npu",)) is None


def test_measured_speeds_and_hosts_alike() -> None:
    lab = parse_lab(
        "version: 1\n"
        "hosts:\n"
        "  - {name: one, count: 10, model: Tesla V100-SXM2-32GB, devices: 4, speed: {vision: 3}}\n"
        "  - {name: two, model: My Card, devices: 2, memory: 48 GiB, speed: 0.5, links: none}\n"
        "failures: {mean_days_between: 30}\n",
        "lab.yaml",
    )
    assert [host.name for host in lab.hosts][:2] == ["one-01", "one-02"]
    assert lab.hosts[0].speed["vision"] == 3.0
    assert lab.hosts[0].speed["language"] == pytest.approx(1.0)
    assert set(lab.hosts[-1].speed.values()) == {0.5}
    assert lab.hosts[-1].memory_mib == 48 * 1024
    assert lab.failures is not None
    assert lab.failures.repair_hours == 6.0
    assert lab.capacity == pytest.approx(40 * 6 / 4 + 1.0)


def test_a_model_without_published_figures_is_said() -> None:
    text = "version: 1\nhosts: [{name: p, model: P800 OAM, devices: 8}]\n"
    lab = parse_lab(text, "lab.yaml")
    assert lab.hosts[0].backend == "xpu"
    assert any("P800" in note for note in lab.assumptions)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("version: 1\nhosts: [{name: a, model: Card 9000}]", "2:26", "no model 'Card 9000'"),
        ("version: 1\nhosts: [{name: a, modle: V100}]", "2:19", "did you mean `model`"),
        ("version: 1\nhosts: []", "2:8", "at least 1"),
        ("hosts: [{name: a, model: P100}]", "1:1", "`version` is missing"),
        (
            "version: 1\nhosts: [{name: a, model: Tesla V100-SXM2-32GB, speed: {cooking: 2}}]",
            "2:9",
            "no class of job 'cooking'",
        ),
        (
            "version: 1\nhosts:\n- {name: a, model: Tesla V100-SXM2-32GB}\n"
            "- {name: a, model: Tesla V100-SXM2-32GB}",
            "4:10",
            "a second host is named 'a'",
        ),
    ],
)
def test_a_wrong_lab_file_names_the_place(text: str, place: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_lab(text, "lab.yaml")
    assert f"lab.yaml:{place}" in caught.value.message
    assert words in caught.value.message
