"""Extensions: what installed packages add, and that none of them stops the console."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuconsole import extensions
from gpuconsole.core.fleet import Device
from gpuconsole.extensions import MAX_OUTPUT, OFF, Action, Selected, actions, output_of
from gpuconsole.placement.engine.device_state import health_fault
from gpuconsole.remote import vendors
from gpuconsole.remote.polling import agent_launch
from gpuconsole.remote.vendors.latest_readings import Round, Shelf
from tests.tui.console import opened
from tests.tui.fake import FakeSession

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

EXAMPLE = Path(__file__).parents[3] / "examples" / "extension"
Install = Callable[..., None]
CARDS = (
    "index,model,memory_used_mib,memory_total_mib,utilization_percent\n"
    "0,Acme A1,1024,16384,37\n1,Acme A1,N/A,16384,\n"
)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Give a function that installs a module with entry points, as pip leaves it."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    modules: list[str] = []

    def put(module: str, text: str, points: dict[str, dict[str, str]], package: str = "") -> None:
        modules.append(module)
        (site / f"{module}.py").write_text(text)
        folder = site / f"{package or module}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {package or module}\nVersion: 1\n")
        lines = [
            line
            for group, names in points.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in names.items()))
        ]
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
        importlib.invalidate_caches()
        forget()

    yield put
    for module in modules:
        sys.modules.pop(module, None)
    forget()


def forget() -> None:
    extensions._objects.cache_clear()
    vendors.readers.cache_clear()


@pytest.fixture
def example(install: Install) -> None:
    """Install the example of the documentation."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    text = (EXAMPLE / "gpuconsole_example.py").read_text()
    install("gpuconsole_example", text, project["entry-points"], project["name"])


@pytest.mark.usefixtures("example")
def test_a_reader_of_a_package_is_asked_and_read_like_one_that_is_built_in() -> None:
    tools = {family["name"]: family for family in agent_launch.tools()}
    (way,) = tools["acme"]["ways"]
    assert json.loads(json.dumps(way["commands"])) == [["cards", 1, ["acme-smi", "--csv"]]]
    assert list(tools)[:2] == ["ascend", "kunlunxin"]
    shelf = Shelf()
    shelf.take(Round("acme", 0, "0a1b2c3d", 1.0, {"cards": CARDS}))
    first, second = shelf.devices({})
    assert (first.uuid, first.vendor) == ("ACME-0a1b2c3d-0", "acme")
    assert (first.memory_used_mib, first.utilization) == (1024.0, 37.0)
    assert (second.memory_used_mib, second.utilization) == (None, None)
    assert "maker" in health_fault(first), "no container could be given it"


@pytest.mark.usefixtures("example")
def test_what_a_reader_of_a_package_cannot_read_costs_its_own_devices_only() -> None:
    shelf = Shelf()
    shelf.take(Round("acme", 0, "0a1b2c3d", 1.0, {"cards": CARDS}))
    shelf.take(Round("acme", 0, "0a1b2c3d", 2.0, {"cards": "something else"}))
    assert "a table without" in shelf.error
    assert all(device.error for device in shelf.devices({}))


def test_a_reader_that_fails_in_its_own_way_is_a_fault(install: Install) -> None:
    text = (EXAMPLE / "gpuconsole_example.py").read_text()
    broken = text.replace("    rows = csv", "    raise KeyError('cards\\x1b[31m')\n    rows = csv")
    install("broken_reader", broken, {"gpuconsole.vendors": {"acme": "broken_reader:ACME"}})
    shelf = Shelf()
    shelf.take(Round("acme", 0, "0a1b2c3d", 1.0, {"cards": CARDS}))
    assert "its reader failed: KeyError" in shelf.error
    assert "\x1b" not in shelf.error


def test_what_cannot_be_loaded_is_left_out_by_name(install: Install) -> None:
    install("no_import", "import there_is_no_such_module", {
        "gpuconsole.actions": {"a": "no_import:X"}, "gpuconsole.vendors": {"v": "no_import:X"},
    })  # fmt: skip
    install("wrong_kind", "X = 'text'", {"gpuconsole.actions": {"b": "wrong_kind:X"}})
    for module in ("good", "twice"):
        text = "from gpuconsole.extensions import Action\nX = Action('Say hi', lambda _: 'hi')"
        install(module, text, {"gpuconsole.actions": {"c": f"{module}:X"}})
    found = actions()
    assert [each.name for each in found.loaded] == ["c"]
    words = "\n".join(found.faults)
    assert "a of no_import was left out: ModuleNotFoundError" in words
    assert "b of wrong_kind was left out: it is no Action" in words
    assert "there is another of that name" in words
    assert "v of no_import" in "\n".join(vendors.readers().faults)
    assert [vendor.name for vendor in vendors.readers().vendors] == [
        vendor.name for vendor in vendors.VENDORS
    ]


@pytest.mark.usefixtures("example")
def test_a_variable_leaves_all_of_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert actions().loaded
    monkeypatch.setenv(OFF, "1")
    assert not actions().loaded


def test_a_reader_for_a_kind_of_device_that_is_unknown_is_left_out(install: Install) -> None:
    text = (EXAMPLE / "gpuconsole_example.py").read_text().replace('    "gpu",\n', '    "tpu",\n')
    install("unknown_kind", text, {"gpuconsole.vendors": {"acme": "unknown_kind:ACME"}})
    assert vendors.readers().faults == (
        "acme of unknown_kind was left out: tpu is no kind of device",
    )
    assert "acme" not in vendors.readers().families


def test_what_an_action_says_is_cleaned_and_bounded() -> None:
    said = output_of(Action("x", lambda _: "a\x1b[31mb\n" + "c" * 10**6), Selected())
    assert "\x1b" not in said
    assert len(said) <= MAX_OUTPUT
    failed = output_of(Action("x", lambda _: 1 // 0 and ""), Selected())  # type: ignore[arg-type, return-value]
    assert failed.startswith("ZeroDivisionError")


@pytest.mark.usefixtures("example")
async def test_an_action_is_found_in_the_palette_and_shows_what_it_says() -> None:
    async with opened(FakeSession()) as console:
        host, _, _ = console.app.screen.under_cursor()  # type: ignore[attr-defined]
        await console.press("colon", *"ssh line")
        await console.shows("Show the SSH line of the host", "gpuconsole-example-ex")
        await console.press("enter")
        await console.shows(f"ssh {host.address or host.name}", "esc closes")
        await console.press("escape")
        await console.until(lambda: "esc closes" not in console.text)
        # In the queue no host is under the cursor.
        await console.press("2", "colon", *"action: ssh")
        await console.shows("Nothing matches.")


async def test_an_action_that_hangs_holds_up_no_key(install: Install) -> None:
    text = (
        "import threading\nfrom gpuconsole.extensions import Action\n"
        "GO = threading.Event()\nHANG = Action('Hang around', lambda _: GO.wait() and 'over')\n"
    )
    install("hanging", text, {"gpuconsole.actions": {"hang": "hanging:HANG"}})
    async with opened(FakeSession()) as console:
        await console.press("colon", *"hang around", "enter")
        await console.shows("Hang around is running")
        await console.press("2")
        await console.shows("Queue")
        sys.modules["hanging"].GO.set()
        await console.shows("Hang around", "esc closes")


async def test_what_changes_something_is_not_offered_read_only(install: Install) -> None:
    text = (
        "from gpuconsole.extensions import Action\n"
        "DO = Action('Restart a thing', lambda _: '', changes=True)\n"
        "LOOK = Action('Restart count', lambda _: '')\n"
    )
    install("both", text, {"gpuconsole.actions": {"do": "both:DO", "look": "both:LOOK"}})
    for read_only in (False, True):
        async with opened(FakeSession(read_only=read_only)) as console:
            await console.press("colon", *"action: restart")
            await console.shows("Restart count")
            assert ("Restart a thing" in console.text) is not read_only


def test_a_device_without_a_maker_may_be_placed_on() -> None:
    assert not health_fault(Device("GPU-1", 0, "A100"))
    assert not health_fault(Device("GPU-1", 0, "A100", vendor="nvidia"))
