"""Network filesystems are known by their mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.errors import JournalError
from gpuconsole.state import Journal, filesystem

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:40 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
41 40 8:2 / /home/local rw - xfs /dev/sdb1 rw
42 22 0:42 / /mnt/lab\040share rw - cifs //nas/lab rw
43 22 0:43 / /mnt/ssh rw - fuse.sshfs ada@host: rw
44 22 0:44 / /mnt/gocrypt rw - fuse.gocryptfs /x rw
45 22 0:45 / /mnt/windows rw - 9p drvfs rw
46 22 0:46 / /over rw - nfs a:/b rw
47 46 0:47 / /over rw - tmpfs tmpfs rw
garbage
48 22 - nothing
"""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/var/lib/x", None),
        ("/home/ada/.local/state", ("/home", "nfs4")),
        ("/home/local/ada", None),
        ("/homework/x", None),
        ("/mnt/lab share/x", ("/mnt/lab share", "cifs")),
        ("/mnt/ssh", ("/mnt/ssh", "fuse.sshfs")),
        ("/mnt/gocrypt/x", None),
        ("/mnt/windows/c", ("/mnt/windows", "9p")),
        ("/over/x", None),
    ],
)
def test_the_deepest_and_latest_mount_decides(
    folder: str, expected: tuple[str, str] | None
) -> None:
    assert filesystem.network_mount(Path(folder), MOUNTS) == expected


def test_a_journal_on_a_network_filesystem_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(f"1 0 0:1 / {tmp_path.resolve()} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTINFO", mountinfo)
    with pytest.raises(JournalError, match="nfs4") as refused:
        Journal(tmp_path / "state", clock=lambda: 0.0)
    assert "--state" in refused.value.hint
    assert refused.value.exit_code == 2
