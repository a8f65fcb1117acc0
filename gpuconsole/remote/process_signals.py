"""A signal to one process of a host, after a look that it is still the one that was meant."""

from __future__ import annotations

from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, RefusedError
from gpuconsole.remote.links.protocol import Link

SIGNALS = ("TERM", "INT", "KILL")
TIMEOUT_S = 10.0


async def send(link: Link, host: str, process: DeviceProcess, signal: str) -> None:
    """Send a signal; RefusedError when the process has ended, is another by now, or may not be
    signalled, EngineError when the host could not do it."""
    if signal not in SIGNALS or process.pid < 2:
        raise RefusedError(
            "Not sent",
            msg("SIG{signal} to process {pid} is not allowed.", signal=signal, pid=process.pid),
        )
    # Without translation, so that the reason can be recognised.
    look = ["env", "LC_ALL=C", "cat", f"/proc/{process.pid}/cmdline"]
    result = await link.run(look, timeout=TIMEOUT_S)
    if result.exit_status:
        raise _unseen(host, process, clean(result.stderr.decode("utf-8", "replace"), 300))
    running = clean(result.stdout.decode("utf-8", "replace").replace("\0", " ").strip(), 4096)
    if not _same(running, process.command):
        raise RefusedError(
            "It is another process now",
            msg(
                "{host}: {pid} was `{command}` and is `{running}`.",
                host=host,
                pid=process.pid,
                command=process.command,
                running=clean(running, 120),
            ),
            "Look at the device again.",
        )
    argv = ["env", "LC_ALL=C", "kill", f"-{signal}", str(process.pid)]
    done = await link.run(argv, timeout=TIMEOUT_S)
    if done.exit_status:
        raise _refused(host, process, signal, clean(done.stderr.decode("utf-8", "replace"), 300))


def _same(running: str, shown: str) -> bool:
    """Tell whether a command line is the one that was shown; that may be cut, or, where it comes
    from a vendor's tool, only the program's name. A process without one shows its name alone."""
    if not shown or not running:
        return True
    return running.startswith(shown.rstrip()) or shown in running.split(" ")[0]


def _refused(
    host: str, process: DeviceProcess, signal: str, output: str
) -> EngineError | RefusedError:
    subject = f"process {process.pid} of {process.user or 'somebody else'}"
    if "not permitted" in output.lower():
        return RefusedError(
            "Not permitted",
            msg(
                "{host}: the account that the console uses may not signal {subject}.",
                host=host,
                subject=subject,
            ),
            msg(
                "Ask {value}, or name an account with the right to it as `user` of {host}"
                " in the inventory.",
                value=process.user or "its owner",
                host=host,
            ),
        )
    if "no such process" in output.lower():
        return _ended(host, process)
    return EngineError(
        "Signal not sent",
        msg(
            "{host}: `kill -{signal}` of {subject} said: {output}",
            host=host,
            signal=signal,
            subject=subject,
            output=output,
        ),
    )


def _unseen(host: str, process: DeviceProcess, output: str) -> EngineError | RefusedError:
    if "no such" in output.lower() and "/proc/" in output:
        return _ended(host, process)
    return EngineError(
        "Process cannot be looked at",
        msg(
            "{host}: /proc/{pid} cannot be read: {output}",
            host=host,
            pid=process.pid,
            output=output,
        ),
    )


def _ended(host: str, process: DeviceProcess) -> RefusedError:
    return RefusedError(
        "It has ended already", msg("{host} has no process {pid}.", host=host, pid=process.pid)
    )
