"""Hosts that sleep, in the inventory: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.errors import DocumentError, TrustError
from gpuconsole.remote.inventory import load_inventory, parse_inventory
from gpuconsole.session.elastic.power_commands import CommandPower, limits_of

HEAD = "version: 1\nhosts:\n"
WHOLE = f"""{HEAD}  - name: a
    wake: [wakeonlan, "00:11:22:33:44:55"]
    sleep: [ssh, a, sudo, systemctl, suspend]
    elastic: {{idle_minutes: 5, wakes_per_hour: 2, max_awake_hours: 8, wake_minutes: 3,
              wake_timeout_minutes: 6, model: A100-SXM4-40GB, devices: 8}}
    interruptible: true
"""


def test_a_host_that_sleeps_is_read_whole() -> None:
    (entry,) = parse_inventory(WHOLE, "lab.yaml").hosts
    assert entry.wake == ("wakeonlan", "00:11:22:33:44:55")
    assert entry.interruptible
    limits = limits_of(entry)
    assert (limits.idle_s, limits.wakes_per_hour, limits.max_awake_s) == (300.0, 2, 28800.0)
    assert (limits.wake_s, limits.timeout_s, limits.sleeps) == (180.0, 360.0, True)
    assert (limits.model, limits.devices) == ("A100-SXM4-40GB", 8)


def test_only_hosts_with_a_command_can_be_woken() -> None:
    lab = parse_inventory(f"{WHOLE}  - name: b\n  - {{name: c, wake: [x]}}\n", "lab.yaml")
    power = CommandPower(lab)
    assert set(power.hosts) == {"a", "c"}
    assert not power.hosts["c"].sleeps


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("{name: a, sleep: [x]}", "it has no `wake`"),
        ("{name: a, elastic: {idle_minutes: 5}}", "it has no `wake`"),
        ("{name: a, local: true, wake: [x]}", "a is this machine"),
        ("{name: a, engine: slurm, wake: [x]}", "a cluster, which wakes its own nodes"),
        ("{name: a, wake: wakeonlan}", "wake"),
        ("{name: a, wake: []}", "wake"),
        ('{name: a, wake: [x, ""]}', "expected a word"),
        ("{name: a, wake: [x], elastic: {idle_minuts: 5}}", "idle_minutes"),
        ("{name: a, wake: [x], elastic: {wakes_per_hour: 0}}", "wakes_per_hour"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(host: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_inventory(f"{HEAD}  - {host}\n", "lab.yaml")
    assert caught.value.message.startswith("lab.yaml:3:")
    assert said in caught.value.message + caught.value.hint


@pytest.mark.parametrize("text", [WHOLE, f"{HEAD}  - name: a\n"])
def test_an_inventory_that_others_can_write_is_refused_with_and_without_commands(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    path.chmod(0o644)
    assert load_inventory(path).hosts
    path.chmod(0o646)
    with pytest.raises(TrustError) as caught:
        load_inventory(path)
    assert f"{path} is writable by everybody" in caught.value.message
    assert caught.value.hint == f"Run: chmod o-w {path}"


async def test_a_command_is_no_shell_and_its_output_is_cleaned(tmp_path: Path) -> None:
    made = tmp_path / "made"
    hosts = f"""{HEAD}  - {{name: a, wake: [touch, "{made}; false"]}}
  - {{name: b, wake: [sh, -c, "printf 'no \\\\033[31mcard' >&2; exit 7"]}}
  - {{name: c, wake: [no-such-program]}}
  - {{name: d, wake: [sleep, "60"]}}
"""
    power = CommandPower(parse_inventory(hosts, "lab.yaml"), limit_s=0.3)
    assert await power.switch("a", "wake") == ""
    assert (tmp_path / "made; false").exists()
    said = await power.switch("b", "wake")
    assert said.startswith("sh ended with 7: no ")
    assert "\x1b" not in said
    assert "no-such-program" in await power.switch("c", "wake")
    assert "0.3" in await power.switch("d", "wake")
