"""A simulated container: created, running, exited, as the lab's clock says."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

from gpuconsole.core.containers import LABEL_PREFIX, ContainerSpec, ContainerStatus
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.simulated_lab.clock import LabTime
from gpuconsole.simulated_lab.container_script import STARTUP_S, Plan, context_mib
from gpuconsole.simulated_lab.load_curves import Load
from gpuconsole.simulated_lab.terminal import SimulatedTerminal

_TERMINATED = 143
"""Exit code of a process that SIGTERM ended: 128 + 15."""


@dataclass(slots=True)
class SimulatedContainer:
    """One container. Times are lab seconds; what it reports is on the console's clock."""

    id: str
    spec: ContainerSpec
    time: LabTime
    created: float
    fault: str = ""
    plan: Plan | None = None
    started: float | None = None
    stopped: float | None = None
    terminal: SimulatedTerminal | None = None
    """Of a session: what it keeps."""

    @property
    def ended(self) -> float | None:
        """When it exited or will exit, in lab seconds; None before it is started."""
        if self.started is None or self.plan is None:
            return None
        natural = self.started + self.plan.duration_s
        return natural if self.stopped is None else min(natural, self.stopped)

    def state_at(self, now: float) -> str:
        """Return Docker's word for its state."""
        ended = self.ended
        if ended is None:
            return "created"
        return "running" if now < ended else "exited"

    def exit_code(self) -> int | None:
        """Return the exit code it has or will have."""
        if self.plan is None or self.started is None:
            return None
        if self.terminal is not None and self.terminal.over:
            return 0
        killed = self.stopped is not None and self.stopped < self.started + self.plan.duration_s
        return _TERMINATED if killed else self.plan.exit_code

    def status(self, now: float) -> ContainerStatus:
        """Return what the engine would report at lab time `now`."""
        state, ended = self.state_at(now), self.ended
        exited = state == "exited"
        return ContainerStatus(
            id=self.id,
            name=self.spec.name,
            state=state,
            labels=dict(self.spec.labels),
            exit_code=self.exit_code() if exited else None,
            created_at=self.time.console(self.created),
            started_at=None if self.started is None else self.time.console(self.started),
            ended_at=self.time.console(ended) if exited and ended is not None else None,
        )

    def log(self, since: int, now: float) -> list[str]:
        """Return the log's lines from number `since` on that are written by lab time `now`."""
        if self.plan is None or self.started is None or self.ended is None:
            return []
        seen = min(now, self.ended)
        lines = self.plan.lines(since, seen - self.started, self.time.speed)
        if now < self.ended:
            return lines
        written = 1 + self.plan.step_at(seen - self.started)
        return lines + self._farewell()[max(0, since - written) :]

    def _farewell(self) -> list[str]:
        assert self.plan is not None
        code = self.exit_code()
        if self.plan.shell:
            return []
        if code == _TERMINATED:
            return ["SIGTERM received, stopping"]
        if self.plan.last_words:
            return self.plan.last_words.split("\n")
        return ["done; results written"]

    def load(self) -> Load | None:
        """Return what this container does to each of its devices; None before it is started."""
        if self.plan is None or self.started is None or self.ended is None:
            return None
        mark = int(self.id[:8], 16)
        at_times = self.plan.shell or self.plan.serves
        return Load(
            start=self.started,
            end=self.ended,
            # Who types and who asks leave the device idle now and then.
            mean=(24.0 if at_times else 84.0) + mark % 9,
            amplitude=(20.0 if at_times else 3.0) + mark % 4,
            period_s=18.0 + mark % 17,
            phase=mark % 6,
            memory_mib=self.plan.need_mib,
            fill_s=STARTUP_S + 2 * self.plan.step_s,
            pid=2000 + mark % 90000,
            user=self.spec.labels.get(LABEL_PREFIX + "user", ""),
            command=clean(" ".join(self.spec.command), 200),
            container_id=self.id,
        )

    def reports(self, now: float) -> dict[str, bytes]:
        """Return the files that a reporter in it would have written by lab time `now`: what
        Paddle's allocator holds is what the device shows of it, without the context."""
        plan, started, ended = self.plan, self.started, self.ended
        steps = 0
        if plan is not None and started is not None and ended is not None:
            steps = plan.step_at(min(now, ended) - started)
        if plan is None or not steps or plan.shell or plan.serves:
            return {}
        held = max(0.0, plan.need_mib - context_mib(self.spec)) * MIB
        step_s = plan.step_s / self.time.speed
        said = {"steps": steps, "step_s": step_s, "allocated": held, "reserved": held}
        return {"1.json": json.dumps(said).encode()}

    def results(self, now: float) -> bytes:
        """Return the results folder as a tar: a summary that says it is simulated."""
        plan = self.plan
        done = plan.step_at(min(now, self.ended or 0.0) - (self.started or 0.0)) if plan else 0
        summary = {
            "simulated": True,
            "exit_code": self.exit_code() if self.state_at(now) == "exited" else None,
            "steps": done,
            "final_loss": round(plan.loss(done), 4) if plan and done else None,
            "peak_mib": plan.need_mib if plan else None,
        }
        content = (json.dumps(summary, indent=2) + "\n").encode()
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            member = tarfile.TarInfo("./summary.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return stream.getvalue()


def container_id(host: str, name: str, number: int) -> str:
    """Return an id like Docker's, the same for the same lab and the same history."""
    return hashlib.sha256(f"{host}/{name}/{number}".encode()).hexdigest()
