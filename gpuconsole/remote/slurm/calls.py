"""Slurm's commands on a login node, run as constant shell scripts that take arguments.

Nothing is glued into a script. All run with Slurm's messages in English and times as seconds.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, EngineError, UnreachableError
from gpuconsole.remote.inventory import SlurmSection
from gpuconsole.remote.links.protocol import Completed, Link
from gpuconsole.remote.slurm.parse import FIELDS, Picture, read_held, read_nodes, read_rows

NO_FOLDER, NOT_YET = 4, 75
"""Exit codes of our own scripts: the run is not there; something it needs is not there yet."""
TIMEOUT_S = 90.0
"""Slurm's commands try a controller that is away for 9 s each before they give up."""
COMMANDS = 3
"""Commands at once. sshd lets a connection have ten sessions (MaxSessions): the other ones are for
logs that are followed, for results, and for the look at the whole cluster."""
_PATH = '[ -z "$GPUCONSOLE_SLURM" ] || PATH="$GPUCONSOLE_SLURM:$PATH"; '
_PICTURE = (
    'scontrol -d -o show nodes || exit; echo "$1"; '
    'squeue -h -r -a -o "$2" || exit; echo "$1"; scontrol -d -o show jobs'
)
_AWAY = re.compile(
    r"Unable to contact slurm controller|[Cc]onnection (refused|timed out)|Socket timed out"
    r"|Zero Bytes were transmitted|standby mode|Unable to establish control"
    r"|Network is unreachable|[Mm]unge|Unable to contact|temporarily un"
)


class SlurmCalls:
    """Runs commands of one cluster."""

    def __init__(self, link: Link, host: str, settings: SlurmSection) -> None:
        self.host = host
        self.link = link
        self._slots = asyncio.Semaphore(COMMANDS)
        self._env = ["env", "LC_ALL=C", "SLURM_TIME_FORMAT=%s"]
        self._env.append(f"GPUCONSOLE_SLURM={settings.commands or ''}")
        if settings.conf:
            self._env.append(f"SLURM_CONF={settings.conf}")

    def argv(self, script: str, *words: str) -> list[str]:
        """Return the argument list that runs a script with its arguments."""
        return [*self._env, "sh", "-c", _PATH + script, "gpuconsole", *words]

    async def run(self, script: str, *words: str, stdin: bytes = b"") -> Completed:
        """Run a script, however it ends; UnreachableError when it does not in its time. Its effect
        is then unknown: it is checked again, and no job fails for that."""
        argv = self.argv(script, *words)
        try:
            async with self._slots:
                return await self.link.run(argv, stdin=stdin, timeout=TIMEOUT_S)
        except EngineError as error:
            raise UnreachableError("Slurm is slow", error.message, error.hint) from error

    async def ask(self, script: str, *words: str, doing: str, stdin: bytes = b"") -> str:
        """Run a script that has to succeed; UnreachableError when Slurm's controller is away,
        EngineError with its own words when it refuses."""
        done = await self.run(script, *words, stdin=stdin)
        if done.exit_status != 0:
            raise self.fault(done.exit_status, done.stderr, doing)
        return done.stdout.decode("utf-8", "replace")

    async def picture(self) -> Picture:
        """Return nodes, jobs and who has which device."""
        nonce = secrets.token_hex(16)
        text = await self.ask(_PICTURE, nonce, "|".join(FIELDS), doing="asking for its nodes")
        parts = text.split(nonce + "\n")
        if len(parts) != 3:
            raise EngineError(
                "Slurm is not understood", msg("{host}: its answer is cut short.", host=self.host)
            )
        # A large cluster's answer takes a tenth of a second to read.
        return await asyncio.to_thread(_picture, *parts)

    def fault(self, status: int, errors: bytes, doing: str) -> ConsoleError:
        """Return what went wrong, for a person."""
        text = errors.decode("utf-8", "replace")
        if _AWAY.search(text):
            return controller_away(self.host, text)
        if status == 127:
            return EngineError(
                "Slurm's commands are not there",
                msg("{host}: {value}", host=self.host, value=clean(_last(text), 200)),
                "Name their folder with `slurm: {commands: /opt/slurm/bin}` in the inventory.",
            )
        if status == NOT_YET:
            return UnreachableError(
                "Slurm is busy",
                msg("{host} is not ready for {doing} yet.", host=self.host, doing=doing),
            )
        reason = clean(_last(text), 300) or f"exit status {status}"
        return EngineError(
            "Slurm refuses",
            msg("{host}, {doing}: {reason}", host=self.host, doing=doing, reason=reason),
        )


def _picture(nodes_text: str, rows_text: str, jobs_text: str) -> Picture:
    nodes, rows = read_nodes(nodes_text), read_rows(rows_text)
    return Picture(nodes, rows, read_held(jobs_text, rows, nodes))


def is_away(text: str) -> bool:
    """Tell whether Slurm's commands say that its controller does not answer."""
    return bool(_AWAY.search(text))


def controller_away(host: str, text: str) -> UnreachableError:
    """Return the error for a controller that does not answer; the jobs run on without it."""
    return UnreachableError(
        "Slurm does not answer",
        msg("{host}: {value}.", host=host, value=clean(_last(text), 200)),
        "Its controller (slurmctld) is down or out of reach; running jobs are not harmed.",
    )


def words_of(names: Sequence[str]) -> str:
    """Return names as a person lists them, few of them."""
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


def _last(text: str) -> str:
    """Return the line that says most: Slurm's last, without the command's own prefix."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return re.sub(r"^\w+: (error|fatal): ", "", lines[-1]) if lines else ""
