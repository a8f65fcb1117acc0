"""Docker's, requests' and urllib3's errors, translated once into the console's own."""

from __future__ import annotations

import asyncio
import re

import docker.errors
import requests
import urllib3

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import Blame, ConsoleError, EngineError, ImageError, UnreachableError
from gpuconsole.remote.docker.transport import UnboundedAnswerError

BROKEN_CONNECTION = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.HTTPError,
    OSError,
)
"""What a call raises when the engine or the way to it is gone. `APIError` is an OSError too (by
way of requests), so look for an answer of the engine first."""
TEXT_LIMIT = 500
EXPLANATION_LIMIT = 4096
"""Characters of an engine's reason that are looked at."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer of the engine that we can explain."""

    pattern: str
    title: str
    hint: str
    blame: Blame = Blame.HOST
    kind: type[EngineError] = EngineError


# The first that matches. What quotes a task or its image unquoted comes before what blames a host,
# and an error number counts at the end alone, where the system writes it: no name of a mount, a
# program or an image may set hosts aside.
_END = r"(\s*: unknown)?[.\s]*$"
_KNOWN = (
    _Known(
        r"nvidia-container-cli: requirement error|unsatisfied condition",
        "The image asks for another driver",
        "Choose an image for the driver that the host has, or update the driver.",
        Blame.PLACE,
        ImageError,
    ),
    _Known(
        r"bind source path does not exist|invalid mount config",
        "A mounted folder is missing",
        "Create the folder on the host, or take it out of the task's mounts.",
        Blame.PLACE,
    ),
    _Known(
        r"are you trying to mount a directory onto a file"
        r"|(not a directory|is a directory|file exists|too many levels of symbolic links"
        r"|file name too long)" + _END,
        "A mount cannot be made",
        "Mount folders at paths that are folders in the image, or none at all.",
        Blame.PLACE,
    ),
    _Known(
        r"executable file not found|exec: .*(no such file or directory|permission denied)",
        "The image lacks the program",
        "Choose an image that has Python and Paddle.",
        Blame.TASK,
        ImageError,
    ),
    _Known(
        r"exec format error|does not match the (specified|detected host) platform",
        "The image is for another processor",
        "Choose an image for the host's architecture.",
        Blame.PLACE,
        ImageError,
    ),
    _Known(
        r"(no space left on device|disk quota exceeded)" + _END,
        "The host's disk is full",
        "Free space where Docker keeps its data: `docker system df`, `gpuconsole prune`.",
    ),
    _Known(
        r"(input/output error|structure needs cleaning)" + _END,
        "The host's disk fails",
        "Look at the kernel's log on the host (`dmesg`): the disk may have to be replaced.",
    ),
    _Known(
        r"could not select device driver|unresolvable CDI devices",
        "No GPU runtime",
        "Install nvidia-container-toolkit on the host, run `sudo nvidia-ctk runtime configure "
        "--runtime=docker`, then restart Docker.",
    ),
    _Known(
        r"nvidia-container-cli: |error running (prestart |createRuntime )?hook",
        "The GPU runtime failed",
        "Run `nvidia-smi` on the host: the driver may need a restart, or the device is gone.",
    ),
    _Known(
        r"unknown or invalid runtime name|unknown runtime specified",
        "The container runtime is missing",
        "Install the runtime on the host and register it with Docker, then restart Docker.",
    ),
    _Known(
        r"error gathering device information|no such file or directory.*/dev/",
        "A device node is missing",
        "The driver on the host is not loaded, or the device is gone.",
    ),
    _Known(
        r"is already in use by container",
        "The container's name is taken",
        "Remove or rename the container that holds the name.",
        Blame.PLACE,
    ),
    _Known(
        r"error processing tar file",
        "The code cannot be unpacked",
        "Look at what the project ships and at its checkpoints, then submit the job again.",
        Blame.TASK,
    ),
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
"""What an engine quotes is a name that somebody chose."""

_BLAMED = {400: Blame.TASK, 403: Blame.PLACE, 404: Blame.PLACE, 409: Blame.PLACE}
"""What an answer that no pattern explains is due to, by its HTTP status: a request that the engine
finds wrong is the task's, what this host forbids or lacks is the pair's, all else the host's."""

_PULLS = (
    (
        # In the engine's own words: a registry, which the task names, may say anything.
        r"^(failed to (register|extract|prepare|commit) |(write|mkdir|open|symlink|sync|copy) )"
        r".*(no space left on device|disk quota exceeded)" + _END,
        "Free space where Docker keeps its data: `docker system df`.",
        Blame.HOST,
    ),
    (
        r"no such host|i/o timeout|connection refused|network is unreachable|client\.timeout"
        r"|deadline exceeded|tls handshake|lookup |connection reset|no route to host|x509:"
        r"|server misbehaving|temporary failure in name resolution|http response to https client"
        r"|unexpected eof|proxyconnect",
        "The host cannot reach the registry: check its network and proxy, or load the image there "
        "with `docker load`.",
        Blame.IMAGE,
    ),
    (
        r"toomanyrequests|rate limit",
        "The registry limits pulls: run `docker login` on this machine, or wait.",
        Blame.IMAGE,
    ),
    (
        r"no matching manifest|cannot be used on this platform",
        "Choose an image for the host's architecture.",
        Blame.PLACE,
    ),
    (
        r"access denied|unauthorized|authentication required|no basic auth|incorrect username"
        r"|denied:|forbidden",
        "Check the name; if the registry is private, run `docker login` for it on this machine.",
        Blame.TASK,
    ),
    (
        r"manifest unknown|not found|no such image|does not exist|invalid reference format"
        r"|must be lowercase",
        "Check the image's name and tag.",
        Blame.TASK,
    ),
)
"""What a pull's own words are due to; the first that matches. What matches none (a registry that
is out of order says a number and little more) is taken for a fault that passes."""


def translate(error: Exception, host: str, doing: str) -> ConsoleError:
    """Return the console's error for one raised while `doing` (an -ing phrase) on a host."""
    if isinstance(error, ConsoleError):
        return error
    if isinstance(error, docker.errors.APIError):
        return _answered(str(error.explanation or error), host, doing, status_of(error))
    if unreadable := _unreadable(error):
        return EngineError(
            "Docker's answer cannot be read",
            msg(
                "While {doing}, the engine of {host} {unreadable}.",
                doing=doing,
                host=host,
                unreadable=unreadable,
            ),
            "Look at what serves the Docker socket there; `gpuconsole check` asks it.",
        )
    if isinstance(error, BROKEN_CONNECTION):
        return unreachable(host, doing, error)
    return EngineError(
        "Docker cannot be used",
        msg(
            "{host}, while {doing}: {why}",
            host=host,
            doing=doing,
            why=clean(str(error), TEXT_LIMIT),
        ),
    )


def is_broken(error: Exception) -> bool:
    """Whether a call failed by the engine, or the way to it, being gone."""
    broken = isinstance(error, (docker.errors.DockerException, *BROKEN_CONNECTION))
    return broken and status_of(error) is None and not _unreadable(error)


def translated(answer: str, host: str, doing: str) -> EngineError:
    """Return the console's error for what an engine said in the middle of a stream."""
    return _answered(answer, host, doing)


def unreachable(host: str, doing: str, error: Exception) -> UnreachableError:
    """Return the error for an engine that broke off or never answered."""
    reason = "no answer in time" if _is_timeout(error) else "the connection broke"
    return UnreachableError(
        "Docker does not answer",
        msg("{host}, while {doing}: {reason}.", host=host, doing=doing, reason=reason),
        "Look at Docker on the host: `systemctl status docker`.",
    )


def image_error(image: str, host: str, reason: str, blame: Blame | None = None) -> ImageError:
    """Return the error for an image that cannot be had, with the registry's own words, which also
    say what it is due to where `blame` does not."""
    said = clean(reason, TEXT_LIMIT)
    hints = ((hint, blame) for words, hint, blame in _PULLS if re.search(words, said, re.I))
    hint, due = next(hints, ("Try `docker pull` on the host.", Blame.IMAGE))
    return ImageError(
        "Image cannot be had",
        msg("{image} on {host}: {said}", image=image, host=host, said=said),
        hint,
        blame=blame or due,
    )


def no_registry_has(image: str, host: str) -> ImageError:
    """Return the error for an image that is named by its id, which only hosts know."""
    return ImageError(
        "Image cannot be had",
        msg(
            "{host} does not have {image}, and no registry can be asked for an id.",
            host=host,
            image=clean(image, 200),
        ),
        msg(
            "Bring it from a host that has it: gpuconsole image copy {image} --from "
            "HOST --to {host}",
            image=image,
            host=host,
        ),
        blame=Blame.PLACE,
    )


def checked(response: requests.Response) -> requests.Response:
    """Return the response if it is a success, else raise the SDK's own error for it."""
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        docker.errors.create_api_error_from_http_exception(error)
    return response


def answer_of(error: ConsoleError) -> str:
    """Return the engine's own words behind an error, without ours around them."""
    cause = error.__cause__
    return str(cause.explanation) if isinstance(cause, docker.errors.APIError) else error.message


def status_of(error: Exception) -> int | None:
    """Return the HTTP status with which the engine answered."""
    return error.status_code if isinstance(error, docker.errors.APIError) else None


def _unreadable(error: BaseException | None) -> str:
    """Return what the engine did wrong in its answer; "" where none came or it could be read."""
    while error is not None:
        if isinstance(error, UnboundedAnswerError):
            return str(error)
        if isinstance(error, RecursionError):
            return "sent an answer that is nested too deep"
        if isinstance(error, requests.exceptions.InvalidJSONError):
            return "sent an answer that is not JSON"
        # The SDK wraps what goes wrong when it connects.
        error = error.__cause__
    return ""


def _answered(explanation: str, host: str, doing: str, status: int | None = None) -> EngineError:
    explanation = explanation[:EXPLANATION_LIMIT]
    said = f"{host}, while {doing}: {clean(explanation, TEXT_LIMIT)}"
    words = _QUOTED.sub('""', explanation)
    for error in _KNOWN:
        if re.search(error.pattern, words, re.IGNORECASE):
            return error.kind(error.title, said, error.hint, blame=error.blame)
    return EngineError("Docker refused", said, blame=_BLAMED.get(status or 0, Blame.HOST))


def _is_timeout(error: Exception) -> bool:
    # Until Python 3.11 the one of asyncio is none of the others.
    timeouts = (
        requests.Timeout,
        urllib3.exceptions.TimeoutError,
        TimeoutError,
        asyncio.TimeoutError,
    )
    return isinstance(error, timeouts) or "timed out" in str(error)
