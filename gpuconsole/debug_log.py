"""What `--debug` writes for a report of a fault: what is done with hosts, engines and jobs.

The file is bounded, for its owner alone, and meant to be read by others: whatever looks like a
secret is taken out of every line, and no line holds a script, an output or a request's body.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpuconsole.core.submission.secrets import HIDDEN, looks_secret, masked
from gpuconsole.core.text import clean

NAME = "debug.log"
MOST_BYTES = 1 << 20
"""Of a file; then a new one is begun, and the last `KEPT` are kept."""
KEPT = 3
LINE = 1000
"""Characters of a record."""
TRACE_LINES = 100
"""Of a traceback, its last."""
LOG = logging.getLogger("gpuconsole")
OTHERS = {"asyncssh": logging.INFO, "urllib3": logging.DEBUG, "aiohttp": logging.INFO}
"""Libraries with records that are kept, from this level on: connections and calls, no content."""
_NAMED = re.compile(r"""(?<![\w.-])([\w.-]+)["']?\s{0,3}[=:]\s{0,3}""")
_VALUE = re.compile(r"""("[^"]*"?|'[^']*'?|[^\s,;&]+)""")
_BEARER = re.compile(r"\b(Bearer|Basic|token)\s{1,3}[\w.~+/=-]{8,}", re.I)
_IN_ADDRESS = re.compile(r"(://)[^/?#\s@:]*:[^/?#\s@]+@")


def without_secrets(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return a text without what looks like a secret in it: values of names such as `HF_TOKEN`,
    passwords in addresses, what follows `Bearer`, and secret values of this environment."""
    secrets = [value for name, value in environ.items() if len(value) >= 8 and looks_secret(name)]
    text = _IN_ADDRESS.sub(rf"\1{HIDDEN}@", masked(text, secrets))
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    return "".join(_without_values(text))


def _without_values(text: str) -> Iterator[str]:
    """Give the pieces of a text, the values of secret names hidden."""
    done = at = 0
    while named := _NAMED.search(text, at):
        at = named.end()
        if looks_secret(named[1]) and (value := _VALUE.match(text, at)):
            yield text[done:at] + HIDDEN
            done = at = value.end()
    yield text[done:]


def _shown(text: str) -> str:
    # Cut before it is searched: a text is as long as those who speak want it to be.
    return clean(without_secrets(text[: 2 * LINE]), LINE)


class _Formatter(logging.Formatter):
    """One line a record, in UTC; a traceback's lines follow, indented."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record, bounded, without secrets and without control characters."""
        when = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        said = _shown(record.getMessage())
        line = f"{when}.{record.msecs:03.0f}Z {record.levelname.lower():7} {record.name}: {said}"
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info).splitlines()[-TRACE_LINES:]
        return "\n".join([line, *(f"  {_shown(row)}" for row in trace)])


class _Private(logging.handlers.RotatingFileHandler):
    """Makes its files readable by their owner alone, whatever the umask."""

    def _open(self):  # type: ignore[no-untyped-def]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return open(os.open(self.baseFilename, flags, 0o600), "a", encoding="utf-8")


def begin(folder: Path, argv: Sequence[str], version: str) -> Path:
    """Write to a file in a folder from now on, and return its path. OSError where it cannot
    be written."""
    # The folder above may be the state folder, which must be for its owner alone.
    for missing in (folder.parent, folder):
        missing.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / NAME
    handler = _Private(path, maxBytes=MOST_BYTES, backupCount=KEPT, encoding="utf-8")
    handler.setFormatter(_Formatter())
    for name, level in {LOG.name: logging.DEBUG, **OTHERS}.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        # The terminal belongs to the console.
        logger.propagate = False
    LOG.info(
        "gpuconsole %s, Python %s on %s: %s",
        version,
        platform.python_version(),
        platform.platform(),
        " ".join(argv),
    )
    return path
