"""All containers of an engine, not only gpuconsole's: listed, their logs read, commands run in
them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import docker

from gpuconsole.core.engines.host_containers import MOST, HostContainer, Listed
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError
from gpuconsole.remote.docker import logs
from gpuconsole.remote.docker.exec_guard import ExecGuard, new_mark
from gpuconsole.remote.docker.marker_containers import is_lease
from gpuconsole.remote.docker.thread_pool import DockerCalls
from gpuconsole.remote.docker_exec import DockerCommand, made

_NAME, _IMAGE, _STATUS, _COMMAND = 128, 200, 80, 200
"""Letters of each text that are kept."""
_UNREADABLE = ("none",)
"""Drivers of logs that keep nothing: of every other the engine has a copy since Docker 20.10."""


class DockerContainers:
    """The containers of one host. Implements `core.engines.host_containers.ContainerAccess`."""

    def __init__(self, calls: DockerCalls) -> None:
        self._calls = calls
        self._host = calls.host

    async def list(self, *, stopped: bool) -> Listed:
        """List them, the newest first, without leases of devices."""
        return await self._calls.run("listing containers", _list, self._host, stopped)

    async def log(
        self, container: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Give a container's output, or its last lines, as its programs wrote it."""
        doing = f"reading the log of {container[:12]}"
        framed = await self._calls.run(doing, _is_framed, container, self._host)
        frames = logs.Demultiplexer()
        async with contextlib.aclosing(
            self._calls.stream(
                doing,
                lambda client: logs.open_logs(client, container, follow, tail),
            )
        ) as chunks:
            async for chunk in chunks:
                piece = b"".join(frames.feed(chunk)) if framed else chunk
                if piece:
                    yield piece

    async def command(
        self,
        container: str,
        words: Sequence[str],
        *,
        terminal: bool,
        typing: bool,
        user: str = "",
        watched: bool = True,
    ) -> DockerCommand:
        """Make a command ready in a running container; nothing runs before it is started."""
        mark = new_mark()
        started = await self._calls.run(
            f"making a command ready in {container[:12]}",
            made,
            container,
            tuple(words),
            terminal,
            typing,
            user,
            mark,
        )
        guard = ExecGuard(self._calls, container, user, mark)
        return DockerCommand(self._calls, started, guard, terminal=terminal, watched=watched)


def _list(client: docker.APIClient, host: str, stopped: bool) -> Listed:
    items = [item for item in client.containers(all=stopped) if not is_lease(item)]
    return Listed(
        tuple(record(item, host) for item in items[:MOST]), left_out=max(0, len(items) - MOST)
    )


def record(item: Mapping[str, Any], host: str) -> HostContainer:
    """Return what an engine's list says of a container."""
    names = [str(name).lstrip("/") for name in item.get("Names") or ()]
    # A link has a second name, with the other container before it.
    own = next((name for name in names if "/" not in name), names[0] if names else "")
    created = item.get("Created")
    return HostContainer(
        host=host,
        id=clean(str(item.get("Id") or ""), 64),
        name=clean(own, _NAME),
        image=clean(str(item.get("Image") or ""), _IMAGE),
        state=clean(str(item.get("State") or ""), 20).lower(),
        status=clean(str(item.get("Status") or ""), _STATUS),
        command=clean(str(item.get("Command") or ""), _COMMAND),
        created_at=float(created) if isinstance(created, (int, float)) else None,
    )


def _is_framed(client: docker.APIClient, container: str, host: str) -> bool:
    """Return whether an engine frames a container's output; RefusedError where it keeps none."""
    details = client.inspect_container(container)
    driver = ((details.get("HostConfig") or {}).get("LogConfig") or {}).get("Type")
    if driver in _UNREADABLE:
        raise RefusedError(
            "The log cannot be read",
            msg(
                "Docker on {host} keeps no output of {name}: its log driver is `{driver}`.",
                host=host,
                name=clean(str(details.get("Name") or "").lstrip("/"), _NAME),
                driver=driver,
            ),
            "Who started it chose that; see `docker run --log-driver`.",
        )
    return not (details.get("Config") or {}).get("Tty")
