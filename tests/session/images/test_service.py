"""Images of a lab in memory: fetched by policy, pinned, copied; what goes wrong is reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import HostFacts
from gpuconsole.core.images import ImageRecord
from gpuconsole.core.jobs import Task
from gpuconsole.errors import EngineError, ImageError, ReadOnlyError, RefusedError, UsageError
from gpuconsole.placement.prepull import Fetch
from gpuconsole.placement.rules.image_compatibility import image_fault
from gpuconsole.session.images.check import faults
from gpuconsole.session.images.service import Imaging, with_pin
from gpuconsole.state.files.images import FILE, ImageCheck, ImageNotes, Pin
from tests.session.conftest import Desk, Lab
from tests.session.fakes import Docker

ID, OTHER, DIGEST = ("sha256:" + digit * 64 for digit in "123")


class Store:
    """A host's images in memory."""

    def __init__(self, road: str) -> None:
        self.road = road
        self.known: dict[str, ImageRecord] = {}
        self.registry = ""
        self.spoils = False
        self.full = False

    async def list(self) -> tuple[ImageRecord, ...]:
        return tuple(self.known.values())

    async def find(self, image: str) -> ImageRecord | None:
        known = self.known.values()
        return next((one for one in known if image in (one.id, *one.names)), None)

    async def registry_digest(self, image: str) -> str:
        if not self.registry:
            raise ImageError("Image cannot be had", f"{image}: no such host")
        return self.registry

    async def save(self, image: str) -> AsyncIterator[bytes]:
        record = await self.find(image)
        assert record is not None
        yield record.id.encode()
        yield image.encode()

    async def load(self, chunks: AsyncIterator[bytes]) -> None:
        sent = [chunk.decode() async for chunk in chunks]
        if self.full:
            raise EngineError("The host's disk is full", "b: no space left on device")
        layers = ("spoilt",) if self.spoils else ("layer",)
        self.known[sent[0]] = ImageRecord(sent[0], (sent[1],), size_mib=1.0, layers=layers)

    async def tag(self, image: str, name: str) -> None:
        record = self.known[image]
        self.known[image] = replace(record, names=(*record.names, name))

    def has(self, name: str, image_id: str = ID, digest: str = "") -> None:
        digests = (f"{name.partition(':')[0]}@{digest}",) if digest else ()
        self.known[image_id] = ImageRecord(image_id, (name,), digests, 1.0, layers=("layer",))


class Rig:
    def __init__(self, lab: Lab, names: str) -> None:
        lab.dockers = {name: Docker(lab.clock) for name in names}
        self.desk: Desk = lab.desk()
        self.stores = {}
        for name, engine in self.desk.hosts._engines.items():
            self.stores[name] = Store(name)
            engine.images = self.stores[name]  # type: ignore[attr-defined]
        self.imaging = Imaging(self.desk.context)


@pytest.fixture
def rig(lab: Lab) -> Rig:
    return Rig(lab, "bc")


async def test_a_copy_arrives_under_its_name(rig: Rig) -> None:
    rig.stores["b"].has("lab/train:7")
    done = await rig.imaging.copy("lab/train:7", "b", "c", lambda said: None)
    assert rig.stores["c"].known[ID].names == ("lab/train:7",)
    assert (done.id, done.already) == (ID, False)
    again = await rig.imaging.copy("lab/train:7", "b", "c", lambda said: None)
    assert again.already


async def test_a_name_that_means_another_image_there_is_not_taken_unasked(rig: Rig) -> None:
    rig.stores["b"].has("lab/train:7")
    rig.stores["c"].has("lab/train:7", OTHER)
    with pytest.raises(RefusedError) as caught:
        await rig.imaging.copy("lab/train:7", "b", "c", lambda said: None)
    assert "--replace" in caught.value.hint
    assert ID not in rig.stores["c"].known
    await rig.imaging.copy("lab/train:7", "b", "c", lambda said: None, replace=True)
    assert ID in rig.stores["c"].known


async def test_what_arrives_spoilt_is_told(rig: Rig) -> None:
    rig.stores["b"].has("lab/train:7")
    rig.stores["c"].spoils = True
    with pytest.raises(ImageError) as caught:
        await rig.imaging.copy("lab/train:7", "b", "c", lambda said: None)
    assert caught.value.title == "Something else arrived"


async def test_an_image_that_nobody_has_cannot_be_copied(rig: Rig) -> None:
    with pytest.raises(ImageError) as caught:
        await rig.imaging.copy("lab/train:7", "b", "c", lambda said: None)
    assert "gpuconsole image list --host b" in caught.value.hint
    with pytest.raises(UsageError):
        await rig.imaging.copy("lab/train:7", "b", "b", lambda said: None)
    with pytest.raises(UsageError):
        await rig.imaging.copy("lab/train:7", "b", "nobody", lambda said: None)


async def test_a_pin_is_by_digest_and_holds_for_new_tasks(rig: Rig) -> None:
    rig.stores["b"].has("lab/train:7", digest=DIGEST)
    pin = await rig.imaging.pin("lab/train:7")
    assert pin.reference == f"lab/train@{DIGEST}"
    notes = ImageNotes(rig.desk.context.state)
    assert with_pin(Task("t", image="lab/train:7"), notes).image == pin.reference
    assert with_pin(Task("t", image="lab/train:8"), notes).image == "lab/train:8"
    rig.imaging.unpin("lab/train:7")
    assert with_pin(Task("t", image="lab/train:7"), notes).image == "lab/train:7"
    with pytest.raises(RefusedError):
        rig.imaging.unpin("lab/train:7")


async def test_an_image_no_registry_knows_is_pinned_by_its_id(rig: Rig) -> None:
    rig.stores["b"].has("lab/train:7")
    assert (await rig.imaging.pin("lab/train:7")).reference == ID


async def test_an_image_no_host_has_is_asked_of_its_registry(rig: Rig) -> None:
    with pytest.raises(ImageError):
        await rig.imaging.pin("lab/train:7")
    for store in rig.stores.values():
        store.registry = DIGEST
    assert (await rig.imaging.pin("lab/train:7")).reference == f"lab/train@{DIGEST}"


async def test_hosts_that_differ_are_told_apart(rig: Rig) -> None:
    rig.stores["b"].has("lab/train:7", digest=DIGEST)
    rig.stores["c"].has("lab/train:7", OTHER)
    with pytest.raises(RefusedError) as caught:
        await rig.imaging.pin("lab/train:7")
    assert f"b {ID[7:19]}, c {OTHER[7:19]}" in caught.value.message
    assert (await rig.imaging.pin("lab/train:7", "b")).id == ID


async def test_a_pinned_name_is_not_pinned_again(rig: Rig) -> None:
    with pytest.raises(UsageError):
        await rig.imaging.pin(f"lab/train@{DIGEST}")


async def test_hosts_of_one_road_pull_one_after_another(rig: Rig, lab: Lab) -> None:
    rig.stores["b"].road = rig.stores["c"].road = "gate"
    for docker in lab.dockers.values():
        docker.images.add("new:1")
    lab.dockers["b"].pull_blocks = True
    said: list[tuple[str, str]] = []
    fetches = [Fetch("b", "new:1"), Fetch("c", "new:1"), Fetch("c", "absent:1")]
    task = asyncio.ensure_future(
        rig.imaging.fetch(fetches, lambda *reported: said.append(reported))
    )
    for _ in range(50):
        await asyncio.sleep(0)
    assert {host for host, _ in said} == {"b"}
    lab.dockers["b"].pull_blocks = False
    lab.dockers["b"].notify()
    done = await task
    assert [(one.fetch.host, one.error is None) for one in done] == [
        ("b", True),
        ("c", True),
        ("c", False),
    ]


async def test_a_host_out_of_reach_keeps_no_other_from_its_images(rig: Rig, lab: Lab) -> None:
    lab.dockers["b"].reachable = False
    lab.dockers["c"].images.add("new:1")
    done = await rig.imaging.fetch(
        [Fetch("b", "new:1"), Fetch("c", "new:1")], lambda host, said: None
    )
    assert {one.fetch.host: one.error is None for one in done} == {"b": False, "c": True}


async def test_who_only_looks_changes_nothing(rig: Rig) -> None:
    imaging = Imaging(replace(rig.desk.context, read_only=True))
    for attempt in (
        imaging.pin("a:1"),
        imaging.copy("a:1", "b", "c", lambda said: None),
        imaging.fetch([], lambda host, said: None),
        imaging.check("a:1", "b", lambda said: None),
    ):
        with pytest.raises(ReadOnlyError):
            await attempt
    await imaging.listing()


def test_notes_that_were_spoilt_are_left_out(tmp_path: Path) -> None:
    notes = ImageNotes(tmp_path)
    notes.pin(Pin("a:1", f"a@{DIGEST}", by="ann", at=1.0))
    notes.keep(ImageCheck(ID, "a:1", "b", 2.0, paddle="3.3.1", cuda="12.6"))
    assert ImageNotes(tmp_path).checks()[ID].cuda == "12.6"
    text = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(text.replace('"by": "ann"', '"by": 7').replace('"id"', '"ID"'))
    assert ImageNotes(tmp_path).pins()["a:1"].by == ""
    assert ImageNotes(tmp_path).checks() == {}
    for spoilt in ("", "[", "[1]", '{"pins": {}, "checks": [[]]}', '{"pins": [null]}'):
        (tmp_path / FILE).write_text(spoilt)
        assert notes.resolved("a:1") == "a:1"


def test_what_a_check_found_is_held_against_drivers() -> None:
    facts = ImageFacts(paddle="3.3.1", paddle_cuda="12.9")
    old = HostFacts(driver_version="470.82.01", runtime_version="11.4")
    assert "is built for CUDA 12.9 (driver 525.60.13 or later)" in image_fault(
        "gpu", "lab/x:1", facts, old
    )
    new = HostFacts(driver_version="550.54.14", runtime_version="12.4")
    assert image_fault("gpu", "lab/x:1", facts, new) == ""
    bare = ImageFacts(paddle="3.3.1", paddle_cuda="none")
    assert "built without CUDA" in image_fault("gpu", "lab/x:1", bare, new)


async def test_a_check_that_computed_elsewhere_is_no_success(rig: Rig) -> None:
    host = rig.desk.hosts.snapshot().hosts[0]
    seen = ImageCheck(ID, "lab/x:1", host.name, 1.0, paddle="3.3.1", cuda="12.6",
                      built_for="gpu", device="gpu:0", given="A100 (device 0)")  # fmt: skip
    assert faults(seen, "gpu", host, None) == []
    assert "on the CPU although" in faults(replace(seen, device="cpu"), "gpu", host, None)[0]
    assert "processors alone" in faults(replace(seen, built_for="cpu"), "gpu", host, None)[0]
    broken = replace(seen, paddle="", error="ImportError: libcuda.so.1")
    assert faults(broken, "gpu", host, None) == [
        "Paddle cannot be imported: ImportError: libcuda.so.1"
    ]
