"""Messages through programs of this machine: sendmail, and the desktop's notify-send."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from html import escape

from gpuconsole.core.lab_service.messages import Message
from gpuconsole.core.text import clean
from gpuconsole.waiting import within

TIMEOUT_S = 20.0
_KEPT = ("PATH", "HOME", "USER", "LANG", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR",
         "DBUS_SESSION_BUS_ADDRESS")  # fmt: skip
"""Variables that these programs get; none of them is a secret."""
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


async def mailed(sendmail: str, address: str, message: Message) -> str:
    """Hand a mail to sendmail; return why it did not take it, or ""."""
    mail = EmailMessage(policy=SMTP)
    mail["To"] = address
    mail["Subject"] = f"gpuconsole: {clean(message.subject, 150)}"
    # No answering machine answers to it.
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join(message.lines) + "\n")
    return await _run((sendmail, "-i", address), mail.as_bytes())


async def shown(message: Message, program: str = "notify-send") -> str:
    """Show a notification on the desktop; return why that did not work, or ""."""
    # Desktops read some HTML in the text.
    text = escape("\n".join(message.lines), quote=False)
    head = f"gpuconsole: {clean(message.subject, 100)}"
    return await _run((program, "--app-name=gpuconsole", "--", head, text), b"")


async def _run(words: Sequence[str], given: bytes) -> str:
    """Run a program with this input, at most so long; return why it failed, or ""."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment.setdefault("PATH", _PATH)
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return f"{clean(words[0], 100)}: {os.strerror(error.errno or 0)}"
    try:
        await within(TIMEOUT_S, process.communicate(given))
    except asyncio.TimeoutError:
        return f"{clean(words[0], 100)} did not end within {TIMEOUT_S:.0f} s"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    code = process.returncode
    return "" if code == 0 else f"{clean(words[0], 100)} ended with exit code {code}"
