"""An inventory out of an ssh config."""

import os
import stat
from pathlib import Path

import pytest

from gpuconsole.errors import UnreachableError, UsageError
from gpuconsole.remote.inventory import HostEntry, load_inventory, parse_inventory
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.ssh_config import Alias, inventory_text, read_aliases, write_inventory

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


def test_what_init_writes_can_be_read_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "config" / "gpuconsole" / "inventory.yaml"
    before = os.umask(0)
    try:
        write_inventory("version: 1\nhosts:\n  - name: a\n", path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in path.parents[:2]} == {0o700}
    assert load_inventory(path).hosts


def test_names_that_a_shell_would_read_are_no_hosts(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "Host i-0$(id) `id` a;b good\n  HostName $(id)\n  User `id`\n  ProxyJump $(id)\n"
    )
    aliases = read_aliases(path)
    assert [alias.name for alias in aliases] == ["good"]
    (host,) = parse_inventory(inventory_text(aliases, "config"), "init").hosts
    assert (host.address, host.user, host.jump) == ("good", None, None)


@pytest.mark.parametrize("open_file", ["config", "included", "known_hosts"])
async def test_ssh_files_that_others_can_write_are_not_used(open_file: str) -> None:
    folder = Path("~/.ssh").expanduser()
    folder.mkdir(mode=0o700)
    made = folder.parent / "made"
    (folder / "config").write_text("Include included\n")
    (folder / "included").write_text(f'Host *\n  ProxyCommand sh -c "touch {made}; false"\n')
    (folder / "known_hosts").write_text("")
    (folder / open_file).chmod(0o666)
    link = SshLink(HostEntry("a", address="127.0.0.1"))
    with pytest.raises(UnreachableError) as caught:
        await link.connect()
    assert f"{folder / open_file} is writable by everybody" in caught.value.message
    assert not made.exists()
    (folder / open_file).chmod(0o600)
    with pytest.raises(UnreachableError) as caught:
        await link.connect()
    assert "writable" not in caught.value.message
    assert made.exists()
    await link.close()
