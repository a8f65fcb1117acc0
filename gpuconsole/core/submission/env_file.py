"""Files of variables for a job, as `docker run --env-file` reads them. Their values are secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpuconsole.core.file_trust import read_private
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a variable may be called."""
LARGEST = 2**20
"""Bytes of such a file."""


def read_env_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a file by name.

    A line is `NAME=VALUE`, the value as it is, quotes included; or `NAME` for the value that the
    variable has in `environ`; or empty, or a comment that begins with `#`. UsageError for a file
    that others may read, and for a line that is none of these, which is named by its number alone.
    """
    text, _ = read_private(path, "File of variables", LARGEST)
    variables: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        name, equals, value = line.removesuffix("\r").lstrip().partition("=")
        if (not name and not equals) or name.startswith("#"):
            continue
        if not VARIABLE.fullmatch(name) or "\0" in value:
            raise UsageError(
                "File of variables is wrong",
                msg(
                    "{value}:{number}: expected NAME=VALUE, or NAME alone.",
                    value=clean(str(path), 512),
                    number=number,
                ),
                "A name has letters, digits and underscores; a comment begins with #.",
            )
        variables[name] = value if equals else own_value(name, environ)
    return variables


def own_value(name: str, environ: Mapping[str, str]) -> str:
    """Return the value of a variable of this process; UsageError when it has none, or none that is
    text."""
    value = environ.get(name, "")
    if not value or not _is_text(value):
        raise UsageError(
            "Variable is not set",
            msg(
                "${value} is {value2} here.",
                value=clean(name, 80),
                value2="no text" if value else "empty or not set",
            ),
            msg("Set it before: export {value}=…", value=clean(name, 80)),
        )
    return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
