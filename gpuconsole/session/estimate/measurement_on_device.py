"""Measuring a script on an idle device: leased like a job, for a minute at most."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.wording import msg
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import attempt_key
from gpuconsole.session.estimate.measurement_on_host import (
    Asked,
    in_container,
    in_turn,
    measuring_job,
    ready_engine,
    shut_spec,
)
from gpuconsole.session.estimate.measurement_run import with_facts

WALL_S = 60.0
"""Longest time on the device."""
MEMORY_SHARE = 0.5
"""Of the device's memory the measurement may take so much: its batches are small."""


async def measure_on_device(context: Context, host: Host, device: Device, asked: Asked) -> bytes:
    """Measure on a device of a host and return the probe's document, with the card and its driver.
    Container and lease are gone afterwards.

    LeaseTakenError where another console was faster; the errors of
    `measurement_on_host.measure_on_host`.
    """
    engine = await ready_engine(context, host, asked)
    limit = (device.memory_total_mib or 0.0) * MEMORY_SHARE
    limited = replace(asked, request={**asked.request, "limit_mib": int(limit)})

    async def measure() -> bytes:
        job = measuring_job(context, asked, host, device)
        spec = await shut_spec(context, engine, host, job, asked, WALL_S)
        lease = Lease(
            device.uuid, job.id, attempt_key(job.id, 1), job.user, context.journal.id,
            context.clock.now(),
        )  # fmt: skip
        asked.progress(
            0.0, msg("taking device {index} of {host}", index=device.index, host=host.name)
        )
        return await in_container(context, engine, host, spec, limited, WALL_S, lease)

    result = await in_turn(context, host, asked, measure)
    facts = {"backend": device.backend, "card": device.model, "driver": host.facts.driver_version}
    return with_facts(result, facts)
