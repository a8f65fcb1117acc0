"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.profiles import load_profile

load_profile()
# Files that tests write as settings are trusted, whatever group an account shares its umask with.
os.umask(0o022)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In the background of a script Ctrl-C is ignored, and every process started inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # The same for the end of a terminal, under nohup.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave the test modules and all that they import out of what is collected while tests run:
    they stay until the end, and to look through them takes seconds each time."""
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give one new home folder after the other; pytest's own counting reads all there are."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _isolated_user(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test away from the settings, state and colours of the user who runs it."""
    home = next(homes)
    home.mkdir()
    for name, folder in {
        "HOME": home,
        "XDG_CONFIG_HOME": home / "config",
        "XDG_STATE_HOME": home / "state",
        "XDG_CACHE_HOME": home / "cache",
        "XDG_DATA_HOME": home / "data",
    }.items():
        monkeypatch.setenv(name, str(folder))
    for name in ("GPUCONSOLE_INVENTORY", "NO_COLOR", "SSH_AUTH_SOCK", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("GPUCONSOLE_NO_TOUR", "1")


@pytest.fixture(scope="session", autouse=True)
def _no_power_cut() -> Iterator[None]:
    """Let the journals of tests not wait for the disk: tests in which something is killed at every
    step wait for little else. What a killed process has written stays."""
    from gpuconsole.state import database

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "SYNCHRONOUS", "OFF")
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_process_reads_scripts() -> Iterator[None]:
    """Let a reader that is closed leave its process to the next, as the questions of one console
    share one: starting it takes longer than most tests do."""
    from gpuconsole.session.reading import reader
    from gpuconsole.session.reading.process import Child, Limits

    idle: list[Child] = []

    def start(limits: Limits, *, copied: bool = False) -> Child:
        while idle and limits == Limits():
            child = idle.pop()
            if not child.is_spent:
                return child
        return Lent(limits)

    class Lent(Child):
        def close(self) -> None:
            if self.is_spent or self.limits != Limits():
                super().close()
            else:
                idle.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "Child", start)
        yield
    for child in idle:
        Child.close(child)


@pytest.fixture
def shared() -> Path:
    """Give the folder of acceptance data that lies beside the checkout, where there is one."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the checkout")
    return SHARED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Fail a skipped test of the real suite where every part is said to exist."""
    report = yield
    if (
        report.skipped  # type: ignore[attr-defined]
        and os.environ.get("GPUCONSOLE_REQUIRE_REAL")
        and item.get_closest_marker("real")
    ):
        report.outcome = "failed"  # type: ignore[attr-defined]
        report.longrepr = f"skipped although the real suite is required: {report.longrepr}"  # type: ignore[attr-defined]
    return report  # type: ignore[return-value]
