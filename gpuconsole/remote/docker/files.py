"""Files into a container and out of it, through the engine."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import re
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Mapping
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import IO, Any

import docker

from gpuconsole.core.containers import LABEL_PREFIX
from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import Blame, EngineError, UsageError
from gpuconsole.remote.transfer.archives import Intake, Readable, packed
from gpuconsole.remote.transfer.packed_project import require_harmless
from gpuconsole.remote.transfer.small_files import ARCHIVE_BYTES, small_files

_JOB = LABEL_PREFIX + "job"
_LINK = 1 << 27
"""The bit of a link in a file's mode, as Go writes modes down."""


def rewrite(
    bundle: Path,
    archive: IO[bytes],
    target: str,
    user: str,
    *,
    read_only: bool = False,
    mounted: Collection[PurePosixPath] = (),
) -> None:
    """Write a bundle again into `archive`, below `target` and all owned by `user`, and rewind.

    `user` is `uid:gid`; anything else means root. With `read_only` all is root's, and every user
    may read and none may write. What lies in a folder of `mounted` is left out: a mount hides it,
    and the engine would write it into the host's folder as root. UsageError when the bundle cannot
    be read.
    """
    uid, gid = (0, 0) if read_only else _owner(user)
    try:
        with (
            tarfile.open(bundle, "r:*") as old,
            tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as new,
        ):
            folder = PurePosixPath(target).relative_to("/")
            folders = {*folder.parents}
            if target == "/":
                # The folder that it is unpacked in becomes the user's, too.
                new.addfile(_owned(_directory("."), uid, gid, read_only=read_only))
                folders.add(folder)
            links: set[PurePosixPath] = set()
            for member in old:
                require_harmless(member, links)
                moved = _owned(copy.copy(member), uid, gid, read_only=read_only)
                moved.name = str(folder / member.name)
                if any(
                    PurePosixPath("/", moved.name).is_relative_to(mounted_folder)
                    for mounted_folder in mounted
                ):
                    continue
                # A folder without an entry of its own would be made as root's.
                for parent in reversed(PurePosixPath(moved.name).parents):
                    if parent not in folders:
                        folders.add(parent)
                        entry = _directory(str(parent))
                        new.addfile(_owned(entry, uid, gid, read_only=read_only))
                new.addfile(moved, old.extractfile(member) if member.isreg() else None)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise UsageError(
            "The packed project cannot be read",
            msg("{bundle}: {error}", bundle=bundle, error=error),
            "Submit the job again.",
        ) from error
    archive.seek(0)


def mounted_folders(client: docker.APIClient, details: Mapping[str, Any]) -> set[PurePosixPath]:
    """Return the folders of a created container that are folders of the host.

    UsageError where a writable one is reached through a link of the image: it would be unknown then
    what else of the container belongs to the host. The job's own folders are not looked at.
    """
    mounts = [mount for mount in details.get("Mounts") or () if mount.get("Type") == "bind"]
    job = ((details.get("Config") or {}).get("Labels") or {}).get(_JOB, "")
    own = {job, f"{job}.checkpoint"}
    for mount in mounts:
        folder = PurePosixPath(mount["Destination"])
        if not mount.get("RW") or PurePosixPath(mount.get("Source", "")).name in own:
            continue
        for part in (folder, *folder.parents[:-1]):
            if _is_link(client, str(details["Id"]), part):
                raise UsageError(
                    "A mount leads through a link",
                    msg(
                        "{value} is a link in the image, so {value2} would be mounted elsewhere.",
                        value=clean(str(part), 200),
                        value2=clean(str(folder), 200),
                    ),
                    "Mount it at a path that is none in the image.",
                )
    return {PurePosixPath(mount["Destination"]) for mount in mounts}


def _is_link(client: docker.APIClient, container: str, path: PurePosixPath) -> bool:
    url = f"{client.base_url}/v{client.api_version}/containers/{container}/archive"
    answer = client.head(url, params={"path": str(path)}, timeout=client.timeout)
    if answer.status_code == HTTPStatus.NOT_FOUND:
        return False
    try:
        stat = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
        return bool(int(stat["mode"]) & _LINK)
    except (KeyError, TypeError, ValueError):
        # An answer without words: the engine cannot open a container with these mounts.
        raise EngineError(
            "A mount cannot be made",
            msg(
                "The engine cannot tell what {value} of the container is.",
                value=clean(str(path), 200),
            ),
            "Mount folders at paths that are folders in the image, or none at all.",
            blame=Blame.PLACE,
        ) from None


def restore(
    client: docker.APIClient, container: str, archive: Readable, target: str, limits: TransferLimits
) -> LeftOut:
    """Unpack a checkpoint that another host has sent into a folder of a created container, all
    owned by the container's user; returns what of it was left out."""
    uid, gid = _owner(client.inspect_container(container)["Config"].get("User") or "")
    intake = Intake("Checkpoint files", limits)
    client.put_archive(container, target, packed(intake.entries(archive, root=target), uid, gid))
    return intake.left_out


def read_files(client: docker.APIClient, container: str, folder: str) -> dict[str, bytes]:
    """Return the small regular files that lie in a folder of a container, by name."""
    try:
        chunks, _ = client.get_archive(container, folder)
    except docker.errors.NotFound:
        return {}
    with contextlib.closing(chunks), tempfile.TemporaryFile() as archive:
        for chunk in chunks:
            archive.write(chunk)
            if archive.tell() > ARCHIVE_BYTES:
                return {}
        archive.seek(0)
        return small_files(archive)


def _owner(user: str) -> tuple[int, int]:
    """Return the numbers of a container's user; anything else than `uid:gid` means root."""
    owner = re.fullmatch(r"(\d+)(?::(\d+))?", user)
    return (int(owner[1]), int(owner[2] or owner[1])) if owner else (0, 0)


def _directory(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    return entry


def _owned(
    entry: tarfile.TarInfo, uid: int, gid: int, *, read_only: bool = False
) -> tarfile.TarInfo:
    entry.uid, entry.gid, entry.uname, entry.gname = uid, gid, "", ""
    if read_only:
        entry.mode = 0o555 if entry.isdir() or entry.mode & 0o111 else 0o444
    return entry
