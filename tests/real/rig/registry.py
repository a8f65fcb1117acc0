"""A private image registry on loopback with one small image, for tests of pulls."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = "team/tool"
LAYER = 2 * 2**20
"""Bytes of the image's one layer, which does not compress."""


class Registry:
    """Serves `NAME:1` to whoever logs in as `user`. Use as a context manager."""

    def __init__(self, user: str, password: str) -> None:
        self.login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._blobs: dict[str, bytes] = {}
        self._manifest = self._build()
        self.pause_s = 0.05
        """Rest after each eighth of a large body, seconds."""
        self.cut = 0
        """Large bodies that the far end did not take to their end."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    @property
    def address(self) -> str:
        """Host and port. An engine takes a registry on loopback without TLS."""
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Registry:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, login: str) -> tuple[int, str, bytes]:
        """Return status, content type and body for a request."""
        if login != f"Basic {self.login}":
            return 401, "application/json", b'{"errors":[{"code":"UNAUTHORIZED"}]}'
        if path == "/v2/":
            return 200, "application/json", b"{}"
        known = {f"/v2/{NAME}/blobs/{digest}": blob for digest, blob in self._blobs.items()}
        for reference in ("1", _digest(self._manifest)):
            known[f"/v2/{NAME}/manifests/{reference}"] = self._manifest
        if path not in known:
            return 404, "application/json", b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}'
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        return 200, kind if "manifests" in path else "application/octet-stream", known[path]

    def _build(self) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            entry = tarfile.TarInfo("data")
            entry.size = LAYER
            tar.addfile(entry, io.BytesIO(os.urandom(LAYER)))
        layer = gzip.compress(out.getvalue(), 1)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [_digest(out.getvalue())]},
            }
        ).encode()
        words = "application/vnd.docker."
        manifest = {
            "schemaVersion": 2,
            "mediaType": words + "distribution.manifest.v2+json",
            "config": self._add(config, words + "container.image.v1+json"),
            "layers": [self._add(layer, words + "image.rootfs.diff.tar.gzip")],
        }
        return json.dumps(manifest).encode()

    def _add(self, blob: bytes, kind: str) -> dict[str, object]:
        self._blobs[_digest(blob)] = blob
        return {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, kind, body = registry.answer(self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Docker-Content-Digest", _digest(body))
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="lab"')
            self.end_headers()
            if self.command == "GET":
                # An engine tells its progress ten times a second: a large body takes longer.
                try:
                    for at in range(0, len(body), LAYER // 8):
                        self.wfile.write(body[at : at + LAYER // 8])
                        time.sleep(registry.pause_s if len(body) > LAYER // 8 else 0)
                except OSError:
                    registry.cut += 1
                    self.close_connection = True

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing on the test's output."""

    return Handler
