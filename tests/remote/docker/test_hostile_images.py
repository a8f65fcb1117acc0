"""What images and their names say is hostile: neither makes the engine's other things theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuconsole.core.containers import LABEL_PREFIX
from gpuconsole.errors import ImageError
from gpuconsole.remote.docker import images, leader_marks, leases
from gpuconsole.remote.docker.marker_containers import create_empty


class Client:
    """An engine with one image and some containers, that notes what it is asked for."""

    def __init__(self, labels: dict[str, str], containers: list[dict[str, Any]] | None = None):
        self.labels = labels
        self.listed = containers or []
        self.asked: list[str] = []

    def inspect_image(self, image: str) -> dict[str, Any]:
        self.asked.append(image)
        return {"Id": "sha256:1", "Config": {"Env": ["A=1"], "Labels": self.labels}}

    def containers(self, **_: object) -> list[dict[str, Any]]:
        return self.listed


def lead(name: str, epoch: str = "9") -> dict[str, Any]:
    words = {"lead": "lab", "epoch": epoch, "head": "evil", "head-name": "evil"}
    return {"Names": [name], "Labels": {LABEL_PREFIX + key: word for key, word in words.items()}}


@pytest.mark.parametrize("name", ["../containers/train", "a/../../containers/train", "..", ""])
def test_a_name_cannot_lead_to_other_things_of_the_engine(name: str) -> None:
    client = Client({})
    assert images.image_facts(client, name) is None  # type: ignore[arg-type]
    assert not images.is_present(client, name)  # type: ignore[arg-type]
    assert client.asked == []
    assert images.is_present(client, "lab/train:7")  # type: ignore[arg-type]


@pytest.mark.parametrize("label", ["lead", "lease", "job", "alive"])
def test_an_image_with_labels_of_ours_makes_no_container(label: str) -> None:
    client = Client({LABEL_PREFIX + label: "x"})
    with pytest.raises(ImageError, match=label):
        images.refuse_own_labels(client, "lab/train:7", "a100-01")  # type: ignore[arg-type]
    images.refuse_own_labels(Client({"maintainer": "ada"}), "lab/train:7", "a100-01")  # type: ignore[arg-type]
    # One that was made of a job's container: the next job's own labels take their place.
    images.refuse_own_labels(client, "lab/train:7", "a100-01", {LABEL_PREFIX + label: "y"})  # type: ignore[arg-type]


def test_only_a_container_with_the_name_of_a_lease_is_one() -> None:
    """A container has the labels of its image; its name is what the product gave it."""
    labels = {LABEL_PREFIX + "lease": "GPU-a", LABEL_PREFIX + "job": "evil"}
    own = {"Id": "1", "Names": ["/gpuconsole-lease-GPU-a"], "Labels": labels, "Created": 1}
    beside = {**own, "Id": "2", "Names": ["/gpuconsole-lease-GPU-a-shared"]}
    job = {**own, "Id": "3", "Names": ["/gpuconsole-train-1"]}
    other = {**own, "Id": "4", "Names": ["/gpuconsole-lease-GPU-b"]}
    found = leases.held(Client({}, [own, beside, job, other]))  # type: ignore[arg-type]
    assert [item.id for item in found] == ["1", "2"]


def test_what_passes_for_a_lease_is_not_left_out_of_the_jobs() -> None:
    """Else a job's container would hide from who claims its device."""
    labels = {LABEL_PREFIX + "lease": "GPU-a", LABEL_PREFIX + "job": "evil"}
    job = {"Id": "3", "Names": ["/gpuconsole-train-1"], "Labels": labels, "Created": 1}
    assert leases._job_labels(Client({}, [job])) == [labels]  # type: ignore[arg-type]


def test_an_image_under_the_name_of_the_empty_one_gives_leases_no_labels() -> None:
    """A job may name it, and have the engine pull it from a registry."""
    made: list[str] = []

    class Engine(Client):
        def create_host_config(self, **_: object) -> dict[str, Any]:
            return {}

        def import_image_from_data(self, *_: object, **__: object) -> str:
            return json.dumps({"status": "sha256:" + "a" * 64})

        def create_container(self, image: str, **_: object) -> dict[str, str]:
            made.append(image)
            return {"Id": "c"}

    create_empty(Engine({LABEL_PREFIX + "share": "1"}), "lease", {})  # type: ignore[arg-type]
    create_empty(Engine({}), "lease", {})  # type: ignore[arg-type]
    assert made == ["sha256:" + "a" * 64, "sha256:1"]


def test_only_a_container_with_the_name_of_a_mark_is_one() -> None:
    """A job's container inherits the labels of its image, and a mark says who leads."""
    client = Client({}, [lead("/gpuconsole-train-1"), lead("/gpuconsole-lead-lab-3", "3")])
    (mark,) = leader_marks.marks(client, "lab")  # type: ignore[arg-type]
    assert mark.epoch == 3
