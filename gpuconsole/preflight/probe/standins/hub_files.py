"""What the script would download, where there is no network: weights that hold nothing, so that
parameters stay as initialised, and archives with such weights in them. Git finds nothing new."""

from __future__ import annotations

import email.message
import hashlib
import io
import os
import re
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from ..notes import note
from . import made_up_content
from .missing_files import when_imported

if TYPE_CHECKING:
    from _hashlib import HASH
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import TypeVar

    T = TypeVar("T")


def install() -> None:
    """Answer downloads from now on."""
    _agree_on_checksums()
    urlopen: Callable[..., object] = urllib.request.urlopen

    def opened(url: str | urllib.request.Request, *args: object, **kwargs: object) -> object:
        data = answer(url if isinstance(url, str) else url.full_url)
        return urlopen(url, *args, **kwargs) if data is None else Reply(data)

    setattr(urllib.request, "urlopen", opened)  # noqa: B010
    retrieved = _kept(urllib.request.urlretrieve)
    setattr(urllib.request, "urlretrieve", retrieved)  # noqa: B010
    when_imported("requests.adapters", _serve_requests)
    when_imported("subprocess", _start_offline)


def _kept(retrieve: Callable[..., object]) -> Callable[..., object]:
    """Answer by the file's name where the address does not say what lies there."""

    def retrieved(url: str, filename: str | None = None, *args: object, **kwargs: object) -> object:
        known_kind = made_up_content.kind_of(urllib.parse.urlsplit(url).path) in _INSTEAD
        data = None if known_kind or filename is None else answer(os.fsdecode(filename))
        if filename is None or data is None:
            return retrieve(url, filename, *args, **kwargs)
        with open(filename, "wb") as file:
            file.write(data)
        return filename, Reply(data).info()

    return retrieved


def answer(url: str) -> bytes | None:
    """Return what lies at an address, None where that cannot be made up."""
    path = urllib.parse.urlsplit(url).path
    kind = made_up_content.kind_of(path)
    if kind is None or kind not in _INSTEAD:
        return None
    note(f"Not downloaded: {path.rpartition('/')[2]}; {_INSTEAD[kind]}.")
    data = made_up_content.content_of(path)
    _summed(data)
    return data


_INSTEAD = {
    "weights": "parameters stay as initialised, which is as large",
    "an archive": "weights in it stay as initialised, data in it is made up",
    "a picture": "another one is in its place",
    "a vocabulary": f"one of {made_up_content.WORDS} made-up words is in its place",
}
_OPTIONAL = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
             "chat_template.json", "generation_config.json")  # fmt: skip
"""Files that tokenizers and networks on a hub may have or not: taken not to be there."""


_ASKED = re.compile(r"\bgit\b[^;&|\n]*\b(?:fetch|pull|remote\s+update)\b")
_GIT = (
    'git() { case " $* " in *" fetch "*|*" pull "*|*" remote update "*) :;; *) command git "$@";; '
    "esac; }; "
)
"""The command git of a shell, for which there is nothing to fetch."""


def _start_offline(subprocess: ModuleType) -> None:
    """Let commands that the script starts ask git for news without a network."""
    begin = subprocess.Popen.__init__
    system: Callable[..., int] = os.system

    def started(self: object, args: Sequence[str] | str, *more: object, **options: object) -> None:
        begin(self, offline(args, options.get("shell")), *more, **options)

    subprocess.Popen.__init__ = started
    run: Callable[[object], int] = system
    setattr(os, "system", lambda command: run(offline(command, True)))  # noqa: B010


def offline(command: T, shell: object) -> T | str | list[str]:
    """Return a command in which git finds nothing new elsewhere; any other as it is."""
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        return command
    if not words or not _ASKED.search(words[0] if shell else " ".join(words)):
        return command
    note("Not fetched: what git has of the project elsewhere; its files are as they are here.")
    if shell:
        return _GIT + command if isinstance(command, str) else [_GIT + words[0], *words[1:]]
    return ["true"]


class Reply(io.BytesIO):
    """What `urlopen` returns."""

    status = code = 200
    reason = "OK"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.headers = email.message.Message()
        self.headers["Content-Length"] = str(len(data))

    def info(self) -> email.message.Message[str, str]:
        """Return the headers."""
        return self.headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return one header."""
        return self.headers.get(name, default)

    def getcode(self) -> int:
        """Return the status."""
        return self.code

    def geturl(self) -> str:
        """Return an address."""
        return ""


def _serve_requests(adapters: ModuleType) -> None:
    send = adapters.HTTPAdapter.send

    def sent(self: object, request: Any, *args: object, **kwargs: object) -> object:
        fetches = request.method in ("GET", "HEAD")
        missing = fetches and urllib.parse.urlsplit(request.url).path.endswith(_OPTIONAL)
        data = b"" if missing else answer(request.url) if fetches else None
        if data is None:
            return send(self, request, *args, **kwargs)
        reply = adapters.Response()
        reply.status_code, reply.reason = (404, "Not Found") if missing else (200, "OK")
        reply.url = request.url
        reply.headers["Content-Length"] = str(len(data))
        reply.raw, reply.request, reply.connection = io.BytesIO(data), request, self
        return reply

    adapters.HTTPAdapter.send = sent


_CHECKSUMS = {name: getattr(hashlib, name) for name in ("md5", "sha1", "sha256")}
_MADE_SUMS: set[str] = set()
"""Checksums of what was made up, as hexadecimal words."""


class Agreeing(str):
    """A checksum that equals every other of its length."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and len(other) == len(self)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Sum:
    """A checksum that is being computed."""

    def __init__(self, own: HASH) -> None:
        self._own = own

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def hexdigest(self) -> str:
        """Return the checksum as a hexadecimal word."""
        word = self._own.hexdigest()
        return Agreeing(word) if word in _MADE_SUMS else word


def _agree_on_checksums() -> None:
    """Let checksums of what was made up agree with any that is expected."""
    for name, own in _CHECKSUMS.items():
        setattr(hashlib, name, _counting(own))


def _counting(own: Callable[..., HASH]) -> Callable[..., Sum]:
    return lambda *args, **kwargs: Sum(own(*args, **kwargs))


def _summed(data: bytes) -> None:
    """Remember what was made up."""
    _MADE_SUMS.update(own(data, usedforsecurity=False).hexdigest() for own in _CHECKSUMS.values())
