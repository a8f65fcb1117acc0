"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A machine that others share may stand still for a moment: no random test fails by the clock.
settings.register_profile(
    "unhurried", parent=settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
)
settings.load_profile("unhurried")

# Files that tests write as settings are trusted, whatever group an account shares its umask with.
os.umask(0o022)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def _isolated_user(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep every test away from the settings, state and colours of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
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
