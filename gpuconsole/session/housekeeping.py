"""What a session does beside launching jobs, while it is the one that dispatches."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from gpuconsole.core.incidents import Incident
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.dependants import Dependants
from gpuconsole.session.dispatch.limits import Limits
from gpuconsole.session.dispatch.oom_retry import Retrying
from gpuconsole.session.dispatch.stop_rules import StopRules
from gpuconsole.session.dispatch.tuning import Tuning
from gpuconsole.session.interactive.idle_stop import IdleStop
from gpuconsole.session.messages.service import Messages
from gpuconsole.session.report.use_meter import UseMeter
from gpuconsole.session.restore.journal_backups import Backing
from gpuconsole.session.services.controller import ServiceController
from gpuconsole.session.submit.secrets import Forgetting

if TYPE_CHECKING:
    from gpuconsole.session.elastic.autoscaler import ElasticHosts, Waking


class Housekeeping:
    """Backups, messages, limits, sweeps, services and the rest of the dispatcher's housekeeping."""

    def __init__(
        self,
        context: Context,
        retrying: Retrying,
        waking: Waking | None,
        incidents: Callable[[], Collection[Incident]],
    ) -> None:
        self.messages = Messages(context)
        self._retrying = retrying
        self._waking = waking
        self._idle_stop = IdleStop(context)
        self._forgetting = Forgetting(context)
        self._limits = Limits(context, incidents)
        self._stop_rules = StopRules(context)
        self._tuning = Tuning(context, retrying.preflight)
        self._services = ServiceController(context)
        self._dependants = Dependants(context)
        self._backing = Backing(context)
        self._meter = UseMeter(context)

    def look(self, epoch: int) -> None:
        """Begin what is due; called about once a second. `epoch` is the dispatcher's."""
        self._backing.look()
        self._retrying.look(epoch)
        self._forgetting.look()
        self.messages.look()
        self._limits.look(epoch)
        self._idle_stop.look(epoch)
        self._stop_rules.look(epoch)
        self._tuning.look(epoch)
        self._services.look(epoch)
        self._dependants.look(epoch)
        if self._waking is not None:
            self._waking.look()
        self._meter.look(epoch)

    async def close(self) -> None:
        """End what is under way."""
        await self._idle_stop.close()
        self._meter.close()
        await self._backing.close()
        if self._waking is not None:
            await self._waking.close()
        await self.messages.close()
        await self._retrying.close()
        await self._stop_rules.close()
        await self._tuning.close()
        await self._services.close()


def elastic_hosts(context: Context) -> ElasticHosts | None:
    """Return what follows the hosts that sleep and wake; None where the inventory has none."""
    if not context.power.hosts:
        return None
    # Few labs have such hosts: this room is loaded for them alone.
    from gpuconsole.session.elastic.autoscaler import ElasticHosts

    return ElasticHosts(context)
