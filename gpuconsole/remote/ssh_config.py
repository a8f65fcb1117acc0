"""`gpuconsole init`: an inventory out of the hosts that your ssh config names."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import yaml

from gpuconsole.core.file_trust import make_private, open_trusted
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

MAX_INCLUDES = 16
"""Depth at which OpenSSH itself stops following Include."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Alias:
    """A host named in an ssh config, with what the config says about it."""

    name: str
    address: str = ""
    user: str = ""
    port: int | None = None
    identity_file: str = ""
    jump: str = ""


def read_aliases(path: Path) -> tuple[Alias, ...]:
    """Return the hosts that an ssh config names, in its order; patterns are no hosts.

    As in ssh, the first value found for a host counts. UsageError when the file cannot be read.
    """
    try:
        blocks = list(_blocks(path, path.parent, 0))
    except OSError as error:
        raise UsageError(
            "Cannot read the ssh config",
            msg("{path}: {value}.", path=path, value=error.strerror or error),
            "Name another with --ssh-config, or write the inventory by hand.",
        ) from error
    names = dict.fromkeys(
        pattern for patterns, _ in blocks for pattern in patterns if _WORD.fullmatch(pattern)
    )
    return tuple(_resolve(name, blocks) for name in names)


def own_config() -> Path:
    """Return the path of this user's ssh config."""
    return Path("~/.ssh/config").expanduser()


def require_trusted(path: Path) -> None:
    """Raise TrustError for an ssh config that others can change, or that includes such a file.

    ssh refuses both by itself; asyncssh, which reads the config here, does not look. OSError for a
    file that cannot be read.
    """
    for file in _files(path):
        os.close(open_trusted(file))


def inventory_text(aliases: tuple[Alias, ...], source: str) -> str:
    """Return the YAML of an inventory of these hosts.

    A host's address is its alias, so that the ssh config stays the one place that describes it;
    a comment tells what the config says today.
    """
    jumps = {alias.jump for alias in aliases}
    hosts = [_entry(alias) for alias in aliases if alias.name not in jumps]
    if not hosts:
        raise UsageError(
            "No hosts found",
            msg("{source} names no host, or only patterns and jump hosts.", source=source),
            "Write the inventory by hand; the README shows the few lines it takes.",
        )
    return (
        f"# Written by `gpuconsole init` from {clean(source)}.\n"
        "# Remove what has no GPUs, then run `gpuconsole check`.\n"
        "version: 1\nhosts:\n" + "".join(hosts)
    )


_TEMPLATE = """# The hosts of your lab; `gpuconsole check` tests each. Written by `gpuconsole init`.
version: 1

# For every host that does not say otherwise; each key may also stand at a host.
# defaults:
#   user: ops                      # else your ssh config decides, then your own name
#   port: 22
#   identity_file: ~/.ssh/id_ed25519

hosts:
"""
_EXAMPLE = """#  - name: a100-01              # what the console calls it
#    address: 10.0.0.11           # name, IP address or ssh alias; without it the name
#    user: ops
#    labels: {rack: r1}           # words that jobs can ask for
#    jump: bastion                # reach it through this host
"""


def template_text(first: str = "") -> str:
    """Return an inventory to fill in, with the first host (`name`, `address` or `user@name`) where
    one is known. UsageError when it is no name of a host."""
    if not first:
        return _TEMPLATE + _EXAMPLE
    user, _, name = first.rpartition("@")
    if not _WORD.fullmatch(name) or (user and not _WORD.fullmatch(user)):
        raise UsageError(
            "Not a host", msg("`{first}` is no name of a host.", first=clean(first, 80)),
            "Give a name, an address or user@name; letters, digits, dots and dashes.",
        )  # fmt: skip
    entry = {"name": name, **({"user": user} if user else {})}
    return _TEMPLATE + indent(yaml.safe_dump([entry], sort_keys=False), "  ") + _EXAMPLE


def write_inventory(text: str, path: Path, *, force: bool = False) -> None:
    """Write the inventory; an existing file is replaced only with `force`."""
    try:
        make_private(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
        # Whatever the umask: an inventory that a group can write would not be read.
        with os.fdopen(os.open(path, flags, 0o644), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            "Inventory exists",
            msg("{path} is already there.", path=path),
            "Replace it with --force.",
        ) from None
    except OSError as error:
        raise UsageError(
            "Cannot write the inventory",
            msg("{path}: {value}.", path=path, value=error.strerror or error),
        ) from error


Block = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""Patterns of a Host line, and the settings below it."""


def _blocks(path: Path, folder: Path, depth: int) -> Iterator[Block]:
    patterns: tuple[str, ...] = ("*",)
    settings: list[tuple[str, str]] = []
    for keyword, value in _lines(path):
        if keyword == "host":
            yield patterns, tuple(settings)
            patterns, settings = tuple(_words(value)), []
        elif keyword == "match":
            yield patterns, tuple(settings)
            # What a Match needs (a user, a command's answer) is not known here; only `all` is.
            patterns = ("*",) if value.lower() == "all" else ()
            settings = []
        elif keyword == "include":
            yield patterns, tuple(settings)
            settings = []
            if depth < MAX_INCLUDES:
                for included in _included(value, folder):
                    yield from _limited(_blocks(included, folder, depth + 1), patterns)
        else:
            settings.append((keyword, value))
    yield patterns, tuple(settings)


def _limited(blocks: Iterator[Block], outer: tuple[str, ...]) -> Iterator[Block]:
    """Limit an Include below a Host line to the hosts of that line."""
    for patterns, settings in blocks:
        if outer == ("*",):
            yield patterns, settings
        elif patterns == ("*",):
            yield outer, settings
        else:
            matching = tuple(pattern for pattern in patterns if _matches(pattern, outer))
            yield matching, settings


def _files(path: Path) -> Iterator[Path]:
    """Give a config and all that it includes, whether or not it would be read for a host.

    Each is read only after it was given.
    """
    pending, seen = [path], set[Path]()
    while pending:
        file = pending.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        yield file
        for keyword, value in _lines(file):
            if keyword == "include":
                pending += _included(value, path.parent)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text("utf-8", "replace").splitlines():
        match = re.match(r"\s*([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+)(.*?)\s*$", line)
        if match:
            yield match.group(1).lower(), match.group(2)


def _included(value: str, folder: Path) -> list[Path]:
    paths: list[Path] = []
    for word in _words(value):
        pattern = Path(word).expanduser()
        where = pattern if pattern.is_absolute() else folder / pattern
        paths += [Path(name) for name in sorted(glob.glob(str(where))) if Path(name).is_file()]
    return paths


def _words(value: str) -> list[str]:
    try:
        return shlex.split(value, comments=True)
    except ValueError:
        return value.split()


def _resolve(name: str, blocks: list[Block]) -> Alias:
    first: dict[str, str] = {}
    for patterns, settings in blocks:
        if _matches(name, patterns):
            for keyword, value in settings:
                first.setdefault(keyword, value)
    alias = Alias(name)
    words = {key: (_words(value) or [""])[0] for key, value in first.items()}
    port = words.get("port", "")
    jump = words.get("proxyjump", "")
    return replace(
        alias,
        address=words.get("hostname", "").replace("%h", name),
        user=words.get("user", ""),
        port=int(port) if port.isdecimal() and 0 < int(port) < 65536 else None,
        identity_file=words.get("identityfile", ""),
        # A chain or a user@host form stays with ssh config, which the console reads as well.
        jump=jump if _WORD.fullmatch(jump) and jump.lower() != "none" else "",
    )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a Host line applies: any pattern matches and no negated one does."""
    matched = False
    for pattern in patterns:
        expression = re.escape(pattern.lstrip("!")).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(expression, name, re.IGNORECASE):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def _entry(alias: Alias) -> str:
    name = _scalar(alias.name)
    account = f"{alias.user}@" if alias.user else ""
    port = f":{alias.port}" if alias.port else ""
    key = f" with {alias.identity_file}" if alias.identity_file else ""
    says = clean(f"{account}{alias.address or alias.name}{port}{key}", 200)
    lines = [f"  - name: {name}", f"    address: {name}  # {says}"]
    if alias.jump:
        lines.append(f"    jump: {_scalar(alias.jump)}")
    return "\n".join(lines) + "\n"


def _scalar(word: str) -> str:
    # Quoted where YAML would read something else, such as a host named 42.
    return yaml.safe_dump(word).removesuffix("\n").removesuffix("\n...")
