"""`journal`: whether it is whole, its backups, and putting one in its place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import (
    error_text,
    note,
    print_document,
    said,
    say,
    show,
    table,
    tell,
    text,
)
from gpuconsole.cli.sessions import drive
from gpuconsole.core.units import format_mib, iso_utc
from gpuconsole.core.util.user_dirs import JOURNAL_NAME, state_folder
from gpuconsole.core.wording import joined, msg, name, sentences
from gpuconsole.errors import ConsoleError, ReadOnlyError, UsageError

if TYPE_CHECKING:
    from gpuconsole.session.restore.adoption import Settled
    from gpuconsole.session.session import Session
    from gpuconsole.state.backup.backups import Restored

_WAIT_S = 30.0
"""How long hosts are waited for after a restore."""
_MIB = 2**20
_SHOWN = 20
_without = click.option(
    "--without",
    multiple=True,
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="Do not wait for this host: nothing of the queue ran there. May repeat.",
)


@click.group()
def journal() -> None:
    """Check the journal of the queue, list its backups or restore one.

    The console that dispatches writes a backup every hour; the latest of each of seven days is
    retained.
    """


@journal.command()
@common
def check() -> int:
    """Check the journal. Exit 1 if it is damaged or missing."""
    from gpuconsole.state.backup.backups import backups, fault_of

    folder = state_folder(options().state)
    path = folder / JOURNAL_NAME
    fault = fault_of(path) if path.exists() else "there is none"
    latest = next(iter(backups(folder)), None)
    if options().as_json:
        print_document(
            {
                "path": str(path),
                "ok": not fault,
                "fault": fault or None,
                "size_bytes": path.stat().st_size if path.exists() else None,
                "latest_backup": latest.name if latest is not None else None,
            }
        )
    else:
        if fault:
            tell(joined(": ", (name(str(path)), fault)))
        else:
            tell(msg("{path}: whole", path=path))
        if latest is None:
            tell("Latest backup: none yet")
        else:
            tell(msg("Latest backup: of {when}", when=iso_utc(latest.made_at)))
        if fault and latest is not None:
            note("Restore it: gpuconsole journal restore")
    return 1 if fault else 0


@journal.command("backups")
@common
def list_backups() -> int:
    """List the backups, the latest first."""
    from gpuconsole.state.backup.backups import backups

    listed = backups(state_folder(options().state))
    if options().as_json:
        print_document(
            {
                "backups": [
                    {
                        "name": backup.name,
                        "made_at": iso_utc(backup.made_at),
                        "before_upgrade": backup.before_migration,
                        "size_bytes": backup.size_bytes,
                        "path": str(backup.path),
                    }
                    for backup in listed
                ]
            }
        )
        return 0
    rows = table("NAME", "MADE", "SIZE", "WHY", right=("SIZE",))
    for backup in listed:
        why = "before an upgrade" if backup.before_migration else "regular"
        made_at = iso_utc(backup.made_at) or ""
        rows.add_row(text(backup.name), made_at, format_mib(backup.size_bytes / _MIB), said(why))
    show(rows)
    return 0


@journal.command()
@click.argument("name", required=False)
@click.option("--empty", is_flag=True, help="Begin with an empty queue of the same identity.")
@_without
@click.option("--yes", is_flag=True, help="Do not ask, even if the journal is intact.")
@common
def restore(name: str | None, empty: bool, without: tuple[str, ...], yes: bool) -> int:
    """Replace the journal with a backup: the latest, or the one named NAME.

    The present journal is moved to the backups. Then hosts are queried for what ran since the
    backup: containers of this journal are adopted, and nothing is started twice. Refused while a
    console dispatches.
    """
    if options().read_only:
        raise ReadOnlyError("Read-only", "Nothing is restored.", "Leave --read-only out.")
    if name is not None and empty:
        raise UsageError("What?", "Name a backup, or say --empty.", "")
    folder = state_folder(options().state)
    _confirm(folder, yes)
    done = _restored(folder, name, empty)
    if not options().as_json:
        _say_restored(done)
    try:
        settled = _adopt(without)
    except ConsoleError as error:
        note(sentences("Hosts were not queried yet.", error_text(error)))
        note("Waiting jobs start after: gpuconsole journal adopt")
        settled = None
    document: dict[str, Any] = {
        "restored": done.backup.name if done.backup is not None else None,
        "backup_made_at": iso_utc(done.backup.made_at) if done.backup is not None else None,
        "aside": [str(path) for path in done.aside],
    }
    _answer(document, settled)
    return 0


@journal.command()
@_without
@common
def adopt(without: tuple[str, ...]) -> int:
    """Query hosts for what ran since the restored backup, and add it to the journal.

    A console that dispatches does so automatically. Exit 3 if a host could not be reached.
    """
    settled = _adopt(without)
    _answer({}, settled)
    return 3 if settled.unreached else 0


def _confirm(folder: Path, yes: bool) -> None:
    """Ask before a journal that is whole is replaced by an older one."""
    from gpuconsole.state.backup.backups import fault_of

    path = folder / JOURNAL_NAME
    if yes or not path.exists() or fault_of(path):
        return
    whole = msg("{path} is whole; what happened since the backup would be forgotten.", path=path)
    if not sys.stdin.isatty():
        raise UsageError("No terminal to ask in", whole, "Add --yes if that is what you want.")
    if not click.confirm(f"{say(whole)}\n{say('Restore a backup all the same?')}", err=True):
        raise UsageError("Not restored", "You said no.", "")


def _restored(folder: Path, name: str | None, empty: bool) -> Restored:
    import time

    from gpuconsole.state.backup import backups
    from gpuconsole.state.journal_guard import identity_of

    return backups.restore(folder, name, time.time(), journal=identity_of(folder) if empty else "")


def _adopt(without: tuple[str, ...]) -> Settled:
    async def work(session: Session) -> Settled:
        return await session.adopt(without, _WAIT_S)

    return drive(work, dispatching=True)


def _say_restored(done: Restored) -> None:
    if done.backup is None:
        tell("The queue begins empty.")
    else:
        made_at = iso_utc(done.backup.made_at)
        tell(msg("Restored: {name}, made {when}.", name=done.backup.name, when=made_at))
    if done.aside:
        tell(msg("The former journal: {path}", path=done.aside[0]))


def _settled_document(settled: Settled) -> dict[str, object]:
    return {
        "adopted": [job.as_json() for job in settled.adopted],
        "unasked": list(settled.unreached),
        "missing": list(settled.missing),
    }


def _answer(document: dict[str, object], settled: Settled | None) -> None:
    if options().as_json:
        print_document(document | ({} if settled is None else _settled_document(settled)))
        return
    if settled is None:
        return
    for job in settled.adopted:
        where = job.attempt.host if job.attempt is not None else ""
        tell(
            msg(
                "Found on {host}: {job} {name}, {state_word}",
                host=where, job=job.id, name=job.task.name, state_word=job.state.value,
            )
        )  # fmt: skip
    if settled.missing:
        more, listed = len(settled.missing) - _SHOWN, " ".join(settled.missing[:_SHOWN])
        missing = msg("On no host and not in the backup: {jobs}", jobs=listed)
        tell(sentences(missing, msg("and {n} more", n=more) if more > 0 else ""))
        tell("They were submitted after it was made. Submit again what is still needed.")
    if settled.unreached:
        hosts = msg("Not reached: {hosts}.", hosts=", ".join(settled.unreached))
        note(sentences(hosts, "Waiting jobs start once they were."))
        note("For a host that is gone: gpuconsole journal adopt --without HOST")
    else:
        tell("All hosts were queried; the queue continues.")
