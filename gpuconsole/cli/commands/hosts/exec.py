"""`exec`: a command in a container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import ScriptCommand, common, options, rank_option, script_args
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.engines.host_containers import split_reference
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


SHELL = ("sh",)
"""What is run where no command is named."""


NOT_BEGUN = (126, 127)
"""Codes of a program that may not be run or is not there; engines of some versions say 126 of
both."""


@click.command("exec", cls=ScriptCommand)
@click.argument("container", metavar="JOB|HOST:CONTAINER", shell_complete=shell_completion.jobs())
@rank_option
@click.option("-i", "--interactive", is_flag=True, help="Hand on what is typed, or piped in.")
@click.option("-t", "--tty", is_flag=True, help="Give it a terminal, where there is one here.")
@click.option("-u", "--user", default="", metavar="USER", help="As whom it runs in the container.")
@common
def exec_(container: str, rank: int, interactive: bool, tty: bool, user: str) -> int:
    """Run a command in a job's, or any other, container.

    A job comes first where both have the name; of a job over several hosts --rank chooses the host.
    Its words stand after `--` and go to no shell; without any, `sh` is run on your terminal. With a
    terminal every key goes to the command, Ctrl-C too; Ctrl-P Ctrl-Q leaves it running, and a
    terminal that is closed ends it. Without one its output and errors stay apart. Its exit code is
    handed on. Every command is recorded: `gpuconsole audit`. With --json the document has the exit
    code and both outputs.
    """
    from gpuconsole.local_terminal import Ends, converse

    ends, words = Ends(), script_args()
    as_json = options().as_json
    if not words:
        if as_json or not ends.are_terminal:
            raise UsageError(
                "No command", "Without a terminal a command is needed.",
                "Write it after --, such as: gpuconsole exec JOB -- nvidia-smi",
            )  # fmt: skip
        words, interactive, tty = SHELL, True, True
    terminal = tty and ends.are_terminal
    place = container_of(container, rank)
    host, wanted = split_reference(place)

    async def work(session: Session) -> int | None:
        if as_json:
            return await _document(session, place, words, user)
        target = await session.containers.find(host, wanted)
        process = await session.containers.run(
            target, words, terminal=terminal, typing=interactive,
            user=user, size=ends.size if terminal else None,
        )  # fmt: skip
        try:
            left = await converse(process, terminal=terminal, typing=interactive, ends=ends)
            if left:
                await process.leave()
                return None
            return await process.exit_code()
        finally:
            await process.close()

    code = drive(work, links=False, own_queue=True)
    if as_json:
        return code or 0
    if code is None:
        note(msg("The command runs on in {name}.", name=container))
        return 0
    _explain(code, words)
    return code


exec = exec_
"""The command by its name."""


def container_of(reference: str, rank: int) -> str:
    """Return `HOST:CONTAINER` of a running job, of a gang on the host of that rank; a reference
    that is no job of the queue as it is.

    UsageError for a rank that the job does not have, or of a container; RefusedError for a job that
    does not run.
    """

    async def known(session: Session) -> str:
        from gpuconsole.session.ports.forwards import running_attempt

        try:
            job = session.job(reference)
        except UsageError:
            if ":" not in reference:
                raise
            return ""
        attempt = running_attempt(job, rank)
        return f"{attempt.host}:{attempt.container_name}"

    place = drive(known, fleet=False)
    if not place and rank:
        raise UsageError("No such rank", "A container has no ranks.", "Name a job, or no rank.")
    return place or reference


async def _document(
    session: Session, container: str, words: Sequence[str], user: str
) -> int | None:
    """Run a command without a terminal, print what it wrote as one document, and return its exit
    code."""
    ran = await session.containers.run_to_end(container, words, user)
    stdout, stderr = (output.decode("utf-8", "replace") for output in (ran.stdout, ran.stderr))
    print_document({"exit_code": ran.exit_code, "stdout": stdout, "stderr": stderr})
    return ran.exit_code


def _explain(code: int, words: Sequence[str]) -> None:
    """Say what the codes mean by which shells and Docker report a program that did not begin."""
    if code not in NOT_BEGUN:
        return
    note(msg("Exit code {n}: a program was not found in the container, or may not be run.", n=code))
    if words[:1] != SHELL:
        note("Most images have a shell: gpuconsole exec JOB -it -- sh")
    else:
        note("An image without `sh` has no shell to enter; its log can still be read.")
