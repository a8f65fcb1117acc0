"""Whom an engine's words blame: the host, an image on it, this task there, or the task itself."""

from __future__ import annotations

import docker
import pytest
import requests

from gpuconsole.errors import Blame, EngineError, ImageError, UnreachableError, UsageError
from gpuconsole.remote.docker.errors import image_error, no_registry_has, translate, translated

RUNC = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed:"
    " runc create failed: unable to start container process: "
)


def answered(status: int, words: str) -> Exception:
    response = requests.Response()
    response.status_code = status
    error = docker.errors.APIError("refused", response=response, explanation=words)
    return translate(error, "gpu-01", "starting a")


@pytest.mark.parametrize(
    ("status", "words", "title", "blame"),
    [
        # Of the host.
        (
            500,
            'could not select device driver "nvidia" with capabilities: [[gpu]]',
            "No GPU runtime",
            Blame.HOST,
        ),
        (
            400,
            'could not select device driver "" with capabilities: [[gpu]]',
            "No GPU runtime",
            Blame.HOST,
        ),
        (
            500,
            RUNC + "error during container init: error running prestart hook #0: exit status 1,"
            " stderr: nvidia-container-cli: initialization error: nvml error: driver not loaded",
            "The GPU runtime failed",
            Blame.HOST,
        ),
        (
            500,
            RUNC + "error running createRuntime hook #1: exit status 1",
            "The GPU runtime failed",
            Blame.HOST,
        ),
        (
            500,
            "mkdir /var/lib/docker/overlay2/0f-init: no space left on device",
            "The host's disk is full",
            Blame.HOST,
        ),
        (
            500,
            "Error processing tar file(exit status 1): write /w/x: no space left on device",
            "The host's disk is full",
            Blame.HOST,
        ),
        (
            500,
            "error creating overlay mount to /var/lib/docker/overlay2/a/merged: input/output error",
            "The host's disk fails",
            Blame.HOST,
        ),
        (
            500,
            'error gathering device information while adding custom device "/dev/davinci0": no'
            " such file or directory",
            "A device node is missing",
            Blame.HOST,
        ),
        (400, "unknown or invalid runtime name: ascend", "The container runtime is missing",
         Blame.HOST),
        (500, "something that no table knows", "Docker refused", Blame.HOST),
        # Of this task on this host.
        (
            500,
            RUNC + "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4",
            "The image asks for another driver",
            Blame.PLACE,
        ),
        (
            500,
            "lstat /var/lib/docker/overlay2/4a/merged/etc/hosts/x: not a directory",
            "A mount cannot be made",
            Blame.PLACE,
        ),
        (
            500,
            RUNC + 'error during container init: error mounting "/data" to rootfs at "/etc/hosts":'
            " mount /data:/etc/hosts, flags: 0x5000: not a directory: unknown:"
            " Are you trying to mount a directory onto a file (or vice-versa)? Check if the"
            " specified host path exists and is the expected type",
            "A mount cannot be made",
            Blame.PLACE,
        ),
        (
            400,
            'invalid mount config for type "bind": bind source path does not exist: /data',
            "A mounted folder is missing",
            Blame.PLACE,
        ),
        (500, "exec /usr/bin/python: exec format error", "The image is for another processor",
         Blame.PLACE),
        (403, "authorization denied by plugin quota", "Docker refused", Blame.PLACE),
        (404, "network gpuconsole-lab not found", "Docker refused", Blame.PLACE),
        (409, 'Conflict. The container name "/x" is already in use by container "1"',
         "The container's name is taken", Blame.PLACE),
        # Of the task.
        (
            400,
            RUNC + 'exec: "paddle": executable file not found in $PATH: unknown',
            "The image lacks the program",
            Blame.TASK,
        ),
        (
            400,
            RUNC + 'exec: "/run.sh": permission denied: unknown',
            "The image lacks the program",
            Blame.TASK,
        ),
        (400, "Minimum memory limit allowed is 6MB", "Docker refused", Blame.TASK),
        (
            500,
            "Error processing tar file(exit status 1): link /a /b: no such file or directory",
            "The code cannot be unpacked",
            Blame.TASK,
        ),
    ],
)  # fmt: skip
def test_an_answer_of_the_engine(status: int, words: str, title: str, blame: Blame) -> None:
    error = answered(status, words)
    assert isinstance(error, EngineError)
    assert (error.title, error.blame) == (title, blame)


@pytest.mark.parametrize(
    "words",
    [
        'invalid mount config for type "bind": bind source path does not exist: /x: no space left'
        " on device",
        RUNC + "nvidia-container-cli: requirement error: unsatisfied condition: no space left on"
        " device",
        RUNC + 'exec: "error running hook: no space left on device": executable file not found in'
        " $PATH: unknown",
        RUNC + r'exec: "a\": nvidia-container-cli: ": permission denied: unknown',
        "No such image: lab/nvidia-container-cli:1",
        "invalid volume: no space left on device/x is no absolute path",
        "mkdir /var/lib/docker/merged/x: input/output error/aaa: file name too long",
        "Error processing tar file(exit status 1): open /workspace/no space left on device: is a"
        " directory",
    ],
)
def test_no_name_of_a_task_blames_the_host(words: str) -> None:
    error = answered(404 if words.startswith("No such") else 400, words)
    assert isinstance(error, EngineError)
    assert error.blame is not Blame.HOST


@pytest.mark.parametrize(
    "words",
    [
        "denied: no space left on device",
        "unknown: write /var/lib/docker/x: no space left on device",
        "received unexpected HTTP status: 500 disk quota exceeded",
    ],
)
def test_no_registry_blames_the_host(words: str) -> None:
    assert image_error("reg/img:1", "gpu-01", words).blame is not Blame.HOST


@pytest.mark.parametrize(
    ("words", "blame"),
    [
        ('Get "https://reg/v2/": dial tcp: lookup reg on 10.0.0.2:53: no such host', Blame.IMAGE),
        ('Get "https://reg/v2/": dial tcp: lookup reg: server misbehaving', Blame.IMAGE),
        ('Get "https://reg/v2/": dial tcp 10.1.1.1:443: connect: connection refused', Blame.IMAGE),
        ('Get "https://reg/v2/": dial tcp 10.1.1.1:443: i/o timeout', Blame.IMAGE),
        ("net/http: TLS handshake timeout", Blame.IMAGE),
        ("read tcp 10.0.0.9:3456->10.1.1.1:443: read: connection reset by peer", Blame.IMAGE),
        ("received unexpected HTTP status: 503 Service Unavailable", Blame.IMAGE),
        ("received unexpected HTTP status: 500 Internal Server Error", Blame.IMAGE),
        ("unexpected EOF", Blame.IMAGE),
        ("x509: certificate signed by unknown authority", Blame.IMAGE),
        ("http: server gave HTTP response to HTTPS client", Blame.IMAGE),
        ("toomanyrequests: You have reached your pull rate limit.", Blame.IMAGE),
        ("failed to register layer: write /x: no space left on device", Blame.HOST),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", Blame.PLACE),
        ("manifest for reg/img:500 not found: manifest unknown: manifest unknown", Blame.TASK),
        (
            "pull access denied for img, repository does not exist or may require 'docker login':"
            " denied: requested access to the resource is denied",
            Blame.TASK,
        ),
        ("unauthorized: authentication required", Blame.TASK),
        ("invalid reference format: repository name must be lowercase", Blame.TASK),
    ],
)
def test_a_pull(words: str, blame: Blame) -> None:
    error = image_error("reg/img:1", "gpu-01", words)
    assert isinstance(error, ImageError)
    assert error.blame is blame
    assert words in error.message


def test_errors_that_are_no_answers() -> None:
    assert no_registry_has("sha256:1f", "gpu-01").blame is Blame.PLACE
    assert image_error("i", "h", "No such image: i", Blame.PLACE).blame is Blame.PLACE
    assert UsageError("Packed project is gone", "x").blame is Blame.TASK
    assert UnreachableError("Docker does not answer", "x").host == ""
    assert translated("what a stream says", "h", "taking an image").blame is Blame.HOST
