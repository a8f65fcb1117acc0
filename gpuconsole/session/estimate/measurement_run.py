"""Measuring a script in this machine's sandbox; the answer of a measurement wherever it runs."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import NotHereError, RefusedError, ScriptFailedError
from gpuconsole.preflight.tiers.probe_request import probe_files
from gpuconsole.remote.isolation.claimed_folders import scratch_folder
from gpuconsole.remote.isolation.probe_output import lines
from gpuconsole.session.estimate.outside_folders import named_outside

if TYPE_CHECKING:
    from gpuconsole.remote.isolation.sandbox import Sandbox

_DOCUMENT = b'{"document":'
_MESSAGES = (b'{"progress":', b'{"error":')
"""How lines of the probe begin."""
_LONGEST_MESSAGE = 256 * 2**10
"""Bytes; the longest is an error with the last 8000 characters of the script's output."""
_MOST_SAID = 2000
"""Bytes of a line that are looked at where it is no message."""

_DATA = (
    "Put what it reads where it looks for it, or a few samples of that kind: they decide shapes."
)
_OF_PLACE = ("paddle", "request", "download", "library", "data")
"""Kinds of errors of the probe that are due to where it runs: another place may not give them."""
_OF_SCRIPT = "script"
"""The kind of an error of the probe for which the script itself is to blame, for certain."""

Progress = Callable[[float, str], None]
"""Called with the fraction done, 0-1, and what is being done."""


async def here(
    sandbox: Sandbox, shown: Sequence[Path], request: Mapping[str, Any], progress: Progress
) -> bytes:
    """Measure on this machine, in its sandbox, which shows these files and folders. Those of the
    project are laid out in its place, where what the script writes is thrown away.

    The same errors, and UsageError without a sandbox.
    """
    from gpuconsole.remote.isolation.filesystem_view import Overlay

    root = Path(request["root"])
    own = tuple(path.resolve() for path in shown if path.resolve().is_relative_to(root))
    # Without a view of its own the script would write to the folders themselves.
    outside: tuple[Path, ...] = ()
    if sandbox.bubblewrap:
        outside = await asyncio.to_thread(named_outside, own, root, request["args"])
    overlay = Overlay(root, own, outside=outside)
    files = None if root in own else [str(path.relative_to(root)) for path in own]
    async with scratch_folder("gpuconsole-measure-") as folder:
        scratch, probe = folder / "scratch", folder / "probe"
        scratch.mkdir()
        probe.mkdir()
        for name, file in probe_files().items():
            (probe / name).parent.mkdir(parents=True, exist_ok=True)
            (probe / name).write_bytes(file.read_bytes())
        source, place = sandbox.places(overlay, scratch)
        places = {"root": str(place), "source": str(source), "outside": [*map(str, outside)]}
        linked = sandbox.kind == "bubblewrap"
        asked = {**request, **places, "files": files, "linked": linked}
        others = [path for path in shown if path.resolve() not in own]
        said = sandbox.lines(
            [str(probe / "probe.py")], stdin=json.dumps(asked).encode(),
            readable=[probe, *others], scratch=scratch, overlay=overlay,
        )  # fmt: skip
        async with contextlib.aclosing(said) as reading:
            return await _answer(reading, progress)


def pack_probe(target: Path, request: Mapping[str, Any]) -> None:
    """Write a tar of the probe's files, with the request beside them."""
    code = [(name, file.read_bytes()) for name, file in probe_files().items()]
    files = (*code, ("request.json", json.dumps(request).encode()))
    with tarfile.open(target, "w") as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))


async def followed(log: AsyncIterator[bytes], progress: Progress, *, narrow: bool = False) -> bytes:
    """Return the document in the log of a measurement; RefusedError with what it said instead.
    `narrow` tells that another place may give it more memory."""
    async with (
        contextlib.aclosing(log) as chunks,  # type: ignore[type-var]
        contextlib.aclosing(lines(chunks)) as reading,
    ):
        return await _answer(reading, progress, (*_OF_PLACE, "memory") if narrow else _OF_PLACE)


async def _answer(
    said: AsyncIterator[bytes], progress: Progress, of_place: Sequence[str] = _OF_PLACE
) -> bytes:
    """Follow the answer to its end and return its document as it was written.

    What is no message is the script's own chatter. Nothing long is parsed here: the document is
    of any size, and read where scripts are read.
    """
    last = ""
    async for line in said:
        if line.startswith(_DOCUMENT):
            progress(1.0, "measured")
            return line.partition(b":")[2].strip()[:-1]
        message = _message(line)
        if message is None:
            last = clean(line[:_MOST_SAID].decode("utf-8", "replace"), 300).strip() or last
        elif isinstance(message.get("error"), dict):
            raise _refused(message["error"], of_place)
        else:
            progress(_share(message.get("progress")), clean(_text(message.get("stage")), 80))
    raise RefusedError(
        "The measurement broke off",
        msg("It ended without an answer{value}", value=": " + last if last else "."),
        "The static tier answers without running the script.",
    )


def with_facts(document: bytes, facts: Mapping[str, str]) -> bytes:
    """Return a document with what is known from elsewhere, which wins over what it says itself."""
    return document[:-1] + b"," + json.dumps(facts).encode()[1:]


def _share(said: object) -> float:
    """Return a share from 0 to 1, whatever was said (a number may be huge, or none at all)."""
    return float(min(1.0, max(0.0, said))) if isinstance(said, (int, float)) else 0.0


def _text(said: object) -> str:
    """Return a text, whatever was said."""
    return said if isinstance(said, str) else ""


def _message(line: bytes) -> dict[str, Any] | None:
    """Return the progress or the error that a line tells; None where it tells neither."""
    if not line.startswith(_MESSAGES) or len(line) > _LONGEST_MESSAGE:
        return None
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _refused(error: Mapping[str, Any], of_place: Sequence[str]) -> RefusedError:
    file, line = _text(error.get("file")), error.get("line")
    place = f"{file}:{line if isinstance(line, int) else '?'}: " if file else ""
    said = clean(f"{place}{_text(error.get('message')) or 'no reason was given'}", 500)
    tail = [clean(line, 200) for line in _text(error.get("output")).splitlines() if line.strip()]
    hint = f"It said last: {tail[-1]}" if tail else "The static tier answers without running it."
    if error.get("kind") == "data":
        hint = _DATA
    words = ("The script cannot be measured", said, hint)
    if error.get("kind") == _OF_SCRIPT and isinstance(line, int):
        return ScriptFailedError(*words, file=file, line=line)
    return (NotHereError if error.get("kind") in of_place else RefusedError)(*words)
