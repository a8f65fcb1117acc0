"""The engine's own words about containers and itself, read into the console's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpuconsole.core.containers import ContainerStatus, EngineInfo
from gpuconsole.core.text import clean

_ENDED = ("exited", "dead")


def engine_time(timestamp: str) -> float:
    """Return an engine's time (RFC 3339, up to nine decimals) in seconds since the epoch."""
    whole, dot, rest = timestamp.replace("Z", "+00:00").partition(".")
    if dot:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        whole += f".{rest[:digits][:6]:0<6}{rest[digits:]}"
    return datetime.fromisoformat(whole).timestamp()


def container_status(details: Mapping[str, Any]) -> ContainerStatus:
    """Return a container's status from an `inspect` document."""
    state = details["State"]
    ended = state["Status"] in _ENDED
    return ContainerStatus(
        id=details["Id"],
        name=details["Name"].lstrip("/"),
        state=state["Status"],
        labels=details["Config"].get("Labels") or {},
        exit_code=state["ExitCode"] if ended else None,
        oom_killed=bool(state.get("OOMKilled")),
        error=clean(state.get("Error") or ""),
        created_at=_moment(details["Created"]),
        started_at=_moment(state["StartedAt"]),
        ended_at=_moment(state["FinishedAt"]) if ended else None,
    )


def engine_info(version: Mapping[str, Any], info: Mapping[str, Any], hook: bool) -> EngineInfo:
    """Return what an engine says about itself.

    `hook` tells whether the NVIDIA toolkit's hook was seen on the host: with it an engine serves
    GPU requests even where no runtime of that name is registered.
    """
    runtimes = tuple(sorted(info.get("Runtimes") or {}))
    offered = (str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ())
    has_gpu_runtime = "nvidia" in runtimes or any(
        name.startswith("nvidia.com/gpu") for name in offered
    )
    name = "podman " if is_podman(version) else ""
    return EngineInfo(
        version=name + str(version.get("Version", "")),
        runtimes=runtimes,
        gpu_runtime=has_gpu_runtime or hook,
        architecture=str(info.get("Architecture", "")),
    )


def is_podman(version: Mapping[str, Any]) -> bool:
    """Tell Podman's imitation from Docker: it drops requests for GPUs without a word."""
    parts = version.get("Components") or ()
    return any("podman" in str(part.get("Name", "")).lower() for part in parts)


def _moment(timestamp: str) -> float | None:
    # Docker writes the year 1 for "not yet".
    return None if timestamp.startswith("0001-") else engine_time(timestamp)
