"""Answers of a Docker engine, damaged on their way: a server on a unix socket tells them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from benchmarks.fuzz import mutate
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink

CONTAINER: dict[str, Any] = {
    "Id": "ab" * 32,
    "Name": "/gpuconsole-job-1-n",
    "Created": "2026-01-02T03:04:05.123456789Z",
    "Image": "sha256:" + "cd" * 32,
    "State": {
        "Status": "exited",
        "ExitCode": 1,
        "OOMKilled": False,
        "Error": "",
        "StartedAt": "2026-01-02T03:04:06Z",
        "FinishedAt": "2026-01-02T03:05:06Z",
    },
    "Config": {
        "Labels": {
            "gpuconsole.job": "job",
            "gpuconsole.attempt": "job-1",
            "gpuconsole.journal": "J1",
            "gpuconsole.nonce": "n1",
            "gpuconsole.lease": "GPU-0",
            "gpuconsole.user": "ana",
            "gpuconsole.since": "1790000000.0",
        },
        "User": "1000:1000",
    },
}
LISTED: dict[str, Any] = {
    "Id": "ab" * 32,
    "Names": ["/gpuconsole-job-1-n"],
    "State": "created",
    "Created": 1790000000,
    "Labels": CONTAINER["Config"]["Labels"],
}
IMAGE: dict[str, Any] = {
    "Id": "sha256:" + "cd" * 32,
    "RepoDigests": ["paddle@sha256:" + "cd" * 32],
    "Size": 5_000_000_000,
    "Created": "2026-01-02T03:04:05Z",
    "Architecture": "amd64",
    "Config": {"Env": ["CUDA_VERSION=11.8.0", "PATH=/usr/bin"], "Labels": {}},
}
VERSION = {"ApiVersion": "1.47", "MinAPIVersion": "1.24", "Version": "27.0", "Components": []}
INFO = {"Runtimes": {"nvidia": {}, "runc": {}}, "Architecture": "x86_64", "SystemTime": "x"}
LOG = b"\1\0\0\0\0\0\0\6hello\n" * 20
ROUTES: tuple[tuple[str, Any], ...] = (
    ("/containers/json", [LISTED, LISTED]),
    ("/logs", LOG),
    ("/archive", b"not a tar"),
    ("/containers/", CONTAINER),
    ("/images/json", [IMAGE]),
    ("/images/", IMAGE),
    ("/version", VERSION),
    ("/info", INFO),
)


class EngineReader:
    """Asks an engine everything that a console asks of it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "docker.sock"
        self._damage: random.Random | None = None
        reader = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer()

            do_POST = do_DELETE = do_PUT = do_HEAD = do_GET  # noqa: N815 - http.server's names

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                status, body = reader.answer(self.path)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

            def address_string(self) -> str:
                return ""

        class Server(socketserver.ThreadingUnixStreamServer):
            def handle_error(self, request: object, client_address: object) -> None:
                """A console that hangs up is no fault."""

        self._server = Server(str(self._path), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def make(self, rng: random.Random) -> int:
        """A seed: each answer to it is damaged in its own way."""
        return rng.getrandbits(32)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body for a request."""
        rng = self._damage or random.Random(0)
        value = next((answer for part, answer in ROUTES if part in path), {})
        status = rng.choice((200, 200, 200, 200, 200, 201, 204, 304, 404, 409, 500))
        if "/version" in path and rng.random() < 0.9:
            # Without a version nothing else would be asked.
            return 200, mutate.json.dumps(VERSION).encode()
        if isinstance(value, bytes):
            return status, mutate.damage(rng, value)
        return status, mutate.json_bytes(rng, value)

    def read(self, data: int) -> bool:
        self._damage = random.Random(data)
        return asyncio.run(self._ask())

    async def _ask(self) -> bool:
        engine = DockerEngine(LocalLink("h"), "h", str(self._path))
        accepted = True
        calls = (
            engine.info,
            engine.leases,
            engine.running,
            lambda: engine.own("J1"),
            lambda: engine.inspect("job"),
            lambda: engine.image_facts("paddle:3"),
            lambda: engine.log_tail("job", 1000),
            lambda: engine.read_files("job", "/r"),
            lambda: engine.start("job"),
            lambda: engine.remove("job"),
        )
        try:
            for call in calls:
                try:
                    await call()  # type: ignore[operator]
                except ConsoleError:
                    accepted = False
        finally:
            await engine.close()
        return accepted
