"""Claims on a device on which the container of a measurement is left, past its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import docker
import pytest
import requests

from gpuconsole.core.containers import TIME_LIMIT_LABEL, Lease
from gpuconsole.core.engines.device_requests import DEVICES_LABEL
from gpuconsole.errors import LeaseTakenError
from gpuconsole.remote.docker import leases
from gpuconsole.remote.docker.errors import status_of
from gpuconsole.remote.docker.marker_containers import lease_name

UUID = "GPU-1"
LEFT = "left"
LEASE = Lease(UUID, "1a", "1a-1", "ann", "journal", 0.0)


class Engine:
    """A client of an engine that has the container of a measurement, and removes it or not."""

    base_url = "http+docker://localhost"
    timeout = 1.0

    def __init__(self, state: str, answer: int) -> None:
        labels = {
            "gpuconsole.job": "measure-1", "gpuconsole.attempt": "m",
            TIME_LIMIT_LABEL: "60", DEVICES_LABEL: UUID,
        }  # fmt: skip
        self.items = [self._item(LEFT, "measures", labels, state, 0.0)]
        self.answer = answer

    def _item(
        self, ident: str, name: str, labels: Mapping[str, str], state: str, at: float
    ) -> dict[str, object]:
        return {
            "Id": ident, "Names": [f"/{name}"], "Labels": labels, "State": state, "Created": at,
        }  # fmt: skip

    def get(self, _url: str, **_: object) -> requests.Response:
        response = requests.Response()
        response.status_code = 200
        response.headers["Date"] = "Thu, 01 Jan 1970 02:00:00 GMT"
        return response

    def containers(self, *, filters: Mapping[str, object], **_: object) -> list[object]:
        label, states = filters["label"], filters.get("status")
        wanted = [label] if isinstance(label, str) else list(label)  # type: ignore[call-overload]
        return [
            item
            for item in self.items
            if all(key in item["Labels"] for key in wanted)  # type: ignore[operator]
            and (states is None or item["State"] in states)  # type: ignore[operator]
        ]

    def create_host_config(self, **_: object) -> None: ...

    def inspect_image(self, _name: str) -> dict[str, object]:
        return {"Id": "sha256:empty", "Config": {}}

    def create_container(
        self, _image: str, *, name: str, labels: Mapping[str, str], **_: object
    ) -> dict[str, object]:
        made = self._item(name, name, labels, "created", 7200.0)
        self.items.append(made)
        return made

    def remove_container(self, ident: str, **_: object) -> None:
        if ident == LEFT and self.answer != 204:
            response = requests.Response()
            response.status_code = self.answer
            raise docker.errors.APIError("device or resource busy", response=response)
        self.items = [item for item in self.items if item["Id"] != ident]

    def names(self) -> Sequence[object]:
        return [item["Id"] for item in self.items]


@pytest.mark.parametrize(
    ("state", "answer", "stays"),
    [("exited", 204, False), ("dead", 204, False), ("dead", 500, True), ("dead", 404, True)],
)
def test_one_that_is_removed_or_dead_blocks_no_claim(state: str, answer: int, stays: bool) -> None:
    engine = Engine(state, answer)
    leases.claim(engine, [LEASE])  # type: ignore[arg-type]
    assert lease_name(UUID) in engine.names()
    assert (LEFT in engine.names()) is stays


@pytest.mark.parametrize("state", ["running", "exited"])
def test_one_that_may_still_use_the_device_refuses_the_claim(state: str) -> None:
    engine = Engine(state, 500)
    with pytest.raises(docker.errors.APIError) as refused:
        leases.claim(engine, [LEASE])  # type: ignore[arg-type]
    assert status_of(refused.value) == 500
    assert engine.names() == [LEFT], "what was claimed is released"


def test_a_measurement_whose_time_is_not_over_keeps_its_device() -> None:
    engine = Engine("running", 204)
    engine.items[0]["Created"] = 7190.0
    with pytest.raises(LeaseTakenError):
        leases.claim(engine, [LEASE])  # type: ignore[arg-type]
    assert engine.names() == [LEFT]
