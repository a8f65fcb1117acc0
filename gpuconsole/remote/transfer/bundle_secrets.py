"""What must not leave the user's machine with a project: three small tables of plain rules.

A file is known by its name, by the folder that it is in, or by its content: a private key, or a
token that its service marks by a prefix. What has no such mark, such as a password in a script, is
not found.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass

FOLDERS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".gcloud", ".kaggle"),
    *(".huggingface", ".password-store", ".config/gcloud", ".config/gh", ".config/rclone"),
)
"""Folders of keys, in a project or in a home; what a tool keeps there is for it alone."""
NAMES = (
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx"),
    *("*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.gpg", "*.ovpn", "*.keytab", "*.agekey"),
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf"),
    *(".mylogin.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".dockercfg"),
    *(".s3cfg", ".boto", ".vault-token", ".vault_pass*", ".databrickscfg", ".terraformrc"),
    *("rclone.conf", "credentials", "credentials.*", ".credentials*", "*_credentials"),
    *("*-credentials", "*credentials.json", "gha-creds-*.json", "*firebase-adminsdk*.json"),
    *("kaggle.json", "secret.*", "secrets.*", ".secrets*", "client_secret*.json"),
    *("service-account*.json", "service_account*.json", "kubeconfig*"),
    *("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json"),
)
"""Names of files, in small letters."""
HEAD = 64 * 1024
"""Bytes at the beginning of a file in which the header of a private key alone is enough."""
MOST_MARKS = 1000
"""Places of a mark that are looked at in one file."""
MOST_KEPT_FILES = 5000
"""Files of the user's own folders of keys that are remembered by number."""
_FEWEST_LETTERS = 10
"""Different letters of a token; a placeholder such as `hf_xxxxxxxx` has fewer."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of secret that is known by its content. `mark` is in each of them; `pattern` is held
    against the place of a mark, which is within `before` bytes behind where it may begin."""

    kind: str
    mark: bytes
    pattern: re.Pattern[bytes]
    before: int = 0


def _token(kind: str, mark: str, rest: str) -> Rule:
    begins = rf"(?<![A-Za-z0-9_-]){re.escape(mark)}{rest}"
    return Rule(kind, mark.encode(), re.compile(begins.encode()))


_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    # Line ends, quotes and headers come before the key itself, as text or within a string.
    rb"(?:\\[nrt]|[\s\"',+#bBrRuUfF]|[A-Z][A-Za-z-]{2,20}: [^\n\\]{1,100}(?:\n|\\n)){0,60}"
    rb"[A-Za-z0-9+/=]{32}"
)
_KEY_FILE = re.compile(
    rb"\A(?:\s|#[^\n]*\n|//[^\n]*\n)*-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)
RULES = (
    Rule("a private key", b"PRIVATE KEY", _PRIVATE_KEY, before=60),
    _token("a Hugging Face token", "hf_", r"[A-Za-z0-9]{30,}"),
    *(_token("a GitHub token", f"gh{kind}_", r"[A-Za-z0-9]{36,}") for kind in "pousr"),
    _token("a GitHub token", "github_pat_", r"[A-Za-z0-9_]{50,}"),
    _token("a GitLab token", "glpat-", r"[A-Za-z0-9_-]{20,}"),
    _token("an API key", "sk-", r"(?=[\w-]*[0-9])(?=[\w-]*[A-Z])[A-Za-z0-9_-]{32,}"),
    _token("an AWS key", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("an AWS key", "ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("a Slack token", "xox", r"[abeoprs]-[A-Za-z0-9-]{20,}"),
    _token("a Slack webhook", "hooks.slack.com/services/", r"[A-Za-z0-9/]{30,}"),
    _token("a Google key", "AIza", r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _token("a Google token", "ya29.", r"[A-Za-z0-9_-]{20,}"),
    _token("an npm token", "npm_", r"[A-Za-z0-9]{36}"),
    _token("a PyPI token", "pypi-", r"[A-Za-z0-9_-]{80,}"),
    _token("a Docker token", "dckr_pat_", r"[A-Za-z0-9_-]{20,}"),
    _token("an NVIDIA key", "nvapi-", r"[A-Za-z0-9_-]{40,}"),
)


def is_secret_name(name: str) -> bool:
    """Return whether a file of this name probably holds a secret."""
    return any(fnmatchcase(name.lower(), pattern) for pattern in NAMES)


def is_secret_folder(path: str) -> bool:
    """Return whether a folder holds keys; `path` is relative, with slashes."""
    return any(f"/{path.lower()}".endswith(f"/{folder}") for folder in FOLDERS)


def found_in(name: str, content: bytes) -> str:
    """Return where in a file a secret is and which, as the beginning of a sentence without the
    secret itself: `line 3 holds a GitHub token`; "" where none is found."""
    content = _as_utf8(content)
    if name.lower().endswith(".ipynb"):
        for number, text in enumerate(_cells(content), 1):
            if secret := _first(text.encode(errors="replace")):
                return f"cell {number} holds {secret[1]}"
    if _KEY_FILE.match(content, 0, HEAD):
        return "it holds a private key"
    if secret := _first(content):
        line = content.count(b"\n", 0, secret[0]) + 1
        return f"line {line} holds {secret[1]}"
    return ""


def _as_utf8(content: bytes) -> bytes:
    """Return text that a byte order mark says to be UTF-16 or UTF-8 as UTF-8 without the mark."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace").encode(errors="replace")
    return content.removeprefix(codecs.BOM_UTF8)


def _first(content: bytes) -> tuple[int, str] | None:
    """Return the place of the first secret, and its kind."""
    places = [(at, rule.kind) for rule in RULES if (at := _place(rule, content)) is not None]
    return min(places, default=None)


def _place(rule: Rule, content: bytes) -> int | None:
    at = -1
    for _ in range(MOST_MARKS):
        at = content.find(rule.mark, at + 1)
        if at < 0:
            return None
        begins = max(0, at - rule.before)
        match = (
            rule.pattern.search(content, begins, at + 10_000)
            if rule.before
            else rule.pattern.match(content, at)
        )
        if match is not None and _is_real(match.group()):
            return match.start()
    return None


def _is_real(secret: bytes) -> bool:
    return len(set(secret)) >= _FEWEST_LETTERS and b"example" not in secret.lower()


def _cells(content: bytes) -> Iterator[str]:
    """Give the text of each cell of a notebook, what it printed included; nothing for a file that
    is none."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return
    cells = document.get("cells") if isinstance(document, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        yield "\n".join(_texts(cell))


def _texts(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            if all(isinstance(part, str) for part in value):
                # The lines of one text, which may divide what belongs together.
                yield "".join(map(str, value))
            else:
                waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(list(value.values()))


@dataclass(slots=True)
class OwnKeys:
    """The files of the user's folders of keys, to know a hard link to one of them."""

    home: Path = field(default_factory=Path.home)
    _known: frozenset[tuple[int, int]] | None = None

    def have(self, status: os.stat_result) -> bool:
        """Return whether a regular file is one of them under another name."""
        if status.st_nlink < 2:
            return False
        if self._known is None:
            self._known = frozenset(self._numbers())
        return (status.st_dev, status.st_ino) in self._known

    def _numbers(self) -> Iterator[tuple[int, int]]:
        for count, path in enumerate(self._files()):
            if count >= MOST_KEPT_FILES:
                return
            try:
                status = os.lstat(path)
            except OSError:
                continue
            yield status.st_dev, status.st_ino

    def _files(self) -> Iterator[str]:
        for folder in FOLDERS:
            for place, _, names in os.walk(self.home / folder):
                yield from (os.path.join(place, name) for name in names)
        yield from _secret_names(self.home)


def _secret_names(folder: Path) -> Iterable[str]:
    try:
        return [item.path for item in os.scandir(folder) if is_secret_name(item.name)]
    except OSError:
        return []
