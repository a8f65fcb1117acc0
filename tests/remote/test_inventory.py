"""The inventory file: what works as written, and what is refused with its place."""

import json
import re
from pathlib import Path

import pytest

from gpuconsole.core.util import user_dirs
from gpuconsole.errors import DocumentError, UsageError
from gpuconsole.remote import inventory, local_drivers
from gpuconsole.remote.inventory import HostEntry, parse_inventory

MINIMUM = """\
version: 1
defaults:
  user: ops
  port: 22
  identity_file: ~/.ssh/id_ed25519
  known_hosts: ~/.ssh/known_hosts
  docker_socket: /var/run/docker.sock
  image: paddlepaddle/paddle:3.0.0-gpu-cuda11.8-cudnn8.9-trt8.6
  poll_interval: 1.0
hosts:
  - name: a100-01
    address: 10.0.0.11
    labels: {rack: r1, pool: train}
    jump: bastion            # optional
    price_per_hour: 12.0     # optional, per device
  - name: this-machine
    local: true              # no SSH: the same agent and engine through a local process and socket
"""
HEAD = "version: 1\nhosts:\n"


def refused(text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse_inventory(text, "lab.yaml")
    return caught.value


def test_the_documented_minimum_works_as_written() -> None:
    lab = parse_inventory(MINIMUM, "lab.yaml")
    first, second = lab.hosts
    assert first == HostEntry(
        "a100-01",
        address="10.0.0.11",
        user="ops",
        port=22,
        identity_file=Path("~/.ssh/id_ed25519").expanduser(),
        known_hosts=Path("~/.ssh/known_hosts").expanduser(),
        jump="bastion",
        labels={"rack": "r1", "pool": "train"},
        price_per_hour=12.0,
    )
    assert second == HostEntry("this-machine", local=True)
    assert lab.host("a100-01") is first
    assert lab.host("nobody") is None


def test_a_host_wins_over_the_defaults_and_a_bare_name_is_an_ssh_alias() -> None:
    hosts = "hosts:\n  - {name: a, port: 22}\n  - name: b"
    text = "version: 1\ndefaults: {user: ops, port: 2200}\n" + hosts
    a, b = parse_inventory(text, "x").hosts
    assert (a.user, a.port, a.address) == ("ops", 22, "a")
    assert (b.user, b.port, b.address) == ("ops", 2200, "b")


def test_labels_are_words_however_yaml_reads_them() -> None:
    (host,) = parse_inventory(HEAD + "  - {name: a, labels: {gen: 4, fast: true}}", "x").hosts
    assert host.labels == {"gen": "4", "fast": "true"}


def test_the_lab_can_set_its_own_settings() -> None:
    lab = parse_inventory(HEAD + "  - name: a\nlab:\n  memory_threshold: 0.7\n", "x").lab
    assert lab.memory_threshold == 0.7


def test_the_common_jump_host_does_not_jump_through_itself() -> None:
    text = "version: 1\ndefaults: {jump: gate}\nhosts:\n  - name: gate\n  - name: a\n"
    gate, a = parse_inventory(text, "x").hosts
    assert gate.jump is None
    assert a.jump == "gate"


@pytest.mark.parametrize(
    ("body", "place", "words"),
    [
        ("  - name: a\n  - name: a\n", "lab.yaml:4:11", "second host is named 'a'"),
        ("  - {name: a, local: true, address: b}\n", "lab.yaml:3:", "leaves no use for `address`"),
        ("  - {name: a, port: 70000}\n", "lab.yaml:3:", "65535"),
        ("  - {name: a, port: ssh}\n", "lab.yaml:3:", "whole number"),
        ("  - {name: a b}\n", "lab.yaml:3:", "letters, digits"),
        ("  - {name: a, address: -oProxyCommand=x}\n", "lab.yaml:3:", "ssh alias or IP address"),
        ("  - {name: a, docker_socket: docker.sock}\n", "lab.yaml:3:", "absolute path"),
        ("  - {name: a, adress: b}\n", "lab.yaml:3:", "address"),
        ("  - {name: a, jump: b}\n  - {name: b, jump: a}\n", "lab.yaml:3:", "a → b → a"),
        ("  - {name: a, jump: b}\n  - {name: b, local: true}\n", "lab.yaml:3:", "this machine"),
        ("  - {name: a, poll_interval: 0}\n", "lab.yaml:3:", "0.2"),
        ("  []\n", "lab.yaml:", "there are no hosts"),
    ],
)
def test_a_mistake_is_refused_with_its_place(body: str, place: str, words: str) -> None:
    error = refused(HEAD + body)
    assert place in error.message
    assert words in error.message + error.hint


@pytest.mark.parametrize("key", ["address", "jump", "user"])
@pytest.mark.parametrize(
    "value",
    [
        *("i-0$(touch$IFS/tmp/x)", "i-0`id`", "a;id", "a|id", "a&id", "a>x", "a<x", "a'b", 'a"b'),
        *(
            "a\\b",
            "${HOME}",
            "%h",
            "-oProxyCommand=x",
            "a b",
            "a\nb",
            "~root",
            "a/b",
            "(a)",
            "{a,b}",
        ),
        *("*", "a?", "[::1]", "#a", "!a", "a=b", "a,b", "a\u2028b", "", "é", "x" * 300),
    ],
)
def test_what_goes_into_commands_of_the_ssh_config_is_letters(key: str, value: str) -> None:
    """asyncssh puts %h, %n and %r into a ProxyCommand as they are."""
    written = json.dumps({"name": "a", key: value})
    error = refused(f"{HEAD}  - {written}\n")
    assert error.message.startswith("lab.yaml:3:")
    assert f"hosts[0].{key}" in error.message
    assert "expected" in error.message
    assert "letters, digits" in error.message
    defaults = f"version: 1\ndefaults: {json.dumps({key: value})}\nhosts:\n  - name: a\n"
    if key != "address":
        assert refused(defaults).message.startswith("lab.yaml:2:")


@pytest.mark.parametrize(
    "value",
    [
        *("gpu-01.lab.example.org", "i-0abc123", "gpu_1", "10.0.0.1", "::1", "fe80::1%eth0.5"),
        *("2001:db8::7", "::ffff:10.0.0.1", "a", "_x", "example.org."),
    ],
)
def test_names_and_addresses_are_accepted(value: str) -> None:
    (host,) = parse_inventory(
        f"{HEAD}  - {json.dumps({'name': 'a', 'address': value})}\n", "x"
    ).hosts
    assert host.address == value


@pytest.mark.parametrize("value", ["ann", "_apt", "a.b-c_d", "ann@lab.example.org", "LAB+ann", "7"])
def test_names_of_accounts_are_accepted(value: str) -> None:
    (host,) = parse_inventory(f"{HEAD}  - {json.dumps({'name': 'a', 'user': value})}\n", "x").hosts
    assert host.user == value


def test_another_version_is_refused() -> None:
    assert "version" in refused("version: 2\nhosts:\n  - name: a\n").message


def test_the_inventory_is_looked_for_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "inventory.yaml"
    monkeypatch.setattr(user_dirs, "inventory_path", lambda: own)
    given = tmp_path / "given.yaml"
    named = {"GPUCONSOLE_INVENTORY": str(tmp_path / "named.yaml")}
    assert user_dirs.find_inventory(None, {}) is None
    own.write_text("")
    assert user_dirs.find_inventory(None, {}) == own
    assert user_dirs.find_inventory(None, named) == tmp_path / "named.yaml"
    assert user_dirs.find_inventory(given, named) == given


def test_without_inventory_this_machine_opens_where_it_has_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_dirs, "inventory_path", lambda: tmp_path / "none.yaml")
    monkeypatch.setattr(inventory, "has_driver", lambda: False)
    with pytest.raises(UsageError) as caught:
        inventory.open_inventory(None, {})
    assert "gpuconsole demo" in caught.value.hint
    monkeypatch.setattr(inventory, "has_driver", lambda: True)
    (host,) = inventory.open_inventory(None, {}).hosts
    assert host.local
    assert re.fullmatch(r"[A-Za-z0-9][\w.-]*", host.name)


# The labs among them are the simulator's, which reads them by rules of its own.
SITES = [
    path
    for path in sorted((Path(__file__).parents[2] / "inventory").glob("*.yaml"))
    if not path.name.startswith("lab")
]


@pytest.mark.parametrize("path", SITES)
def test_the_example_sites_are_valid(path: Path) -> None:
    # The checkout may be writable by a group: it is code, not an inventory that somebody hands in.
    assert inventory.parse_inventory(path.read_text("utf-8"), path.name).hosts


def test_a_drained_host_says_so_with_the_reason() -> None:
    text = "version: 1\nhosts:\n  - {name: a, drain: true}\n  - {name: b, drain: new fans}\n"
    text += "  - {name: c, drain: false}\n  - {name: d}\n"
    found = inventory.parse_inventory(text, "i.yaml")
    assert [host.drain for host in found.hosts] == [
        "drained in the inventory",
        "drained in the inventory: new fans",
        "",
        "",
    ]


def test_a_machine_with_another_vendors_tool_is_a_lab_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(local_drivers.ctypes, "CDLL", no_library)
    assert inventory.local_inventory() is None
    (tmp_path / "npu-smi").write_text("#!/bin/sh\n")
    (tmp_path / "npu-smi").chmod(0o755)
    assert inventory.local_inventory() is not None


def no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")
