"""The folders of a job on a host: its results and its checkpoint.

    results/JOB              what the script leaves; mounted as /results
    results/JOB.checkpoint its checkpoint, the same for all attempts; mounted at the path of the
    task results/JOB.before the checkpoint that it had while a newer one arrives from another host

The folder `results` itself is never mounted, so a container can replace none of these. What lies
in them is the container's: nothing here follows a link there. After a folder is entered the kernel
must confirm that it is that folder, and tar and find follow no links.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Protocol

from gpuconsole.core.containers import HostAccount, ResultFile
from gpuconsole.core.text import clean
from gpuconsole.core.vendors import VENDORS
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, RefusedError, UsageError
from gpuconsole.remote.links.protocol import Completed, Link

DEFAULT = "$HOME/.local/state/gpuconsole/results"
MOST = 2000
"""Files that are listed of a job."""
NODES = " ".join(sorted(
    {
        f"{node.format('[0-9]*')}{'/*' if node == '/dev/dri' else ''}"
        for vendor in VENDORS.values()
        for node in (*vendor.nodes, *vendor.shared)
    }
))  # fmt: skip
"""Patterns of all makers' nodes, for a shell."""
_GONE, _LINK = 4, 5
"""Exit codes of the scripts: there is no such folder; something else is in its place."""
_RIGHTS = "Look at the rights of ~/.local/state on the host, and at its free space."
_LOST_PATH = "A command was not found: look at PATH in the account's start-up files on the host."
_OWNER = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

# Constant scripts that take arguments: nothing is glued into them. The first argument is the
# folder `results`, the second the job.
_COMMON = """
base=${1:-$HOME/.local/state/gpuconsole/results}
job=$2
shift 2
is_folder() { [ ! -L "$1" ] && [ -d "$1" ]; }
is_there() { [ -L "$1" ] || [ -e "$1" ]; }
enter() {
  at=$(pwd -P)
  is_folder "$1" && cd -P -- "./$1" && [ "$(pwd -P)" = "${at%/}/$1" ] || exit 5
}
adopt() {
  if is_there "$job.checkpoint" || ! is_there "$job/checkpoint"; then return; fi
  is_folder "$job" && is_folder "$job/checkpoint" || exit 5
  mv -- "$job/checkpoint" "$job.checkpoint" || exit
  is_folder "$job.checkpoint" || exit 5
}
clear() { [ ! -e "$1" ] || chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }
"""
"""Earlier versions kept the checkpoint in the results, where a script could put a link in its
place: it is moved to where no container reaches, and looked at there."""

_PREPARE = """
umask 077
mkdir -p -- "$base" && cd -P -- "$base" && mkdir -p -- "$job" || exit
if [ -n "$1" ]; then
  adopt
  if is_folder "$job.before"; then
    clear "$job.checkpoint" && mv -- "$job.before" "$job.checkpoint" || exit
  fi
  mkdir -p -- "$job.checkpoint" || exit
  (enter "$job.checkpoint") || exit
fi
if [ -n "$3" ]; then
  [ "$(id -u)" = 0 ] || { echo "only root can give them to user $3" >&2; exit 1; }
  for folder in "$job" "$job.checkpoint"; do
    ! is_folder "$folder" || (enter "$folder" && chown -- "$3" .) || exit
  done
  echo "${3%:*}"; echo "${3#*:}"
else
  id -u && id -g
fi && (enter "$job" && pwd -P) || exit
for node in $2; do test -c "$node" && stat -c %g "$node"; done | sort -u | tr '\\n' ' '
echo
"""
_MAKE_WAY = """
umask 077
cd -P -- "$base" || exit
(enter "$job.checkpoint") || exit
owner=$(stat -c %u:%g -- "$job.checkpoint") || exit
if is_there "$job.before"; then
  clear "$job.checkpoint" || exit
else
  mv -- "$job.checkpoint" "$job.before" || exit
fi
mkdir -- "$job.checkpoint" || exit
[ "$(id -u)" != 0 ] || (enter "$job.checkpoint" && chown -- "$owner" .)
"""
"""Where jobs run as their users the folder is theirs: the account is root there, which alone can
give it to them."""
_ARRIVED = 'cd -P -- "$base" && clear "$job.before"'
_RESULTS = """
cd -P -- "$base" 2>/dev/null && is_there "$job" || exit 4
(enter "$job") && echo "$job"
"""
_CHECKPOINT = """
cd -P -- "$base" 2>/dev/null || exit 4
[ -z "$1" ] || adopt
for name in "$job.before" "$job.checkpoint"; do
  if is_there "$name"; then (enter "$name") && echo "$name"; exit; fi
done
exit 4
"""
_PACK = """
cd -P -- "$base" && enter "$job" || exit
case $(tar --version 2>/dev/null) in
  *GNU*) tar --sparse -cf - .; [ $? -le 1 ];;
  *) tar -cf - .;;
esac
"""
"""GNU tar ends with 1 where a file grew while it was read, as a running job's log does."""
_RECORDS = """
cd -P -- "$base" && enter "$job" || exit
find . -type f -name '*vdlrecords*' -size -16385k -exec tar -cf - -- {} +
[ $? -le 1 ]
"""
"""The names come from find and begin with `./`; many would make several archives, of which the
first is read."""
_LIST = """
cd -P -- "$base" 2>/dev/null && is_there "$job" || exit 4
(enter "$job") || exit
{
  (enter "$job" && find . -type f -printf '%s ./%P\\n')
  ! is_folder "$job.checkpoint" ||
    (enter "$job.checkpoint" && find . -type f -printf '%s ./checkpoint/%P\\n')
} | head -n "$1"
"""
_TIDY = """
cd -P -- "$base" 2>/dev/null || exit 0
for job; do
  if is_there "$job.before"; then continue; fi
  rmdir -- "$job.checkpoint" 2>/dev/null
  if is_there "$job.checkpoint"; then continue; fi
  rmdir -- "$job" 2>/dev/null && echo removed
done
for left in *; do
  case $left in *.checkpoint | *.before) continue;; esac
  if is_folder "$left"; then echo "kept $left"; fi
done
"""


class Runs(Protocol):
    """Runs a shell script with arguments on the host, however it ends."""

    def __call__(self, script: str, *words: str) -> Awaitable[Completed]:
        """Return how it ended."""
        ...


class JobFolders:
    """The folders of jobs on one host, in `base`, or where the account keeps its state."""

    def __init__(self, link: Link, host: str, base: str = "", run: Runs | None = None) -> None:
        self._link = link
        self._host = host
        self._base = base
        self._run = run or self._over_link

    async def prepare(self, job_id: str, *, checkpoint: bool, owner: str = "") -> HostAccount:
        """Make the job's folders, open to their owner only, and tell who owns them: the account, or
        `owner` (`uid:gid`), to whom root alone can give them.

        RefusedError when a link is in the place of one, EngineError where the account is not root
        and there is an `owner`.
        """
        wanted = "checkpoint" if checkpoint else ""
        if owner and not _OWNER.fullmatch(owner):
            raise UsageError(
                "Not an owner", msg("{value} is not two numbers.", value=f"{clean(owner, 40)!r}")
            )
        done = await self._on(_PREPARE, job_id, wanted, NODES, owner)
        uid, gid, folder, groups = self._lines(done, 4, f"making the folders of {job_id}", job_id)
        # Not root's group, which owns more than devices.
        owners = tuple(sorted({int(word) for word in groups.split()} - {0}))
        return HostAccount(int(uid), int(gid), folder, owners)

    async def results(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the results as a tar; RefusedError when they are gone."""
        name = await self._opened(_RESULTS, job_id)
        if not name:
            raise self._gone(job_id)
        async for chunk in self._packed(name):
            yield chunk

    async def records(self, job_id: str) -> AsyncIterator[bytes]:
        """Give VisualDL's record files among the results as a tar; nothing where there are none.
        RefusedError when the results are gone."""
        name = await self._opened(_RESULTS, job_id)
        if not name:
            raise self._gone(job_id)
        async for chunk in self._packed(name, _RECORDS):
            yield chunk

    async def checkpoint(self, job_id: str, *, adopt: bool) -> AsyncIterator[bytes]:
        """Give the checkpoint as a tar; nothing when there is none. `adopt` takes one over that an
        earlier version keeps in the results. RefusedError when it is a link."""
        name = await self._opened(_CHECKPOINT, job_id, "adopt" if adopt else "")
        if name:
            async for chunk in self._packed(name):
                yield chunk

    async def make_way(self, job_id: str) -> None:
        """Make room for a checkpoint that comes from another host. The one that is here stays
        beside it, and comes back with `prepare`, until the other has arrived whole."""
        doing = f"making way for the checkpoint of {job_id}"
        self._lines(await self._on(_MAKE_WAY, job_id), 0, doing, job_id)

    async def arrived(self, job_id: str) -> None:
        """Drop the checkpoint that was here before: the other has arrived whole."""
        doing = f"removing the older checkpoint of {job_id}"
        self._lines(await self._on(_ARRIVED, job_id), 0, doing, job_id)

    async def listed(self, job_id: str) -> tuple[ResultFile, ...]:
        """Return what `results` and `checkpoint` would give, the largest first."""
        done = await self._on(_LIST, job_id, str(MOST))
        if done.exit_status == _GONE:
            raise self._gone(job_id)
        files = []
        for line in self._lines(done, 0, f"listing the results of {job_id}", job_id):
            size, _, name = line.partition(" ")
            # What follows a line feed in a name has no folder before it.
            if size.isdigit() and name.startswith("./"):
                files.append(ResultFile(clean(name.removeprefix("./"), 300), int(size)))
        return tuple(sorted(files, key=lambda file: (-file.size_bytes, file.name)))

    async def tidy(self, jobs: Sequence[str], keep: frozenset[str]) -> tuple[int, int]:
        """Remove the empty folders of these jobs; with anything in one of them all stay.

        Returns how many jobs' were removed, and how many folders of jobs not in `keep` are left.
        """
        done = await self._on(_TIDY, "", *jobs)
        said = self._lines(done, 0, "looking through the results", "")
        left = {line.removeprefix("kept ") for line in said if line.startswith("kept ")}
        return said.count("removed"), len(left - keep)

    async def _opened(self, script: str, job_id: str, *words: str) -> str:
        """Return the name of the folder that a script has chosen; "" where it is gone."""
        done = await self._on(script, job_id, *words)
        if done.exit_status == _GONE:
            return ""
        return self._lines(done, 1, f"looking for the results of {job_id}", job_id)[0]

    def _packed(self, name: str, script: str = _PACK) -> AsyncIterator[bytes]:
        return self._link.stream(["sh", "-c", _COMMON + script, "gpuconsole", self._base, name])

    async def _on(self, script: str, job_id: str, *words: str) -> Completed:
        for name in filter(None, (job_id, *(words if script is _TIDY else ()))):
            if not _JOB_ID.fullmatch(name):
                raise UsageError(
                    "Not a job id",
                    msg("{value} cannot name a folder.", value=f"{clean(name, 80)!r}"),
                )
        return await self._run(_COMMON + script, self._base, job_id, *words)

    async def _over_link(self, script: str, *words: str) -> Completed:
        return await self._link.run(["sh", "-c", script, "gpuconsole", *words])

    def _gone(self, job_id: str) -> RefusedError:
        return RefusedError(
            "The results are gone",
            msg(
                "{host} has no results folder of {job_id} any more. `gpuconsole prune` removes "
                "an empty one; one with files was removed by hand.",
                host=self._host,
                job_id=job_id,
            ),
            "Look for a copy that was fetched before.",
        )

    def _lines(self, done: Completed, count: int, doing: str, job_id: str) -> list[str]:
        """Return the last `count` lines of output (0: all)."""
        lines = done.stdout.decode(errors="surrogateescape").splitlines()
        if done.exit_status == _LINK:
            raise RefusedError(
                "A link is in the place of a job's folder",
                msg(
                    "{host}: {value}/{job_id} or its checkpoint is not a folder of "
                    "its own, so it was left as it is.",
                    host=self._host,
                    value=self._base or DEFAULT,
                    job_id=job_id,
                ),
                "Look where it leads, move it away, and retry the job.",
            )
        if done.exit_status != 0 or len(lines) < count:
            said = clean(done.stderr.decode(errors="replace").strip(), 500)
            raise EngineError(
                "The results folder cannot be used",
                msg(
                    "{host}, {doing}: {value}.",
                    host=self._host,
                    doing=doing,
                    value=said or f"exit status {done.exit_status}",
                ),
                _LOST_PATH if done.exit_status in (126, 127) else _RIGHTS,
            )
        return lines[-count:]
