"""What a job gets by the kind of its devices: the default image, their vendor, and the vendor's
runtime if the engine has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Engine, Hosts
from gpuconsole.core.fleet import Backend, Host
from gpuconsole.core.jobs import Attempt, Task
from gpuconsole.core.vendors import Vendor, vendor_of
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError


def by_kind(
    hosts: Hosts, images: Mapping[Backend, str], usual: str, default_image: Callable[[str], str]
) -> Callable[[str], str]:
    """Return the default image for the tasks of a host.

    It is the host's own; if the inventory names none (then `default_image` returns `usual`, built
    for CUDA) the lab's for the kind of devices there, and "" if the lab has none for that kind.
    """

    def image_of(name: str) -> str:
        image = default_image(name)
        if image != usual:
            return image
        host = hosts.snapshot().host(name)
        kind = host.devices[0].backend if host is not None and host.devices else "gpu"
        return images.get(kind, usual if kind == "gpu" else "")

    return image_of


def maker_of(task: Task, attempt: Attempt, host: Host | None) -> Vendor | None:
    """Return who made an attempt's devices; None for a job without devices."""
    if task.backend == "cpu" or not attempt.device_uuids:
        return None
    devices = () if host is None else host.devices
    mine = (device for device in devices if device.uuid in attempt.device_uuids)
    return vendor_of(task.backend, next((device.vendor for device in mine), ""))


async def runtime_of(vendor: Vendor | None, engine: Engine) -> str:
    """Return the maker's own runtime where the engine has it, else "". EngineError."""
    if vendor is None or not vendor.runtime:
        return ""
    info = await engine.info()
    return vendor.runtime if vendor.runtime in info.runtimes else ""


def require_confined(vendor: Vendor | None, settings: LabSettings) -> None:
    """Raise UsageError for devices that only a privileged container sees, unless the lab allows
    those."""
    if vendor is not None and vendor.privileged and not settings.allow_privileged:
        raise UsageError(
            "Container would be privileged",
            msg(
                "Devices of {title} are known to work in privileged containers alone, and such a "
                "container has all rights of its host's root.",
                title=vendor.title,
            ),
            "Set `allow_privileged: true` in the lab's settings if that is meant.",
        )
