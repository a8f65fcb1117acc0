"""Settings: defaults, the user's file, and what a lab decides over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.config import LabSettings, combined, config_path, load_settings, state_dir
from gpuconsole.core.estimate import Measure
from gpuconsole.errors import DocumentError
from gpuconsole.yamldoc import Section, parse
from tests.scripts import script


def test_without_a_file_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_settings() == LabSettings()
    assert LabSettings().memory_threshold == 0.85
    assert LabSettings().network == "none"


def test_the_users_file_is_found_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "gpuconsole" / "config.yaml"
    path.parent.mkdir()
    path.write_text("policy: best_fit\nstop_grace: 2m\nmemory_limit: 16 GiB\nkeys: {a.b: f5}\n")
    settings = load_settings()
    assert config_path() == path
    assert state_dir() == tmp_path / "state" / "gpuconsole"
    assert settings.policy == "best_fit"
    assert settings.stop_grace == 120.0
    assert settings.memory_limit == 16384.0
    assert settings.keys == {"a.b": "f5"}


def test_a_file_of_comments_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# nothing yet\n")
    assert load_settings(path) == LabSettings()


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="does not exist"):
        load_settings(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weights: {sped: 1}", "c:1:11: `sped` is not a known key; did you mean `speed`?"),
        ("speed: 1", "c:1:1: `speed` is not a known key here"),
        ("memory_threshold: 1.2", "c:1:19: `memory_threshold`: expected less than or equal to 1"),
        ("memory_limit: much", "c:1:15: `memory_limit`: expected a size such as `8 GiB`"),
        ("memory_limit: 0", "c:1:15: `memory_limit`: expected greater than 0, found `0`"),
        ("stop_grace: [1]", "c:1:13: `stop_grace`: expected a duration"),
        ("policy: fastest", "c:1:9: `policy`: expected 'weighted', 'best_fit'"),
    ],
)
def test_mistakes_name_place_and_expectation(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text, "c", LabSettings)
    assert caught.value.message.startswith(message)


def test_the_lab_wins_key_by_key() -> None:
    user = parse("policy: balanced\nweights: {speed: 1, fit: 9}\nstop_grace: 3s", "u", LabSettings)
    lab = parse("weights: {speed: 7}\nstop_grace: 10", "l", LabSettings)
    joined = combined(user, lab)
    assert joined.policy == "balanced"
    assert (joined.weights.speed, joined.weights.fit) == (7.0, 9.0)
    assert joined.weights.links == LabSettings().weights.links
    assert joined.stop_grace == 10.0


@pytest.mark.parametrize(
    ("user", "lab", "task", "counts"),
    [
        ("", "", None, "auto"), ("", "measure: ask", "auto", "ask"),
        ("measure: never", "measure: auto", "ask", "never"), ("measure: ask", "", None, "ask"),
        ("measure: auto", "measure: never", "auto", "never"), ("", "", "never", "never"),
    ],
)  # fmt: skip
def test_the_strictest_choice_about_measuring_counts(
    user: str, lab: str, task: Measure | None, counts: Measure
) -> None:
    joined = combined(parse(user, "u", LabSettings), parse(lab, "l", LabSettings))
    assert joined.allowed_measure(task, read_only=False) == counts
    assert joined.allowed_measure(task, read_only=True) == "never"


def test_every_setting_is_explained() -> None:

    root = Path(__file__).resolve().parents[1]
    descriptions = script(root / "docs" / "tables.py").descriptions
    pending: list[type[Section]] = [LabSettings]
    while pending:
        model = pending.pop()
        explained = descriptions(model)
        for name, info in model.model_fields.items():
            assert explained.get(name), f"{model.__name__}.{name} has no description"
            if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
                pending.append(info.annotation)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("quotas: [{devices: 4}]", "expected either `user` or `account`"),
        ("quotas: [{user: a, account: b, devices: 4}]", "expected either `user` or `account`"),
        ("quotas: [{user: a}]", "expected `devices` or `device_hours`"),
        ("quotas: [{user: a, devices: 1, per: year}]", "quotas[0].per"),
        ("windows: [{name: c, begins: soon, ends: later}]", "expected a time such as"),
        (
            "windows: [{name: c, begins: 2030-01-02T00:00Z, ends: 2030-01-01T00:00Z}]",
            "`ends` must be after `begins`",
        ),
        (
            "windows: [{name: c, begins: 2030-01-01T00:00Z, ends: 2030-01-03T00:00Z, repeat: day}]",
            "longer than the day after which it comes back",
        ),
        ("half_life: 0", "half_life"),
        ("shares: {users: {ada: 0}}", "shares.users.ada"),
        ("max_devices_per_host: 0", "max_devices_per_host"),
    ],
)
def test_limits_that_cannot_be_are_told_with_their_place(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text, "c", LabSettings)
    assert words in caught.value.message
    assert caught.value.message.startswith("c:1:")


def test_triage_is_set_key_by_key(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "triage:\n  bell: true\n  webhook: https://h.example/x\n  notify: critical\n"
        "  limits: {idle_for: 2h, idle_memory: 1 GiB, disk_free: 10}\n"
    )
    triage = load_settings(path).triage
    assert (triage.bell, triage.webhook, triage.notify) == (True, "https://h.example/x", "critical")
    assert (triage.limits.idle_for, triage.limits.idle_memory) == (7200.0, 1024.0)
    assert triage.limits.unreachable_for == LabSettings().triage.limits.unreachable_for


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("triage: {webhook: 'file:///etc/passwd'}", "http://"),
        ("triage: {notify: loud}", "critical"),
        ("triage: {limits: {idle_fr: 2h}}", "idle_for"),
        ("triage: {limits: {memory_full: 101}}", "100"),
        ("triage: {limits: {idle_for: -1}}", "duration"),
    ],
)
def test_wrong_settings_of_triage_are_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(DocumentError, match=says):
        load_settings(path)
