"""An inventory out of an ssh config."""

from pathlib import Path

import pytest

from gpuconsole.errors import UsageError
from gpuconsole.remote.inventory import parse_inventory
from gpuconsole.remote.sshconfig import Alias, inventory_text, read_aliases, write_inventory

CONFIG = """\
Include conf.d/*.conf
# a comment
Host a100-* !a100-99
    User trainer

Host a100-01 a100-02
  HostName 10.0.0.1
  Port=2222
  IdentityFile "~/.ssh/lab key"
  ProxyJump bastion

Host bastion
  HostName gate.example.org

Match host a100-01 exec "false"
  User never

Host 42
Host *
  User everyone
  Port 99
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "lab.conf").write_text(
        "Host v100\n  HostName %h.lab\n  ProxyJump none\n"
    )
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return path


def test_names_come_with_the_first_value_found(config: Path) -> None:
    found = {alias.name: alias for alias in read_aliases(config)}
    assert list(found) == ["v100", "a100-01", "a100-02", "bastion", "42"]
    assert found["a100-01"] == Alias(
        "a100-01", "10.0.0.1", "trainer", 2222, "~/.ssh/lab key", "bastion"
    )
    assert found["v100"] == Alias("v100", "v100.lab", "everyone", 99)


def test_the_inventory_is_valid_and_leaves_jump_hosts_out(config: Path) -> None:
    text = inventory_text(read_aliases(config), str(config))
    hosts = parse_inventory(text, "init").hosts
    assert [(host.name, host.address, host.jump) for host in hosts] == [
        ("v100", "v100", None),
        ("a100-01", "a100-01", "bastion"),
        ("a100-02", "a100-02", "bastion"),
        ("42", "42", None),
    ]
    assert "# trainer@10.0.0.1:2222" in text


def test_an_include_that_includes_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Host a\nInclude config\n")
    assert [alias.name for alias in read_aliases(path)] == ["a"]


@pytest.mark.parametrize("text", ["", "Host *\n User x\n", "Host a?c\n", "\x00\xff\n"])
def test_no_host_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, "latin-1")
    with pytest.raises(UsageError, match="names no host"):
        inventory_text(read_aliases(path), str(path))


def test_a_missing_config_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_aliases(tmp_path / "config")


def test_an_inventory_is_never_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "new" / "inventory.yaml"
    write_inventory("one", path)
    with pytest.raises(UsageError, match="already there"):
        write_inventory("two", path)
    assert path.read_text() == "one"
    write_inventory("two", path, force=True)
    assert path.read_text() == "two"
