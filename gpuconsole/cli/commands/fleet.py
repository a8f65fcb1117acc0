"""The hosts: a picture of them, a test of each, and a first inventory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive, first_frames
from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.units import iso_utc
from gpuconsole.errors import ReadOnlyError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

_PICTURE_WAIT_S = 5.0


@click.command()
@common
def status() -> int:
    """Show one picture of the fleet."""

    async def work(session: Session) -> tuple[FleetSnapshot, float]:
        return await first_frames(session, _PICTURE_WAIT_S), session.now()

    snapshot, now = drive(work)
    if options().as_json:
        print_document(_picture(snapshot, now))
    else:
        from gpuconsole.cli import views

        show(*views.fleet(snapshot, now))
    return 0


def _picture(snapshot: FleetSnapshot, now: float) -> dict[str, Any]:
    return {
        "taken_at": iso_utc(snapshot.taken_at),
        "simulated": snapshot.simulated,
        "hosts": [_host(host, now) for host in snapshot.hosts],
    }


def _host(host: Host, now: float) -> dict[str, Any]:
    age = host.age_s(now)
    return {
        "name": host.name,
        "state": host.state.value,
        "age_s": None if age is None else round(age, 3),
        "error": host.error or None,
        "address": host.address or None,
        "labels": dict(host.labels),
        "devices": [_device(device) for device in host.devices],
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "index": device.index,
        "model": device.model,
        "backend": device.backend,
        "memory_total_mib": device.memory_total_mib,
        "memory_used_mib": device.memory_used_mib,
        "utilization": device.utilization,
        "temperature_c": device.temperature_c,
        "power_w": device.power_w,
        "power_limit_w": device.power_limit_w,
        "throttle": list(device.throttle),
        "numa_node": device.numa_node,
        "lost": device.lost,
        "error": device.error or None,
        "processes": [
            {
                "pid": process.pid,
                "user": process.user,
                "memory_mib": process.memory_mib,
                "command": process.command,
                "container_id": process.container_id,
            }
            for process in device.processes
        ],
    }


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write; else your own inventory, or what --inventory says.",
)
@click.option(
    "--ssh-config",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("~/.ssh/config"),
    show_default=True,
    metavar="FILE",
    help="What to read.",
)
@click.option("--force", is_flag=True, help="Replace an inventory that is there.")
@common
def init(output: Path | None, ssh_config: Path, force: bool) -> int:
    """Write an inventory from your ssh config."""
    from gpuconsole.remote.inventory import inventory_path, parse_inventory
    from gpuconsole.remote.sshconfig import inventory_text, read_aliases, write_inventory

    if options().read_only:
        raise ReadOnlyError(
            "Read-only", "init writes a file, and --read-only forbids it.", "Leave it out."
        )
    target = (output or options().inventory or inventory_path()).expanduser()
    text = inventory_text(read_aliases(ssh_config.expanduser()), str(ssh_config))
    hosts = [host.name for host in parse_inventory(text, str(target)).hosts]
    write_inventory(text, target, force=force)
    if options().as_json:
        print_document({"inventory": str(target), "hosts": hosts})
    else:
        print(target)
        note(f"{len(hosts)} hosts. Remove what has no GPUs, then run: gpuconsole check")
    return 0
